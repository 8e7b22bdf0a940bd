"""The conditional gradient and its exact linear step against POT's."""

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.transport import (
    ConditionalGradient,
    FusedProblem,
    fused_gromov_wasserstein,
    gromov_wasserstein,
    wasserstein,
)
from fossil.transport.linear import exact_plan


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def distances(nodes: int, seed: int) -> Tensor:
    points = draw(nodes, 3, seed=seed)
    return torch.cdist(points, points)


def masses(nodes: int, seed: int, even: bool) -> Tensor:
    return torch.full((nodes,), 1 / nodes, dtype=torch.float64) if even else torch.softmax(draw(nodes, seed=seed), 0)


@pytest.mark.parametrize(
    ("n", "m", "even"), [(5, 5, True), (40, 40, True), (40, 33, True), (30, 30, False), (1, 7, False)]
)
@pytest.mark.parametrize("seed", range(3))
def test_the_linear_step_is_exact_transport(n: int, m: int, even: bool, seed: int) -> None:
    cost = (draw(n, m, seed=seed) - 0.5).numpy()
    mu, nu = masses(n, 10 + seed, even).numpy(), masses(m, 20 + seed, even).numpy()
    plan = exact_plan(cost, mu, nu)
    np.testing.assert_allclose(plan.sum(1), mu, rtol=0, atol=1e-12)
    np.testing.assert_allclose(plan.sum(0), nu, rtol=0, atol=1e-12)
    assert plan.min() >= 0 and np.count_nonzero(plan) <= n + m - 1
    assert (plan * cost).sum() == pytest.approx(float(ot.emd2(mu, nu, cost)), abs=1e-9)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_linear_step_does_not_mind_the_unit_of_costs(unit: float) -> None:
    random = np.random.default_rng(5)
    # All nodes would like the same few partners, so that the cheapest pairs are not enough.
    cost = unit * (random.random((60, 1)) * random.random((1, 70)) + 0.01 * random.random((60, 70)))
    source, target = (random.dirichlet(np.ones(n)) for n in cost.shape)
    found = exact_plan(cost, source, target)
    np.testing.assert_allclose((found * cost).sum(), ot.emd2(source, target, cost), rtol=1e-7)


@pytest.mark.parametrize(("n", "m", "even"), [(5, 7, True), (50, 60, False)])
def test_masses_of_single_precision_have_a_plan(n: int, m: int, even: bool) -> None:
    cost, source, target = draw(n, m), distances(n, 1), distances(m, 2)
    mu, nu = masses(n, 3, even), masses(m, 4, even)
    single = [each.float() for each in (cost, source, target, mu, nu)]
    found = fused_gromov_wasserstein(*single, solver=ConditionalGradient())
    _, log = ot.gromov.fused_gromov_wasserstein(
        *(each.numpy() for each in (cost, source, target, mu, nu)), alpha=0.5, tol_rel=1e-12, tol_abs=1e-12, log=True
    )
    assert float(found.value) == pytest.approx(float(log["fgw_dist"]), rel=1e-4)
    assert float(found.row_error + found.column_error) < 1e-5


def test_nodes_without_mass_get_nothing() -> None:
    mu, nu = np.array([0.0, 0.5, 0.5]), np.array([0.25, 0.0, 0.75])
    plan = exact_plan(draw(3, 3).numpy(), mu, nu)
    assert not plan[0].any() and not plan[:, 1].any()
    np.testing.assert_allclose(plan.sum(1), mu)


