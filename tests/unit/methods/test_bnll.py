from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fossil.graph.graph import Graph
from fossil.methods.bgrl import Bgrl
from fossil.methods.bnll import Bnll, WeightsOver, support_weights
from fossil.ops.sparse import SparseMatrix
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
NODES = 12


def make_graph(edges: bool = True) -> Graph:
    """A directed graph whose last two nodes are isolated."""
    random = np.random.default_rng(0)
    matrix = (random.random((NODES, NODES)) < 0.3) & edges
    np.fill_diagonal(matrix, False)
    matrix[-2:] = matrix[:, -2:] = False
    features = random.random((NODES, 4), dtype=np.float32)
    return Graph("g", sp.csr_array(matrix.astype(np.float32)), features, np.arange(NODES))


def make_trainer(graph: Graph | None = None, preset: str = "default", **changes: Any) -> tuple[Bnll, Trainer]:
    small = {"hidden": 12, "width": 6, "predictor_hidden": 10}
    method = Bnll.build(Bnll.configure(preset, small, changes), 4, 0)
    return method, Trainer(method, method.prepare(graph or make_graph(), CPU), 0, CPU)


def vectors(count: int) -> Tensor:
    return torch.randn(count, NODES, 6, generator=torch.Generator().manual_seed(5))


def plain_weights(y_1: Tensor, y_2: Tensor, graph: Graph, temperature: float, over: WeightsOver) -> Tensor:
    """The attention as a dense matrix, an entry at a time."""
    A, y_1, y_2 = graph.adjacency.toarray(), normalize(y_1.double()), normalize(y_2.double())
    W = torch.zeros(NODES, NODES, dtype=torch.float64)
    for i in range(NODES):
        for j in range(NODES):
            if A[i, j]:
                W[i, j] = math.exp((y_1[i] @ y_2[j]).item() / temperature)
    totals = W.sum(1 if over == "neighbours" else 0, keepdim=True)
    return W / totals.where(totals > 0, torch.ones_like(totals))


@pytest.mark.parametrize("temperature", [0.05, 0.8])
@pytest.mark.parametrize("over", ["neighbours", "anchors"])
def test_weights_are_those_of_a_plain_loop(over: WeightsOver, temperature: float) -> None:
    graph, (y_1, y_2) = make_graph(), vectors(2)
    adjacency = SparseMatrix.from_scipy(graph.adjacency)
    W = support_weights(normalize(y_1), normalize(y_2), adjacency, temperature, over).matmul(torch.eye(NODES))
    expected = plain_weights(y_1, y_2, graph, temperature, over)
    torch.testing.assert_close(W.double(), expected, rtol=1e-4, atol=1e-6)
    sums = W.sum(1 if over == "neighbours" else 0)
    degree = torch.from_numpy(graph.adjacency.toarray()).sum(1 if over == "neighbours" else 0)
    torch.testing.assert_close(sums, (degree > 0).float())


def test_low_temperatures_leave_the_weights_of_equal_vectors_finite_and_equal() -> None:
    graph = make_graph()
    alike = normalize(torch.ones(NODES, 6))
    # e¹⁰⁰ is no float32 number.
    found = support_weights(alike, alike, SparseMatrix.from_scipy(graph.adjacency), 0.01, "neighbours").values
    degree = torch.from_numpy(graph.adjacency.sum(axis=1)).float()
    torch.testing.assert_close(found, (1 / degree)[torch.from_numpy(graph.adjacency.tocoo().coords[0]).long()])


@pytest.mark.parametrize("overwritten", [False, True])
@pytest.mark.parametrize("over", ["neighbours", "anchors"])
def test_the_loss_is_that_of_a_plain_loop_over_nodes_and_neighbours(over: WeightsOver, overwritten: bool) -> None:
    graph, (q_1, q_2, y_1, y_2) = make_graph(), vectors(4)
    method, trainer = make_trainer(
        graph, weights_over=over, second_prediction="overwritten" if overwritten else "own", neighbour_weight=0.7
    )
    total, parts = method.loss((q_1, q_2), (y_1, y_2), trainer.prepared)

    if overwritten:
        q_2 = q_1
    W = plain_weights(y_1, y_2, graph, 0.8, over)
    q_1, q_2, y_1, y_2 = (normalize(value.double()) for value in (q_1, q_2, y_1, y_2))
    nodes = sum(2 - (q_1[i] @ y_2[i] + q_2[i] @ y_1[i]).item() for i in range(NODES)) / NODES
    neighbours = 0.0
    for i in range(NODES):
        for j in range(NODES):
            neighbours -= (W[i, j] * (q_1[i] @ y_2[j] + q_2[i] @ y_1[j])).item() / NODES
    assert float(parts["nodes"]) == pytest.approx(nodes, rel=1e-5)
    assert float(parts["neighbours"]) == pytest.approx(neighbours, rel=1e-4)
    assert total.item() == pytest.approx(nodes + 0.7 * neighbours, rel=1e-5)


def test_the_gradient_reaches_predictions_alone_and_the_overwritten_one_gets_none() -> None:
    q_1, q_2, y_1, y_2 = (value.clone().requires_grad_() for value in vectors(4))
    for preset, learns in (("default", True), ("released", False)):
        method, trainer = make_trainer(preset=preset)
        total, _ = method.loss((q_1, q_2), (y_1.detach(), y_2.detach()), trainer.prepared)
        gradients = torch.autograd.grad(total, (q_1, q_2), allow_unused=True)
        assert gradients[0] is not None and (gradients[1] is not None) is learns


def test_a_weight_of_zero_or_a_graph_without_edges_leaves_bgrl() -> None:
    q_1, q_2, y_1, y_2 = vectors(4)
    bare = make_graph(edges=False)
    for graph, weight in ((bare, 1.0), (make_graph(), 0.0)):
        method, trainer = make_trainer(graph, neighbour_weight=weight)
        bgrl = Bgrl.build(Bgrl.configure(None, {"hidden": 12, "width": 6}), 4, 0)
        expected, _ = bgrl.loss((q_1, q_2), (y_1, y_2), trainer.prepared)
        assert method.loss((q_1, q_2), (y_1, y_2), trainer.prepared)[0].item() == pytest.approx(expected.item())


def test_a_graph_without_edges_trains() -> None:
    method, trainer = make_trainer(make_graph(edges=False))
    trainer.run(3, lambda epoch, record: False)
    assert method.encode(trainer.prepared).vectors.isfinite().all()


def test_agreement_everywhere_gives_the_lowest_loss() -> None:
    pair = np.ones((NODES, NODES), np.float32) - np.eye(NODES, dtype=np.float32)
    graph = Graph("complete", sp.csr_array(pair), np.ones((NODES, 4), np.float32), np.arange(NODES))
    method, trainer = make_trainer(graph)
    same = torch.ones(NODES, 6)
    assert method.loss((same, same), (same, same), trainer.prepared)[0].item() == pytest.approx(-2, rel=1e-5)


def test_the_target_follows_the_encoder_as_in_bgrl() -> None:
    method, trainer = make_trainer(momentum=0.0)
    trainer.step()  # at the start of training, momentum zero copies the encoder
    assert all(map(torch.equal, method.target.parameters(), method.encoder.parameters()))
    assert all(parameter.grad is None for parameter in method.target.parameters())


def test_released_is_both_deviations_of_the_official_code() -> None:
    released, default = (Bnll.configure(preset).model_dump() for preset in ("released", "default"))
    changed = {name for name in default if released[name] != default[name]}
    assert changed == {"second_prediction", "weights_over"}
