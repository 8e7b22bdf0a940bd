"""The proximal point method against the recursion that GSC uses, and exact assignments."""

import doctest
import sys

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fossil.errors import SettingError
from fossil.transport import ProximalPoint, wasserstein


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
def test_the_plan_is_that_of_the_recursion_gsc_uses(n: int, m: int, step: float, iterations: int) -> None:
    cost = draw(4, n, m)
    solution = wasserstein(cost, solver=ProximalPoint(step=step, iterations=iterations))
    expected = torch.stack([plain_recursion(each, step, iterations) for each in cost])
    torch.testing.assert_close(solution.plan, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(solution.value, (cost * expected).sum((1, 2)), rtol=0, atol=1e-12)


def test_defaults_are_those_of_gsc() -> None:
    cost = draw(5, 5)
    found = wasserstein(cost, solver=ProximalPoint()).plan
    torch.testing.assert_close(found, plain_recursion(cost, 0.5, 40), rtol=0, atol=1e-12)


def test_the_recursion_overflows_where_the_logarithms_do_not() -> None:
    cost = -1000 * draw(5, 5)
    assert plain_recursion(cost, 0.5, 40).isnan().any()
    solution = wasserstein(cost, solver=ProximalPoint(iterations=2000))
    rows, columns = linear_sum_assignment(cost.numpy())
    assert solution.value.item() == pytest.approx(cost.numpy()[rows, columns].mean(), rel=1e-6)


def test_many_iterations_give_the_best_assignment() -> None:
    costs = draw(6, 8, 8, seed=3)
    solution = wasserstein(costs, solver=ProximalPoint(iterations=3000, tolerance=1e-12))
    for cost, value in zip(costs.numpy(), solution.value.tolist(), strict=True):
        assert value == pytest.approx(cost[linear_sum_assignment(cost)].mean(), abs=1e-6)
    assert (solution.row_error < 1e-5).all()


def test_a_step_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(SettingError, match="step=inf"):
        ProximalPoint(step=float("inf"))


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.solvers.proximal"])
    assert results.attempted > 0
    assert results.failed == 0