@pytest.mark.parametrize(("n", "m", "even"), [(30, 30, True), (25, 31, True), (20, 20, False)])
@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9])
def test_values_are_those_of_pot(n: int, m: int, even: bool, alpha: float) -> None:
    cost, source, target = draw(n, m), distances(n, 1), distances(m, 2)
    mu, nu = masses(n, 3, even), masses(m, 4, even)
    found = fused_gromov_wasserstein(cost, source, target, mu, nu, alpha=alpha, solver=ConditionalGradient())
    # POT weighs the structures by its alpha, this package the features.
    given = [each.numpy() for each in (cost, source, target, mu, nu)]
    plan, log = ot.gromov.fused_gromov_wasserstein(*given, alpha=1 - alpha, tol_rel=1e-12, tol_abs=1e-12, log=True)
    assert float(found.value) == pytest.approx(float(log["fgw_dist"]), rel=1e-6)
    np.testing.assert_allclose(found.plan.numpy(), plan, rtol=0, atol=1e-6)
    assert bool(found.converged) and float(found.row_error + found.column_error) < 1e-12


def test_directed_structures_are_those_of_pot() -> None:
    cost, source, target = draw(15, 15), draw(15, 15, seed=1), draw(15, 15, seed=2)
    found = fused_gromov_wasserstein(cost, source, target, solver=ConditionalGradient())
    even = np.full(15, 1 / 15)
    given = [each.numpy() for each in (cost, source, target)]
    _, log = ot.gromov.fused_gromov_wasserstein(*given, even, even, alpha=0.5, symmetric=False, log=True)
    assert float(found.value) == pytest.approx(float(log["fgw_dist"]), rel=1e-6)


def test_the_way_is_gone_as_far_as_the_objective_falls() -> None:
    # Between such structures the objective is convex, so that the best plan lies inside and no step has length one.
    points, others = 4 * draw(12, 3, seed=1) - 2, 4 * draw(12, 3, seed=2) - 2
    cost, source, target = draw(12, 12), points @ points.T, -(others @ others.T)
    solver = ConditionalGradient(iterations=50, tolerance=None)
    found = fused_gromov_wasserstein(cost, source, target, solver=solver)
    even = np.full(12, 1 / 12)
    given = [each.numpy() for each in (cost, source, target)]
    limits = {"max_iter": 50, "tol_rel": 0, "tol_abs": 0}
    plan, _ = ot.gromov.fused_gromov_wasserstein(*given, even, even, alpha=0.5, log=True, **limits)
    assert np.count_nonzero(plan > 1e-9) > 2 * 12
    np.testing.assert_allclose(found.plan.numpy(), plan, rtol=0, atol=1e-9)


def test_features_alone_and_structures_alone() -> None:
    cost, source, target = draw(12, 9), distances(12, 1), distances(9, 2)
    moved = wasserstein(cost, solver=ConditionalGradient())
    even = np.full(12, 1 / 12), np.full(9, 1 / 9)
    assert float(moved.value) == pytest.approx(float(ot.emd2(*even, cost.numpy())), abs=1e-9)
    compared = gromov_wasserstein(source, target, solver=ConditionalGradient())
    expected = ot.gromov.gromov_wasserstein2(source.numpy(), target.numpy(), *even)
    assert float(compared.value) == pytest.approx(float(expected), rel=1e-6)


def test_a_batch_is_its_problems_and_the_gradient_holds_the_plan() -> None:
    cost = draw(3, 8, 8).requires_grad_()
    structures = torch.stack([distances(8, seed) for seed in range(3)])
    problem = FusedProblem.uniform(cost, structures, structures.flip(0), alpha=0.4)
    solution = ConditionalGradient()(problem)
    for each in range(3):
        alone = ConditionalGradient()(problem.part(each, each + 1))
        torch.testing.assert_close(alone.plan[0], solution.plan[each])
        assert alone.iterations[0] == solution.iterations[each]
    solution.value.sum().backward()
    torch.testing.assert_close(cost.grad, 0.4 * solution.plan)
    assert ConditionalGradient(iterations=2, tolerance=None)(problem).iterations.tolist() == [2, 2, 2]


def test_an_unrolled_gradient_is_refused() -> None:
    with pytest.raises(SettingError, match="cannot be unrolled"):
        ConditionalGradient(gradient="unrolled")
