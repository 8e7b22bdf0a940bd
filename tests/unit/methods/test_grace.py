from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized
from fossil.methods.grace import Grace

CPU = torch.device("cpu")
NODES, FEATURES = 20, 6


def graph() -> Graph:
    random = np.random.default_rng(0)
    edges = random.random((NODES, NODES)) < 0.2
    np.fill_diagonal(edges, False)
    features = random.random((NODES, FEATURES), dtype=np.float32)
    return Graph("random", sp.csr_array((edges | edges.T).astype(np.float32)), features, np.arange(NODES))


def made(**settings: Any) -> Grace:
    small = {"hidden": 9, "width": 5, "projection": 4}
    return Grace.build(Grace.configure(None, small, settings), FEATURES, seed=0)


def plain_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """The printed formula, node by node, in float64."""
    u, v = (nn.functional.normalize(rows.double(), dim=1) for rows in (first, second))
    total = torch.zeros((), dtype=torch.float64)
    for own, other in ((u, v), (v, u)):
        for i in range(len(own)):
            between = torch.exp(other @ own[i] / temperature)
            within = torch.exp(own @ own[i] / temperature)
            total -= torch.log(between[i] / (between.sum() + within.sum() - within[i])) / 2
    return total / len(u)


@pytest.mark.parametrize("temperature", [0.2, 0.9])
def test_loss_is_the_papers_on_the_two_views_it_drew(temperature: float) -> None:
    method = made(temperature=temperature)
    prepared = method.prepare(graph(), CPU)
    (objective,) = method.step(prepared, torch.Generator().manual_seed(1))
    replay, config = torch.Generator().manual_seed(1), method.config
    first = method.view(prepared, config.edge_drop_1, config.feature_drop_1, replay)
    second = method.view(prepared, config.edge_drop_2, config.feature_drop_2, replay)
    assert not torch.allclose(first, second)
    expected = plain_loss(method.head(first), method.head(second), temperature)
    torch.testing.assert_close(objective.terms["loss"].double(), expected, rtol=1e-5, atol=1e-6)
    found = torch.autograd.grad(objective.terms["loss"], list(method.parameters()))
    for ours, theirs in zip(found, torch.autograd.grad(expected, list(method.parameters())), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("activation", "slope"), [("relu", 0.0), ("prelu", 0.25), ("rrelu", (1 / 8 + 1 / 3) / 2)])
@pytest.mark.parametrize("layers", [1, 2])
def test_embeddings_are_those_of_pygs_convolutions_scaled_to_length_one(
    layers: int, activation: str, slope: float
) -> None:
    method = made(layers=layers, activation=activation)
    hidden = torch.from_numpy(row_normalized(graph().features))
    edges = torch.from_numpy(np.stack(graph().adjacency.nonzero())).long()
    for ours in method.convolutions:
        convolution = GCNConv(*ours.weight.shape)
        convolution.lin.weight = nn.Parameter(ours.weight.detach().T.clone())
        hidden = nn.functional.leaky_relu(convolution(hidden, edges), slope).detach()
    found = method.encode(method.prepare(graph(), CPU)).vectors
    torch.testing.assert_close(found, nn.functional.normalize(hidden, dim=1))


def test_the_length_of_the_embeddings_can_be_kept() -> None:
    vectors = [made(unit_embeddings=unit).encode(made().prepare(graph(), CPU)).vectors for unit in (True, False)]
    torch.testing.assert_close(vectors[0], nn.functional.normalize(vectors[1], dim=1))
    assert vectors[1].norm(dim=1).std() > 0.001


def test_nothing_dropped_makes_a_view_of_the_graph_as_it_is() -> None:
    method = made()
    prepared = method.prepare(graph(), CPU)
    view = method.view(prepared, 0, 0, torch.Generator().manual_seed(0))
    assert torch.equal(view, method.embed(prepared.features, prepared.propagation))


def test_one_node_alone_is_refused() -> None:
    lonely = Graph("one", sp.csr_array((1, 1), dtype=np.float32), np.ones((1, FEATURES), np.float32), np.arange(1))
    with pytest.raises(GraphError, match="one node"):
        made().check_trainable(made().prepare(lonely, CPU))
