from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import subgraph

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.methods.subgcon import SubgCon
from fossil.nn.augment import shuffled

CPU = torch.device("cpu")
NODES, FEATURES, WIDTH = 25, 6, 7


def graph(*, sparse: bool = False, factor: float = 1.0) -> Graph:
    """A random graph with an isolated node and a separate pair."""
    random = np.random.default_rng(0)
    edges = random.random((NODES, NODES)) < 0.08
    np.fill_diagonal(edges, False)
    edges[-3:] = edges[:, -3:] = False
    edges[-1, -2] = True
    features = factor * random.random((NODES, FEATURES), dtype=np.float32)
    stored = sp.csr_array(features) if sparse else features
    return Graph("random", sp.csr_array((edges | edges.T).astype(np.float32)), stored, np.arange(NODES))


def made(**settings: Any) -> SubgCon:
    small = {"width": WIDTH, "context_size": 5, "batch_size": 8, "normalize_features": False}
    method = SubgCon.build(SubgCon.configure(None, small, settings), FEATURES, seed=0)
    with torch.no_grad():
        method.bias.copy_(torch.linspace(-0.3, 0.3, WIDTH))
        method.slopes.copy_(torch.linspace(0.1, 0.6, WIDTH))
    return method


def embed_alone(method: SubgCon, given: Graph, members: Tensor) -> Tensor:
    """The subgraph of `members` taken out of the graph and encoded by PyG."""
    edges = torch.from_numpy(np.stack(given.adjacency.nonzero())).long()
    inside, _ = subgraph(members, edges, num_nodes=NODES)
    position = torch.full((NODES,), -1).scatter(0, members, torch.arange(len(members)))
    convolution, activation = GCNConv(FEATURES, WIDTH), nn.PReLU(WIDTH)
    convolution.lin.weight = nn.Parameter(method.weight.detach().T.clone())
    convolution.bias, activation.weight = method.bias, method.slopes
    embedded: Tensor = activation(convolution(torch.tensor(given.features)[members], position[inside]))
    return embedded


@pytest.mark.parametrize("sparse", [False, True])
def test_subgraphs_are_encoded_alone_as_by_pyg(sparse: bool) -> None:
    method = made()
    prepared = method.prepare(graph(sparse=sparse), CPU)
    centres, summaries = method.embed_subgraphs(prepared, torch.arange(NODES))
    assert prepared.contexts.present.sum(1).tolist()[-3:] == [1, 2, 2]
    for node in range(NODES):
        members = prepared.contexts.nodes[node][prepared.contexts.present[node]]
        expected = embed_alone(method, graph(), members)
        torch.testing.assert_close(centres[node], expected[0])
        torch.testing.assert_close(summaries[node], expected.mean(0))


def test_a_small_batch_projects_its_own_rows_with_the_same_result() -> None:
    method = made()
    prepared = method.prepare(graph(), CPU)
    few, all_nodes = torch.tensor([3, 8]), torch.arange(NODES)
    assert few.numel() * 5 < NODES
    for part, whole in zip(
        method.embed_subgraphs(prepared, few), method.embed_subgraphs(prepared, all_nodes), strict=True
    ):
        torch.testing.assert_close(part, whole[few])


def test_final_embeddings_are_the_centres_of_all_subgraphs() -> None:
    method = made()
    prepared = method.prepare(graph(), CPU)
    centres, _ = method.embed_subgraphs(prepared, torch.arange(NODES))
    torch.testing.assert_close(method.encode(prepared).vectors, centres.detach())


@pytest.mark.parametrize(
    ("similarity", "margin", "some_won"),
    [("inner_product", 0.3, False), ("cosine", 0.3, False), ("inner_product", 0.03, True), ("cosine", 0.001, True)],
)
def test_loss_is_the_papers_with_the_next_of_the_batch_as_the_other(
    similarity: str, margin: float, some_won: bool
) -> None:
    method = made(similarity=similarity, margin=margin)
    prepared = method.prepare(graph(), CPU)
    (objective,) = method.step(prepared, torch.Generator().manual_seed(2))
    batch = shuffled(NODES, torch.Generator().manual_seed(2))[:8]
    h, c = (rows.double() for rows in method.embed_subgraphs(prepared, batch))

    def fit(first: Tensor, second: Tensor) -> Tensor:
        if similarity == "cosine":
            return torch.sigmoid(nn.functional.cosine_similarity(first, second, dim=0) / method.config.temperature)
        return torch.sigmoid(first @ second)

    by_centre, by_summary = [], []
    for i in range(8):
        j = (i - 1) % 8
        by_centre.append((margin - (fit(h[i], c[i]) - fit(h[j], c[i]))).clamp_min(0))
        by_summary.append((margin - (fit(h[j], c[j]) - fit(h[i], c[j]))).clamp_min(0))
    # Unless own summaries have won in some pairs and not in others, it cannot be seen which of them are compared.
    assert (0 < sum(bool(each == 0) for each in by_summary) < 8) is some_won
    expected = torch.stack(by_centre).mean() + torch.stack(by_summary).mean()
    torch.testing.assert_close(objective.terms["loss"].double(), expected, rtol=1e-5, atol=1e-6)


def gradient(**settings: Any) -> float:
    method = made(**settings)
    (objective,) = method.step(method.prepare(graph(factor=1e4), CPU), torch.Generator().manual_seed(2))
    (found,) = torch.autograd.grad(objective.terms["loss"], [method.weight])
    return float(found.abs().max())


def test_long_features_saturate_the_released_score_and_the_remedies_prevent_it() -> None:
    assert gradient(similarity="inner_product") == 0
    assert gradient(similarity="inner_product", normalize_features=True) > 1e-3
    assert gradient(similarity="cosine") > 0


def test_one_node_alone_is_refused() -> None:
    lonely = Graph("one", sp.csr_array((1, 1), dtype=np.float32), np.ones((1, FEATURES), np.float32), np.arange(1))
    with pytest.raises(GraphError, match="one node"):
        made().check_trainable(made().prepare(lonely, CPU))
