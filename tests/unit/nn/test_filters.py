"""Filters against NumPy's Chebyshev series on the eigenvalues of a small graph's Laplacian, and against PyG."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.polynomial import chebyshev
from torch_geometric.nn import ChebConv

from fossil.graph.structure import symmetric_normalized
from fossil.nn.filters import (
    ChebyshevConvolution,
    ChebyshevRecurrence,
    MonotoneFilter,
    chebyshev_filters,
    chebyshev_nodes,
    chebyshev_series,
    interpolation_matrix,
)
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

NODES = 12
BANDS: list[Literal["low", "high"]] = ["low", "high"]


def edges() -> sp.csr_array:
    upper = np.triu(np.random.default_rng(0).random((NODES, NODES)) < 0.3, 1)
    upper[5] = upper[:, 5] = False  # an isolated node
    return sp.csr_array((upper | upper.T).astype(np.float32))


def shifted_laplacian() -> sp.csr_array:
    return -symmetric_normalized(edges(), self_loops=False)


def signal(columns: int = 3) -> torch.Tensor:
    return torch.randn(NODES, columns, generator=torch.Generator().manual_seed(1))


def dense_response(coefficients: Any, signal: torch.Tensor) -> Any:
    """Filter in the eigenbasis of L̃, with NumPy's Chebyshev series as the response."""
    eigenvalues, basis = np.linalg.eigh(shifted_laplacian().toarray().astype(np.float64))
    response = chebyshev.chebval(eigenvalues, coefficients)
    return basis @ (response[:, None] * (basis.T @ signal.double().numpy()))


@pytest.mark.parametrize("order", [1, 2, 7, 10])
def test_nodes_are_the_ascending_zeros_of_the_next_polynomial(order: int) -> None:
    expected = np.sort(chebyshev.chebroots([0] * (order + 1) + [1]))
    np.testing.assert_allclose(chebyshev_nodes(order).numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 4, 10])
def test_interpolation_is_that_of_numpy(order: int) -> None:
    def function(x: Any) -> Any:
        return np.exp(-2 * x) + np.abs(x)

    values = torch.from_numpy(function(chebyshev_nodes(order).numpy()))
    found = interpolation_matrix(order) @ values
    np.testing.assert_allclose(found.numpy(), chebyshev.chebinterpolate(function, order), rtol=0, atol=1e-12)


def skewed_matrix() -> sp.csr_array:
    """Return a matrix that is not symmetric, with eigenvalues in [-1, 1] and a hub of more than 64 neighbours."""
    draw = np.random.default_rng(2)
    dense = np.where(draw.random((80, 80)) < 0.05, draw.standard_normal((80, 80)), 0)
    dense[7] = draw.standard_normal(80)
    return sp.csr_array((dense / np.abs(dense).sum(1).max()).astype(np.float32))


def many_coefficients(order: int, filters: int = 3) -> torch.Tensor:
    return torch.randn(filters, order + 1, generator=torch.Generator().manual_seed(order), dtype=torch.float64)


def plain_filters(matrix: torch.Tensor, signal: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    """Sum dense terms one by one, leaving the gradient to PyTorch."""
    terms = [signal, matrix @ signal]
    while len(terms) < coefficients.shape[1]:
        terms.append(2 * matrix @ terms[-1] - terms[-2])
    return torch.einsum("fi,ind->fnd", coefficients, torch.stack(terms))


@pytest.mark.parametrize("order", [1, 2, 3, 10])
def test_filters_act_on_the_frequencies_of_the_laplacian(order: int) -> None:
    coefficients = many_coefficients(order)
    found = chebyshev_filters(ChebyshevRecurrence.from_scipy(shifted_laplacian()), signal().double(), coefficients)
    expected = [dense_response(each.numpy(), signal()) for each in coefficients]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 10])
def test_filters_and_their_gradients_are_those_of_dense_terms(order: int) -> None:
    matrix = skewed_matrix()
    x = torch.randn(80, 5, generator=torch.Generator().manual_seed(4), requires_grad=True)
    coefficients = many_coefficients(order).float().requires_grad_()
    upstream = torch.randn(3, 80, 5, generator=torch.Generator().manual_seed(5))
    found = chebyshev_filters(ChebyshevRecurrence.from_scipy(matrix), x, coefficients)
    wide = [each.detach().double().requires_grad_() for each in (x, coefficients)]
    expected = plain_filters(torch.from_numpy(matrix.toarray()).double(), wide[0], wide[1])
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    ours = torch.autograd.grad(found, (x, coefficients), upstream)
    theirs = torch.autograd.grad(expected, wide, upstream.double())
    for gradient, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient.double(), wanted, rtol=1e-5, atol=3e-5)


@pytest.mark.parametrize("order", [1, 2, 10])
@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
def test_gradients_of_filters_pass_a_numerical_check(order: int, needed: tuple[bool, bool]) -> None:
    recurrence = ChebyshevRecurrence.from_scipy(skewed_matrix()[:12, :12])
    x = signal().double().requires_grad_(needed[0])
    coefficients = many_coefficients(order, filters=2).requires_grad_(needed[1])
    assert torch.autograd.gradcheck(lambda x, c: chebyshev_filters(recurrence, x, c), (x, coefficients))


