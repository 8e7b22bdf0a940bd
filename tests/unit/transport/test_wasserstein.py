"""Sinkhorn's iteration and the proximal point method against their multiplicative forms and exact assignments."""

import doctest
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

import fossil.transport
from fossil.errors import SettingError, TransportError
from fossil.transport import Solution, proximal_wasserstein, sinkhorn
from fossil.transport.solve import Gradient

Solver = Callable[..., Solution]
SOLVERS: list[Solver] = [
    partial(sinkhorn, regularization=0.1, iterations=30),
    partial(proximal_wasserstein, step=0.3, iterations=30),
]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def masses(batch: int, n: int, m: int) -> tuple[Tensor, Tensor]:
    return torch.softmax(draw(batch, n, seed=1), 1), torch.softmax(draw(batch, m, seed=2), 1)


def test_sinkhorn_is_the_multiplicative_scaling() -> None:
    cost, (mu, nu) = draw(3, 5, 7), masses(3, 5, 7)
    kernel, columns = torch.exp(-cost / 0.1), torch.ones(3, 7, dtype=torch.float64)
    for _ in range(12):
        rows = mu / torch.einsum("bij,bj->bi", kernel, columns)
        columns = nu / torch.einsum("bij,bi->bj", kernel, rows)
    expected = rows[:, :, None] * kernel * columns[:, None, :]
    solution = sinkhorn(cost, mu, nu, regularization=0.1, iterations=12)
    torch.testing.assert_close(solution.plan, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(solution.value, (cost * expected).sum((1, 2)), rtol=0, atol=1e-12)


def plain_recursion(cost: Tensor, beta: float, iterations: int) -> Tensor:
    """Transcribe the recursion of GSC for one cost and uniform masses."""
    n, m = cost.shape
    kernel = torch.exp(-cost / beta)
    plan = torch.ones(n, m, dtype=cost.dtype)
    sigma = torch.ones(m, 1, dtype=cost.dtype) / m
    for _ in range(iterations):
        weighted = kernel * plan
        delta = 1 / (n * weighted @ sigma)
        sigma = 1 / (m * weighted.mT @ delta)
        plan = delta * weighted * sigma.mT
    return plan


@pytest.mark.parametrize(("n", "m"), [(6, 6), (4, 9), (1, 3)])
@pytest.mark.parametrize(("step", "iterations"), [(0.5, 40), (0.1, 20), (1.0, 1)])
def test_proximal_plan_is_that_of_the_recursion_gsc_uses(n: int, m: int, step: float, iterations: int) -> None:
    cost = draw(4, n, m)
    solution = proximal_wasserstein(cost, step=step, iterations=iterations)
    expected = torch.stack([plain_recursion(each, step, iterations) for each in cost])
    torch.testing.assert_close(solution.plan, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(solution.value, (cost * expected).sum((1, 2)), rtol=0, atol=1e-12)


def test_defaults_are_those_of_gsc() -> None:
    cost = draw(5, 5)
    torch.testing.assert_close(proximal_wasserstein(cost).plan, plain_recursion(cost, 0.5, 40), rtol=0, atol=1e-12)


def test_the_recursion_overflows_where_the_logarithms_do_not() -> None:
    cost = -1000 * draw(5, 5)
    assert plain_recursion(cost, 0.5, 40).isnan().any()
    solution = proximal_wasserstein(cost, iterations=2000)
    rows, columns = linear_sum_assignment(cost.numpy())
    assert solution.value.item() == pytest.approx(cost.numpy()[rows, columns].mean(), rel=1e-6)


def test_many_proximal_iterations_give_the_best_assignment() -> None:
    costs = draw(6, 8, 8, seed=3)
    solution = proximal_wasserstein(costs, iterations=3000, tolerance=1e-12)
    for cost, value in zip(costs.numpy(), solution.value.tolist(), strict=True):
        assert value == pytest.approx(cost[linear_sum_assignment(cost)].mean(), abs=1e-6)
    assert (solution.row_error < 1e-5).all()


def test_a_smaller_regularization_comes_closer_to_the_best_assignment_from_above() -> None:
    cost = draw(8, 8, seed=4)
    best = cost.numpy()[linear_sum_assignment(cost.numpy())].mean()
    weights = 1.0, 0.1, 0.02
    excess = [sinkhorn(cost, regularization=weight, iterations=2000).value.item() - best for weight in weights]
    assert excess[0] > excess[1] > excess[2] > -1e-6
    # The entropy of a plan between uniform masses is between log 8 and 2 log 8, so no more than this can be lost to it.
    assert all(loss < weight * np.log(8) for loss, weight in zip(excess, weights, strict=True))


@pytest.mark.parametrize("solver", SOLVERS)
def test_columns_are_exact_and_errors_honest(solver: Solver) -> None:
    mu, nu = masses(4, 5, 6)
    solution = solver(draw(4, 5, 6), mu, nu, iterations=5)
    assert (solution.plan >= 0).all()
    torch.testing.assert_close(solution.plan.sum(1), nu, rtol=1e-12, atol=0)
    expected = np.abs(solution.plan.numpy().sum(2) - mu.numpy()).sum(1)
    np.testing.assert_allclose(solution.row_error.numpy(), expected, rtol=0, atol=1e-14)
    assert (solution.row_error > 1e-8).all()
    assert (solution.column_error < 1e-14).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_padding_with_zero_mass_gets_nothing_and_changes_nothing(solver: Solver) -> None:
    pad, (mu, nu) = torch.nn.functional.pad, masses(3, 4, 5)
    cost = draw(3, 4, 5)
    bare = solver(cost, mu, nu)
    padded = solver(pad(cost, (0, 2, 0, 3), value=-4.0), pad(mu, (0, 3)), pad(nu, (0, 2)))
    assert not padded.plan[:, 4:].any()
    assert not padded.plan[:, :, 5:].any()
    torch.testing.assert_close(padded.plan[:, :4, :5], bare.plan, rtol=0, atol=1e-12)
    torch.testing.assert_close(padded.value, bare.value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("strength", [1e-3, 0.1, 10.0])
def test_float32_plans_are_finite_with_exact_columns(strength: float, scale: float) -> None:
    cost = scale * draw(8, 12, 12).float()
    for solution in (
        sinkhorn(cost, regularization=strength, iterations=100),
        proximal_wasserstein(cost, step=strength, iterations=100),
    ):
        assert solution.plan.isfinite().all()
        assert solution.value.isfinite().all()
        torch.testing.assert_close(solution.plan.sum(1), torch.full((8, 12), 1 / 12), rtol=1e-5, atol=0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tolerance_stops_each_problem_on_its_own(solver: Solver) -> None:
    costs = draw(6, 5, 5) * torch.linspace(0.1, 3, 6, dtype=torch.float64)[:, None, None]
    together = solver(costs, iterations=2000, tolerance=1e-3)
    assert together.converged.all()
    assert len(set(together.iterations.tolist())) > 1
    for index, made in enumerate(together.iterations.tolist()):
        plans = [solver(costs[index], iterations=count).plan for count in (made - 1, made)]
        torch.testing.assert_close(together.plan[index], plans[1], rtol=0, atol=1e-12)
        assert (plans[1] - plans[0]).norm() <= 1e-3
    assert not solver(costs, iterations=2, tolerance=0.0).converged.any()


def test_envelope_gradient_of_sinkhorn_is_that_of_the_regularised_minimum() -> None:
    cost = draw(4, 4, seed=5).requires_grad_()

    def minimum(cost: Tensor) -> Tensor:
        solution = sinkhorn(cost, regularization=0.2, iterations=500, gradient="unrolled")
        entropy = (solution.plan * (solution.plan.log() - 1)).sum()
        return solution.value + 0.2 * entropy

    (expected,) = torch.autograd.grad(minimum(cost), cost)
    (found,) = torch.autograd.grad(sinkhorn(cost, regularization=0.2, iterations=500).value, cost)
    # Both marginals are fixed, so gradients count up to a constant for each row and column.
    difference = found - expected
    difference = difference - difference.mean(0) - difference.mean(1, keepdim=True) + difference.mean()
    assert difference.abs().max() < 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_three_gradients(solver: Solver) -> None:
    cost = draw(2, 3, 4, seed=6).requires_grad_()
    kinds: list[Gradient] = ["envelope", "unrolled", "none"]
    held, unrolled, none = (solver(cost, iterations=6, gradient=kind) for kind in kinds)
    assert torch.equal(torch.autograd.grad(held.value.sum(), cost)[0], held.plan)
    assert not held.plan.requires_grad
    assert unrolled.plan.requires_grad
    assert not none.value.requires_grad
    assert torch.autograd.gradcheck(lambda cost: solver(cost, iterations=6, gradient="unrolled").value, [cost])


def test_unrolled_gradients_of_padded_problems_are_finite_and_zero_outside() -> None:
    cost = draw(1, 4, 4, seed=7).requires_grad_()
    mass = torch.tensor([[0.5, 0.3, 0.2, 0.0]], dtype=torch.float64)
    for solver in SOLVERS:
        (gradient,) = torch.autograd.grad(solver(cost, mass, mass, gradient="unrolled").value.sum(), cost)
        assert gradient.isfinite().all()
        assert not gradient[:, 3].any()
        assert not gradient[:, :, 3].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_single_cost_gives_what_a_batch_of_one_gives(solver: Solver) -> None:
    cost, (mu, nu) = draw(1, 3, 4), masses(1, 3, 4)
    batched, single = solver(cost, mu, nu), solver(cost[0], mu[0], nu[0])
    assert single.plan.shape == (3, 4)
    assert single.value.shape == single.converged.shape == ()
    assert torch.equal(single.plan, batched.plan[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"iterations": 0}, "iterations=0"), ({"tolerance": -1}, "tolerance=-1"), ({"gradient": "all"}, "gradient='all'")],
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_settings_out_of_range_are_refused_by_name(solver: Solver, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        solver(torch.eye(3), **settings)


def test_strengths_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(SettingError, match="regularization=0"):
        sinkhorn(torch.eye(3), regularization=0, iterations=5)
    with pytest.raises(SettingError, match="step=inf"):
        proximal_wasserstein(torch.eye(3), step=float("inf"))


@pytest.mark.parametrize("solver", SOLVERS)
def test_malformed_tensors_are_refused_by_name(solver: Solver) -> None:
    with pytest.raises(TransportError, match=r"^cost is a list"):
        solver([[0.0]])
    with pytest.raises(TransportError, match=r"^cost has shape \(3,\)"):
        solver(torch.zeros(3))
    with pytest.raises(TransportError, match=r"^target_mass has shape"):
        solver(torch.eye(3), None, torch.ones(4) / 4)
    with pytest.raises(TransportError, match="NaN or infinite"):
        solver(torch.full((2, 2), float("nan")))


def test_the_package_still_offers_the_function_of_the_modules_name() -> None:
    assert fossil.transport.wasserstein(torch.eye(3)).plan.shape == (3, 3)


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.wasserstein"])
    assert results.attempted > 0
    assert results.failed == 0
