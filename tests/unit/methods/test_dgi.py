import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized
from fossil.methods.dgi import DGI
from fossil.nn.augment import shuffled
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
NODES, FEATURES = 24, 5


def graph(*, sparse: bool = False) -> Graph:
    """Two communities with features of their own, and an isolated node without features."""
    random = np.random.default_rng(0)
    side = np.arange(NODES) % 2
    edges = np.triu(random.random((NODES, NODES)) < np.where(side[:, None] == side, 0.5, 0.05), 1)
    edges[4] = edges[:, 4] = False
    features = random.random((NODES, FEATURES), dtype=np.float32) * np.where(side[:, None], [3, 1, 1, 0, 1], 1)
    features[4] = 0
    given = features.astype(np.float32)
    stored = sp.csr_array(given) if sparse else given
    return Graph("two sides", sp.csr_array((edges | edges.T).astype(np.float32)), stored, np.arange(NODES))


def made(**settings: Any) -> DGI:
    method = DGI.build(DGI.configure(None, {"width": 6, **settings}), FEATURES, seed=0)
    with torch.no_grad():  # away from where a wrong bias or slope could not be seen
        for parameter in method.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
    return method


def plain_loss(method: DGI, given: Graph, order: Tensor) -> Tensor:
    """The loss with PyG's convolution, features that are permuted in earnest, and a bilinear layer on 2N pairs."""
    convolution, bilinear = GCNConv(FEATURES, 6), nn.Bilinear(6, 6, 1)
    convolution.lin.weight = nn.Parameter(method.first.weight.detach().T.clone())
    convolution.bias = method.first.bias
    bilinear.weight = nn.Parameter(method.discriminator.weight.detach()[None].clone())
    bilinear.bias = nn.Parameter(method.discriminator.bias.detach()[None].clone())
    edges = torch.from_numpy(np.stack(given.adjacency.nonzero())).long()
    x = torch.from_numpy(normalize(given.features, norm="l1"))
    true, corrupted = (method.activation(convolution(rows, edges)) for rows in (x, x[order]))
    summary = torch.sigmoid(true.mean(0)).expand(2 * NODES, 6)
    logits = bilinear(torch.cat([true, corrupted]), summary).squeeze(1)
    return nn.functional.binary_cross_entropy_with_logits(logits, (torch.arange(2 * NODES) < NODES).float())


@pytest.mark.parametrize("sparse", [False, True])
def test_loss_is_the_papers(sparse: bool) -> None:
    method = made()
    with torch.no_grad():  # so long that the summary of corrupted nodes would be another one
        method.first.weight *= 30
    (objective,) = method.step(method.prepare(graph(sparse=sparse), CPU), torch.Generator().manual_seed(3))
    expected = plain_loss(method, graph(), shuffled(NODES, torch.Generator().manual_seed(3)))
    torch.testing.assert_close(objective.terms["loss"], expected)


def test_embeddings_are_those_of_stacked_convolutions_of_pyg() -> None:
    method = made(layers=2, activation="relu", normalize_features=False)
    hidden = torch.tensor(graph().features)
    edges = torch.from_numpy(np.stack(graph().adjacency.nonzero())).long()
    for ours in (method.first, method.deeper[0]):
        convolution = GCNConv(*ours.weight.shape)
        convolution.lin.weight, convolution.bias = nn.Parameter(ours.weight.detach().T.clone()), ours.bias
        hidden = torch.relu(convolution(hidden, edges))
    found = method.encode(method.prepare(graph(), CPU)).vectors
    torch.testing.assert_close(found, hidden.detach())


def test_features_are_normalised_as_by_scikit_learn() -> None:
    signed = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    signed[2] = 0
    np.testing.assert_allclose(row_normalized(signed), normalize(signed, norm="l1"), rtol=1e-5)
    np.testing.assert_allclose(row_normalized(sp.csr_array(signed)).toarray(), normalize(signed, norm="l1"), rtol=1e-5)


def test_training_tells_true_nodes_from_corrupted_ones() -> None:
    method = DGI.build(DGI.configure(None, {"width": 16, "learning_rate": 0.01}), FEATURES, seed=0)
    losses: list[float] = []
    trainer = Trainer(method, method.prepare(graph(), CPU), 0, CPU)
    trainer.run(150, lambda epoch, record: losses.append(float(record["loss"])) or False)  # type: ignore[func-returns-value]
    assert abs(losses[0] - math.log(2)) < 0.05 and np.mean(losses[-20:]) < 0.6


def test_one_node_alone_is_refused() -> None:
    lonely = Graph("one", sp.csr_array((1, 1), dtype=np.float32), np.ones((1, FEATURES), np.float32), np.arange(1))
    method = made()
    with pytest.raises(GraphError, match="one node"):
        method.check_trainable(method.prepare(lonely, CPU))
