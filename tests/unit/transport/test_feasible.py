"""The feasible variant against a direct transcription, its rounding, and its behaviour at the edges of its range."""

import doctest
import itertools
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.errors import FossilWarning, SettingError, TransportError
from fossil.ops.bapg import BapgRule, bapg_iterations
from fossil.transport import Feasible, FusedProblem, Solution, fused_gromov_wasserstein, round_onto_masses


def make(
    batch: int = 3, n: int = 5, m: int = 6, *, seed: int = 0, directed: bool = False, alpha: float = 0.4
) -> FusedProblem:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    source, target = draw(batch, n, n), draw(batch, m, m)
    if not directed:
        source, target = (source + source.mT) / 2, (target + target.mT) / 2
    masses = torch.softmax(draw(batch, n), 1), torch.softmax(draw(batch, m), 1)
    return FusedProblem(draw(batch, n, m), source, target, *masses, alpha)


def run(
    problem: FusedProblem, step: float, iterations: int, tolerance: float | None = None, **settings: Any
) -> Solution:
    return Feasible(step=step, iterations=iterations, tolerance=tolerance, **settings)(problem)


def plain_algorithm(problem: FusedProblem, step: float, iterations: int, sweeps: int) -> Tensor:
    """Multiply and scale without logarithms, with the gradient of the four-index sum at the plan's own marginals."""
    mu, nu = problem.source_mass, problem.target_mass
    loss = (problem.source_structure[:, :, None, :, None] - problem.target_structure[:, None, :, None, :]).square()
    plan, columns = mu[:, :, None] * nu[:, None, :], torch.ones_like(nu)
    for _ in range(iterations):
        structure = torch.einsum("bijkl,bkl->bij", loss, plan) + torch.einsum("bijkl,bij->bkl", loss, plan)
        gradient = problem.alpha * problem.feature_cost + (1 - problem.alpha) * structure
        kernel = plan * torch.exp(-gradient / step)
        for _ in range(sweeps):
            rows = mu / torch.einsum("bij,bj->bi", kernel, columns)
            columns = nu / torch.einsum("bij,bi->bj", kernel, rows)
        plan = rows[:, :, None] * kernel * columns[:, None, :]
    return plan


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("step", "sweeps"), [(0.1, 3), (1.0, 1)])
def test_plan_is_that_of_the_direct_formula(directed: bool, alpha: float, step: float, sweeps: int) -> None:
    problem = make(directed=directed, alpha=alpha)
    found = run(problem, step, 8, sweeps=sweeps, rounding=False, symmetric=not directed)
    torch.testing.assert_close(found.plan, plain_algorithm(problem, step, 8, sweeps), rtol=0, atol=1e-9)


@pytest.mark.parametrize("directed", [True, False])
def test_symmetry_is_detected(directed: bool) -> None:
    problem = make(directed=directed)
    expected = run(problem, 0.5, 10, symmetric=not directed).plan
    assert torch.equal(run(problem, 0.5, 10).plan, expected)


def test_rows_are_far_closer_to_their_masses_than_those_of_bapg() -> None:
    problem = make(batch=8)
    plans = (
        run(problem, 0.1, 100, rounding=False).plan,
        bapg_iterations(problem, BapgRule(0.1, 100)).plan,
    )
    ours, theirs = ((plan.sum(2) - problem.source_mass).abs().sum(1).mean() for plan in plans)
    assert ours < theirs / 50


def test_a_permuted_copy_is_recognised() -> None:
    generator = torch.Generator().manual_seed(4)
    points = torch.rand(10, 2, generator=generator, dtype=torch.float64)
    order = torch.randperm(10, generator=generator)
    distances = torch.cdist(points, points)
    cost = torch.cdist(points, points[order])
    solution = fused_gromov_wasserstein(cost, distances, distances[order][:, order], solver=Feasible())
    assert solution.value < 1e-6
    assert torch.equal(order[solution.plan.argmax(1)], torch.arange(10))
    assert solution.converged


