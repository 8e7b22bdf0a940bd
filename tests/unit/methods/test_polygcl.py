"""What is particular to PolyGCL, against NumPy on a dense eigen-decomposition and against PyTorch's own losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.polynomial import chebyshev
from torch import Tensor, nn

from fossil.graph.graph import Graph
from fossil.methods.polygcl import PolyGCL, PolyGCLGraph, standardized
from fossil.nn.augment import shuffled
from fossil.nn.filters import MonotoneFilter

CPU = torch.device("cpu")
NODES, FEATURES = 14, 6
PLAIN = {"width": 5, "input_dropout": 0.0, "dropout": 0.0}


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph(directed: bool = False) -> Graph:
    draw = np.random.default_rng(0)
    edges = np.triu(draw.random((NODES, NODES)) < 0.3, 1)
    features = draw.random((NODES, FEATURES), dtype=np.float32)
    adjacency = edges if directed else edges | edges.T
    return Graph("g", sp.csr_array(adjacency.astype(np.float32)), features, np.arange(NODES))


def make(given: Graph | None = None, **changes: Any) -> tuple[PolyGCL, PolyGCLGraph]:
    method = PolyGCL.build(PolyGCL.configure(None, PLAIN, changes), FEATURES, 0)
    with torch.no_grad():
        for steps in (method.low.steps, method.high.steps):
            steps.mul_(torch.rand(steps.shape, generator=random(len(changes))))
        method.low_weight.fill_(0.3)
        method.high_weight.fill_(-0.8)
    return method, method.prepare(given or graph(), CPU)


def plain_view(method: PolyGCL, band: str) -> Any:
    """Filter the row-normalised features in the eigenbasis of the dense Laplacian, then map them."""
    adjacency = graph().adjacency.toarray().astype(np.float64)
    degree = adjacency.sum(1)
    laplacian = np.diag((degree > 0) * 1.0) - adjacency / np.sqrt(np.outer(degree, degree))
    frequencies, basis = np.linalg.eigh(laplacian)
    steps = getattr(method, band).steps.detach().double().numpy()
    travelled = np.concatenate([[0], np.maximum(steps, 0).cumsum()])
    values = 2 - travelled if band == "low" else travelled
    order = len(steps)
    nodes = np.cos((order - np.arange(order + 1) + 0.5) * np.pi / (order + 1))
    response = chebyshev.chebval(frequencies - 1, chebyshev.chebfit(nodes, values, order))
    features = graph().features.astype(np.float64)
    features /= features.sum(1, keepdims=True)
    filtered = basis @ (response[:, None] * (basis.T @ features))
    weight, bias = (p.detach().double().numpy() for p in (method.linear.weight, method.linear.bias))
    return np.maximum(filtered @ weight.T + bias, 0)


@pytest.mark.parametrize("order", ["project_first", "filter_first"])
def test_views_and_embeddings_are_those_of_the_dense_spectrum(order: str) -> None:
    method, prepared = make(order=order)
    low, high = plain_view(method, "low"), plain_view(method, "high")
    np.testing.assert_allclose(method.views(prepared).detach().numpy(), [low, high], rtol=0, atol=1e-5)
    assert np.abs(low - high).max() > 0.01
    found = method.encode(prepared).vectors.numpy()
    np.testing.assert_allclose(found, -0.8 * high + 0.3 * low, rtol=0, atol=1e-5)


def test_the_loss_is_plain_cross_entropy_over_four_encodings() -> None:
    method, prepared = make()
    (objective,) = method.step(prepared, random(3))
    low, high = method.views(prepared)
    order = shuffled(NODES, random(3))  # without dropout, the order is the first thing drawn
    fake_low, fake_high = method.views(prepared, order=order)
    assert not torch.allclose(low, fake_low)
    summary = torch.relu((-0.8 * high + 0.3 * low).mean(0))
    matrix, bias = method.discriminator.weight, method.discriminator.bias
    scores = torch.cat(
        [torch.einsum("nd,de,e->n", view, matrix, summary) + bias for view in (low, high, fake_low, fake_high)]
    )
    labels = torch.cat([torch.ones(2 * NODES), torch.zeros(2 * NODES)])
    expected = nn.BCEWithLogitsLoss()(scores, labels)
    torch.testing.assert_close(objective.terms["loss"], expected)
    assert objective.groups == ("encoder", "filters")


def plain_loss(method: PolyGCL, order: Tensor) -> Tensor:
    """Compute the loss as the equations say, on dense matrices and by PyTorch's own operations."""
    config = method.config
    edges = torch.from_numpy(graph().adjacency.toarray()).double()
    scale = edges.sum(1).clamp_min(1).rsqrt()
    laplacian = -scale[:, None] * edges * scale
    features = torch.tensor(graph().features, dtype=torch.float64)
    features = features / features.sum(1, keepdim=True)

    def view(kind: MonotoneFilter, x: Tensor) -> Tensor:
        terms = [x, laplacian @ x]
        while len(terms) <= config.polynomial_order:
            terms.append(2 * laplacian @ terms[-1] - terms[-2])
        filtered = sum((c * term for c, term in zip(kind.coefficients(), terms, strict=True)), torch.zeros(()))
        if config.order == "project_first":
            filtered = filtered @ method.linear.weight.T.double()
        if config.standardize:
            variance, mean = torch.var_mean(filtered, 0, correction=0)
            filtered = (filtered - mean) / torch.sqrt(variance + 1e-5)
        if config.order == "filter_first":
            filtered = filtered @ method.linear.weight.T.double()
        slope = 0.0 if config.activation == "relu" else 0.25
        return nn.functional.leaky_relu(filtered + method.linear.bias, slope)

    views = [view(kind, x) for x in (features, features[order]) for kind in (method.low, method.high)]
    summary = torch.relu((method.low_weight * views[0] + method.high_weight * views[1]).mean(0))
    scores = torch.cat(views) @ (method.discriminator.weight.double() @ summary) + method.discriminator.bias
    labels = torch.cat([torch.ones(2 * NODES), torch.zeros(2 * NODES)]).double()
    return nn.functional.binary_cross_entropy_with_logits(scores, labels)


