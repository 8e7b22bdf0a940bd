"""Sinkhorn's iteration against its multiplicative form and exact assignments."""

import doctest
import sys

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fossil.errors import SettingError
from fossil.transport import Sinkhorn, wasserstein


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_plan_is_that_of_the_multiplicative_scaling() -> None:
    cost = draw(3, 5, 7)
    mu, nu = torch.softmax(draw(3, 5, seed=1), 1), torch.softmax(draw(3, 7, seed=2), 1)
    kernel, columns = torch.exp(-cost / 0.1), torch.ones(3, 7, dtype=torch.float64)
    for _ in range(12):
        rows = mu / torch.einsum("bij,bj->bi", kernel, columns)
        columns = nu / torch.einsum("bij,bi->bj", kernel, rows)
    expected = rows[:, :, None] * kernel * columns[:, None, :]
    solution = wasserstein(cost, mu, nu, solver=Sinkhorn(regularization=0.1, iterations=12))
    torch.testing.assert_close(solution.plan, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(solution.value, (cost * expected).sum((1, 2)), rtol=0, atol=1e-12)


def test_a_smaller_regularization_comes_closer_to_the_best_assignment_from_above() -> None:
    cost = draw(8, 8, seed=4)
    best = cost.numpy()[linear_sum_assignment(cost.numpy())].mean()
    weights = 1.0, 0.1, 0.02
    solvers = [Sinkhorn(regularization=weight, iterations=2000) for weight in weights]
    excess = [wasserstein(cost, solver=solver).value.item() - best for solver in solvers]
    assert excess[0] > excess[1] > excess[2] > -1e-6
    # The entropy of a plan between uniform masses is between log 8 and 2 log 8, so no more than this can be lost to it.
    assert all(loss < weight * np.log(8) for loss, weight in zip(excess, weights, strict=True))


def test_envelope_gradient_is_that_of_the_regularised_minimum() -> None:
    cost = draw(4, 4, seed=5).requires_grad_()

    def minimum(cost: Tensor) -> Tensor:
        solver = Sinkhorn(regularization=0.2, iterations=500, gradient="unrolled")
        solution = wasserstein(cost, solver=solver)
        entropy = (solution.plan * (solution.plan.log() - 1)).sum()
        return solution.value + 0.2 * entropy

    (expected,) = torch.autograd.grad(minimum(cost), cost)
    held = wasserstein(cost, solver=Sinkhorn(regularization=0.2, iterations=500))
    (found,) = torch.autograd.grad(held.value, cost)
    # Both marginals are fixed, so gradients count up to a constant for each row and column.
    difference = found - expected
    difference = difference - difference.mean(0) - difference.mean(1, keepdim=True) + difference.mean()
    assert difference.abs().max() < 1e-8


def test_a_regularization_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(SettingError, match="regularization=0"):
        Sinkhorn(regularization=0, iterations=5)


def test_the_regularization_has_no_default() -> None:
    with pytest.raises(TypeError, match="regularization"):
        Sinkhorn()  # type: ignore[call-arg]


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.solvers.sinkhorn"])
    assert results.attempted > 0
    assert results.failed == 0