def test_rounding_gives_both_marginals_whatever_the_plan() -> None:
    problem = make(batch=20)
    plan = torch.rand(20, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 10
    plan[0] = 0
    plan[1, :, 0] = 0
    rounded = round_onto_masses(plan, problem.source_mass, problem.target_mass)
    assert (rounded >= 0).all()
    torch.testing.assert_close(rounded.sum(2), problem.source_mass, rtol=0, atol=1e-15)
    torch.testing.assert_close(rounded.sum(1), problem.target_mass, rtol=0, atol=1e-15)
    torch.testing.assert_close(rounded[0], problem.source_mass[0][:, None] * problem.target_mass[0])


def test_rounding_keeps_a_plan_that_has_its_masses_and_moves_others_little() -> None:
    problem = make(batch=20)
    mu, nu = problem.source_mass, problem.target_mass
    product = mu[:, :, None] * nu[:, None, :]
    torch.testing.assert_close(round_onto_masses(product, mu, nu), product, rtol=0, atol=1e-16)
    noise = torch.rand(20, 5, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    plan = product * (0.9 + 0.2 * noise)
    missed = (plan.sum(2) - mu).abs().sum(1) + (plan.sum(1) - nu).abs().sum(1)
    moved = (round_onto_masses(plan, mu, nu) - plan).abs().sum((1, 2))
    assert (missed > 1e-3).all()
    assert (moved <= 2 * missed).all()


def test_a_problem_that_met_the_tolerance_is_left_as_it_was() -> None:
    problem = make(batch=5)
    found = run(problem, 0.5, 400, 1e-4)
    assert found.settled.all()
    assert found.converged.all()
    assert len(set(found.iterations.tolist())) > 1
    for index, made in enumerate(found.iterations.tolist()):
        alone = problem.part(index, index + 1)
        plan = run(alone, 0.5, made).plan
        torch.testing.assert_close(found.plan[index], plan[0], rtol=0, atol=1e-12)


def test_the_limit_of_iterations_is_reported_as_not_settled() -> None:
    for tolerance in (None, 1e-12):
        found = run(make(), 0.5, 4, tolerance)
        assert found.iterations.tolist() == [4] * 3
        assert not found.settled.any()
        assert not found.converged.any()


def test_a_small_step_warns_at_the_line_that_asked_for_it() -> None:
    with pytest.warns(FossilWarning, match=r"step=0\.005 is below 0\.01") as caught:
        solver = Feasible(step=0.005, iterations=1)
        fused_gromov_wasserstein(*[torch.eye(3)] * 3, solver=solver)
    assert [item.filename for item in caught] == [__file__]


@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("step", [1e-3, 1e-2, 0.1, 1.0, 10.0])
def test_float32_plans_are_finite_and_feasible_over_the_whole_grid(step: float, scale: float) -> None:
    exact = make(batch=6, n=12, m=12)
    tensors = {name: tensor.float() for name, tensor in exact.tensors().items()}
    costs = {name: tensors[name] * scale for name in ("feature_cost", "source_structure", "target_structure")}
    for alpha, tolerance in itertools.product((0.0, 0.5, 1.0), (None, 1e-5)):
        problem = FusedProblem(**{**tensors, **costs}, alpha=alpha)
        plan = run(problem, step, 50, tolerance).plan
        assert plan.isfinite().all()
        assert (plan >= 0).all()
        torch.testing.assert_close(plan.sum(2), problem.source_mass, rtol=0, atol=1e-6)
        torch.testing.assert_close(plan.sum(1), problem.target_mass, rtol=0, atol=1e-6)
        assert problem.objective(plan).isfinite().all()


@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")
@pytest.mark.parametrize("step", [1e-3, 0.1])
def test_padding_with_zero_mass_gets_nothing_and_changes_nothing(step: float) -> None:
    problem = make()
    pad = torch.nn.functional.pad
    padded = FusedProblem(
        pad(problem.feature_cost, (0, 3, 0, 2), value=-3.0),
        pad(problem.source_structure, (0, 2, 0, 2), value=9.0),
        pad(problem.target_structure, (0, 3, 0, 3), value=11.0),
        pad(problem.source_mass, (0, 2)),
        pad(problem.target_mass, (0, 3)),
        problem.alpha,
    )
    bare, plan = (run(each, step, 10, sweeps=2).plan for each in (problem, padded))
    assert not plan[:, 5:].any()
    assert not plan[:, :, 6:].any()
    torch.testing.assert_close(plan[:, :5, :6], bare, rtol=0, atol=1e-9)


def test_envelope_gradient_is_the_closed_form_at_the_plan() -> None:
    problem = make()
    costs = [cost.clone().requires_grad_() for cost in list(problem.tensors().values())[:3]]
    masses = problem.source_mass, problem.target_mass
    solution = fused_gromov_wasserstein(*costs, *masses, alpha=0.4, solver=Feasible())
    found = torch.autograd.grad(solution.value.sum(), costs)
    plan, mu, nu = solution.plan, problem.source_mass, problem.target_mass
    source, target = problem.source_structure, problem.target_structure
    assert not plan.requires_grad
    torch.testing.assert_close(found[0], 0.4 * plan)
    expected = 1.2 * (source * mu[:, :, None] * mu[:, None, :] - plan @ target @ plan.mT)
    torch.testing.assert_close(found[1], expected)
    expected = 1.2 * (target * nu[:, :, None] * nu[:, None, :] - plan.mT @ source @ plan)
    torch.testing.assert_close(found[2], expected)


@pytest.mark.parametrize("rounding", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
def test_unrolled_gradient_passes_finite_differences(rounding: bool, symmetric: bool) -> None:
    problem = make(batch=2, n=3, m=4)
    costs = [cost.requires_grad_() for cost in list(problem.tensors().values())[:3]]

    solver = Feasible(
        step=0.5,
        iterations=4,
        sweeps=2,
        tolerance=None,
        rounding=rounding,
        gradient="unrolled",
        symmetric=symmetric,
    )

    def value(*costs: Tensor) -> Tensor:
        return fused_gromov_wasserstein(*costs, problem.source_mass, problem.target_mass, solver=solver).value

    assert torch.autograd.gradcheck(value, costs)


def test_gradient_none_records_nothing() -> None:
    cost = torch.rand(3, 3).requires_grad_()
    solution = fused_gromov_wasserstein(cost, cost, cost, solver=Feasible(gradient="none"))
    assert not solution.value.requires_grad
    assert not solution.plan.requires_grad


def test_a_single_problem_gives_what_a_batch_of_one_gives() -> None:
    problem = make(batch=1)
    tensors = list(problem.tensors().values())
    batched = fused_gromov_wasserstein(*tensors, alpha=0.4, solver=Feasible())
    single = fused_gromov_wasserstein(*(tensor[0] for tensor in tensors), alpha=0.4, solver=Feasible())
    assert single.plan.shape == (5, 6)
    assert single.value.shape == single.row_error.shape == single.settled.shape == single.iterations.shape == ()
    assert torch.equal(single.plan, batched.plan[0])
    assert torch.equal(single.value, batched.value[0])


def test_an_empty_batch_gives_an_empty_plan() -> None:
    for tolerance in (None, 1e-3):
        assert run(make().part(0, 0), 0.5, 5, tolerance).plan.shape == (0, 5, 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0.0}, "step=0.0"),
        ({"step": float("nan")}, "step=nan"),
        ({"step": "fast"}, "step='fast'"),
        ({"iterations": 0}, "iterations=0"),
        ({"sweeps": 0}, "sweeps=0"),
        ({"sweeps": 1.5}, "sweeps=1.5"),
        ({"tolerance": -1.0}, "tolerance=-1.0"),
        ({"gradient": "exact"}, "gradient='exact'"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Feasible(**settings)


def test_malformed_tensors_are_refused_by_name() -> None:
    matrix, solver = torch.eye(3), Feasible()
    with pytest.raises(TransportError, match=r"^feature_cost is a list"):
        fused_gromov_wasserstein([[0.0]], matrix, matrix, solver=solver)  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^target_structure has shape"):
        fused_gromov_wasserstein(matrix, matrix, torch.eye(4), solver=solver)
    with pytest.raises(TransportError, match=r"^source_mass is a list"):
        fused_gromov_wasserstein(matrix, matrix, matrix, [1.0, 0, 0], solver=solver)  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^source_mass of problem 0 does not sum"):
        fused_gromov_wasserstein(matrix, matrix, matrix, torch.ones(3), solver=solver)
    with pytest.raises(TransportError, match=r"^alpha=2"):
        fused_gromov_wasserstein(matrix, matrix, matrix, alpha=2, solver=solver)


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.solvers.feasible"])
    assert results.attempted > 0
    assert results.failed == 0