@pytest.mark.parametrize("degree", [1, 2, 10])
@pytest.mark.parametrize("order", ["project_first", "filter_first"])
@pytest.mark.parametrize("head", [{}, {"standardize": True, "activation": "leaky_relu"}])
def test_loss_and_gradients_are_those_of_the_plain_formula(degree: int, order: str, head: dict[str, Any]) -> None:
    method, prepared = make(order=order, polynomial_order=degree, **head)
    (objective,) = method.step(prepared, random(3))
    expected = plain_loss(method, shuffled(NODES, random(3)))
    torch.testing.assert_close(objective.terms["loss"].double(), expected, rtol=1e-5, atol=1e-5)
    parameters = list(method.parameters())
    ours = torch.autograd.grad(objective.terms["loss"], parameters)
    for found, wanted in zip(ours, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_shuffled_views_are_views_of_a_graph_with_shuffled_features() -> None:
    method, prepared = make(standardize=True, activation="leaky_relu")
    order = torch.randperm(NODES, generator=random(5))
    given = graph()
    moved = Graph("moved", given.adjacency, given.features[order.numpy()], given.ids)
    expected = method.views(method.prepare(moved, CPU))
    torch.testing.assert_close(method.views(prepared, order=order), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["project_first", "filter_first"])
def test_dropout_draws_twice_on_the_features(order: str) -> None:
    """Each entry of X survives both dropouts: with a filter of order one and value one, that is all there is."""
    size = 120
    given = Graph(
        "empty", sp.csr_array((size, size), dtype=np.float32), np.ones((size, 90), np.float32), np.arange(size)
    )
    changes = {"order": order, "input_dropout": 0.2, "dropout": 0.5, "polynomial_order": 1, "normalize_features": False}
    method = PolyGCL.build(PolyGCL.configure(None, {"width": 90}, changes), 90, 0)
    with torch.no_grad():
        method.linear.weight.copy_(torch.eye(90))
        method.linear.bias.zero_()
    prepared = method.prepare(given, CPU)
    # Without edges L̃ = 0, whose filter value is one: halfway between two and zero.
    for view in method.views(prepared, random()):
        kept = (view > 1e-6).double().mean().item()
        assert abs(kept - 0.4) < 5 * (0.4 * 0.6 / view.numel()) ** 0.5
        torch.testing.assert_close(view.max().item(), 1 / 0.4)
    torch.testing.assert_close(method.views(prepared)[0], torch.ones(size, 90))


def test_standardized_columns_of_each_view_have_mean_zero_and_variance_one() -> None:
    values = torch.randn(30, 4, generator=random(1)) * torch.tensor([1.0, 5.0, 0.0, 0.1]) + 3
    views = torch.stack([values, values.flip(1) - 1])
    variance, mean = torch.var_mean(views.double(), 1, correction=0, keepdim=True)
    expected = (views.double() - mean) / torch.sqrt(variance + 1e-5)
    # A constant column leaves rounding.
    torch.testing.assert_close(standardized(views).double(), expected, rtol=1e-5, atol=1e-4)


def test_filters_and_maps_have_learning_rates_of_their_own() -> None:
    method, _ = make(learning_rate=0.002, weight_decay=1e-5, filter_learning_rate=0.0005, filter_weight_decay=1e-3)
    groups = method.parameter_groups()
    assert (groups["encoder"].learning_rate, groups["encoder"].weight_decay) == (0.002, 1e-5)
    assert (groups["filters"].learning_rate, groups["filters"].weight_decay) == (0.0005, 1e-3)
    assert sum(p.numel() for p in groups["filters"].parameters) == 2 * 10 + 2
    assert sum(p.numel() for p in groups["encoder"].parameters) == (FEATURES * 5 + 5) + (25 + 1)


def test_directed_graphs_are_made_undirected() -> None:
    method, prepared = make()
    found = method.encode(method.prepare(graph(directed=True), CPU)).vectors
    torch.testing.assert_close(found, method.encode(prepared).vectors)


def test_self_loops_are_left_out() -> None:
    method, prepared = make()
    looped = replace(graph(), adjacency=sp.csr_array(graph().adjacency + sp.eye_array(NODES, dtype=np.float32)))
    torch.testing.assert_close(method.encode(method.prepare(looped, CPU)).vectors, method.encode(prepared).vectors)