def test_terms_are_kept_only_for_a_gradient_of_the_coefficients() -> None:
    recurrence = ChebyshevRecurrence.from_scipy(shifted_laplacian())
    for learnt in (False, True):
        found = chebyshev_filters(recurrence, signal().requires_grad_(), torch.ones(2, 5, requires_grad=learnt))
        kept: Any = found.grad_fn
        assert sum(each.numel() for each in kept.saved_tensors if each is not None) == 10 + learnt * 5 * NODES * 3


def test_filters_are_float32_inside_autocast_and_gradients_have_the_types_of_the_inputs() -> None:
    recurrence = ChebyshevRecurrence.from_scipy(shifted_laplacian())
    x, coefficients = signal().bfloat16().requires_grad_(), many_coefficients(10).bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = chebyshev_filters(recurrence, x, coefficients)
        ours = torch.autograd.grad(found.sum(), (x, coefficients))
    assert found.dtype == torch.float32 and all(each.dtype == torch.bfloat16 for each in ours)
    torch.testing.assert_close(found, chebyshev_filters(recurrence, x.float(), coefficients.float()))


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 7])
def test_a_series_of_signals_is_the_sum_of_their_terms(terms: int) -> None:
    matrix = SparseMatrix.from_scipy(shifted_laplacian())
    signals = signal(2 * terms).split(2, 1)
    expected = sum(dense_response([0] * i + [1], each) for i, each in enumerate(signals))
    np.testing.assert_allclose(chebyshev_series(matrix, signals).numpy(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("band", "ends"), [("low", (2.0, 0.0)), ("high", (0.0, 2.0))])
def test_filters_start_as_straight_lines_between_zero_and_two(
    band: Literal["low", "high"], ends: tuple[float, float]
) -> None:
    made = MonotoneFilter(10, band)
    np.testing.assert_allclose(made.values().detach().numpy(), np.linspace(*ends, 11), rtol=0, atol=1e-6)


@pytest.mark.parametrize("band", BANDS)
def test_filters_are_monotone_at_the_nodes_whatever_is_learnt(band: Literal["low", "high"]) -> None:
    made = MonotoneFilter(6, band)
    learnt = [0.4, -3.0, 0.1, -0.2, 0.9, 0.0]
    with torch.no_grad():
        made.steps.copy_(torch.tensor(learnt))
    values = made.values().detach().numpy()
    sign = -1 if band == "low" else 1
    np.testing.assert_allclose(np.diff(values), sign * np.maximum(learnt, 0), rtol=0, atol=1e-6)
    assert values[0] == (2 if band == "low" else 0)
    # The polynomial goes through these values, by NumPy's evaluation of its coefficients.
    coefficients = made.coefficients().detach().double().numpy()
    np.testing.assert_allclose(chebyshev.chebval(chebyshev_nodes(6).numpy(), coefficients), values, rtol=0, atol=1e-6)


@pytest.mark.parametrize("band", BANDS)
def test_the_learnt_filter_has_numpys_response_on_the_graph(band: Literal["low", "high"]) -> None:
    made = MonotoneFilter(10, band)
    with torch.no_grad():
        made.steps.mul_(torch.rand(10, generator=torch.Generator().manual_seed(3)))
    recurrence = ChebyshevRecurrence.from_scipy(shifted_laplacian())
    found = chebyshev_filters(recurrence, signal(), made.coefficients()[None])[0].detach().numpy()
    nodes, values = chebyshev_nodes(10).numpy(), made.values().detach().double().numpy()
    expected = dense_response(chebyshev.chebfit(nodes, values, 10), signal())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_steps_below_zero_have_no_gradient_and_the_others_do() -> None:
    made = MonotoneFilter(3, "high")
    with torch.no_grad():
        made.steps[1] = -0.5
    made.values().sum().backward()  # type: ignore[no-untyped-call]
    assert made.steps.grad is not None and made.steps.grad.tolist() == [3.0, 0.0, 1.0]


@pytest.mark.parametrize("terms", [1, 2, 3, 4])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_the_convolution_is_that_of_pyg(terms: int, layout: str) -> None:
    made, peer = ChebyshevConvolution(5, 4, terms), ChebConv(5, 4, terms)
    with torch.no_grad():
        made.bias.copy_(torch.arange(4.0))
        peer.bias.copy_(made.bias)
        for linear, weight in zip(peer.lins, made.weight.split(4, 1), strict=True):
            linear.weight.copy_(weight.T)
    x = signal(5)
    given = FeatureMatrix.from_host(sp.csr_array(x.numpy()) if layout == "sparse" else x.numpy())
    found = made(given, SparseMatrix.from_scipy(shifted_laplacian()))
    expected = peer(x, torch.from_numpy(np.stack(edges().nonzero())).long(), lambda_max=torch.tensor(2.0))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
