"""The solver BAPG: what it reports, its three gradients, its settings, and how it looks for symmetry."""

import doctest
import sys
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.errors import FossilWarning, SettingError, TransportError
from fossil.ops.bapg import BapgRule, bapg_iterations
from fossil.ops.objective import Marginals
from fossil.transport import BAPG, FusedProblem
from fossil.transport.solvers.base import Gradient

KINDS: list[Gradient] = ["envelope", "unrolled", "none"]

fixed = partial(BAPG, iterations=20, tolerance=None)


def costs(batch: int = 2, n: int = 4, m: int = 3, *, directed: bool = False, grad: bool = True) -> list[Tensor]:
    generator = torch.Generator().manual_seed(11)
    drawn = [torch.rand(batch, *shape, generator=generator, dtype=torch.float64) for shape in ((n, m), (n, n), (m, m))]
    if not directed:
        drawn[1:] = [(structure + structure.mT) / 2 for structure in drawn[1:]]
    return [cost.requires_grad_(grad) for cost in drawn]


def uniform(drawn: list[Tensor], alpha: float = 0.4) -> FusedProblem:
    return FusedProblem.uniform(drawn[0], drawn[1], drawn[2], alpha)


@pytest.mark.parametrize("marginals", ["prescribed", "actual"])
@pytest.mark.parametrize("directed", [True, False])
def test_envelope_gradient_is_the_closed_form(marginals: Marginals, directed: bool) -> None:
    drawn = costs(directed=directed)
    problem = uniform(drawn)
    solution = fixed(step=0.3, marginals=marginals)(problem)
    found = torch.autograd.grad(solution.value.sum(), drawn)
    plan, (_, source, target) = solution.plan, (cost.detach() for cost in drawn)
    rows, columns = plan.sum(2), plan.sum(1)
    left, right = (rows, columns) if marginals == "actual" else (problem.source_mass, problem.target_mass)
    assert not plan.requires_grad
    torch.testing.assert_close(found[0], 0.4 * plan)
    expected = 2 * 0.6 * (source * rows[:, :, None] * left[:, None, :] - plan @ target @ plan.mT)
    torch.testing.assert_close(found[1], expected)
    expected = 2 * 0.6 * (target * columns[:, :, None] * right[:, None, :] - plan.mT @ source @ plan)
    torch.testing.assert_close(found[2], expected)


@pytest.mark.parametrize("constant_terms", [True, False])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("marginals", ["prescribed", "actual"])
def test_unrolled_gradient_passes_finite_differences(
    constant_terms: bool, symmetric: bool, marginals: Marginals
) -> None:
    solver = BAPG(
        step=0.5,
        iterations=4,
        tolerance=None,
        gradient="unrolled",
        constant_terms=constant_terms,
        symmetric=symmetric,
        marginals=marginals,
    )

    def value(feature_cost: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return solver(FusedProblem.uniform(feature_cost, source, target, 0.4)).value

    # Directed inputs: finite differences break symmetry anyway.
    assert torch.autograd.gradcheck(value, costs(directed=True))


def test_envelope_gradient_passes_finite_differences_of_the_objective_at_the_plan() -> None:
    drawn = costs()
    plan = fixed(step=0.5)(uniform(drawn)).plan

    def value(feature_cost: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return FusedProblem.uniform(feature_cost, source, target, 0.4).objective(plan)

    assert torch.autograd.gradcheck(value, drawn)


def test_the_two_gradients_agree_where_the_plan_is_stationary_and_feasible() -> None:
    # Identical structures and a strongly diagonal cost: BAPG ends at the diagonal plan, a strict minimiser.
    generator = torch.Generator().manual_seed(0)
    structure = torch.rand(1, 4, 4, generator=generator, dtype=torch.float64)
    structure = structure + structure.mT
    gradients = []
    for kind in KINDS[:2]:
        cost = (1 - torch.eye(4, dtype=torch.float64))[None].clone().requires_grad_()
        problem = FusedProblem.uniform(cost, structure, structure, 0.9)
        value = BAPG(step=0.5, iterations=100, tolerance=None, gradient=kind)(problem).value
        gradients.append(torch.autograd.grad(value.sum(), cost)[0])
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-8, rtol=0)


def test_unrolling_with_padding_gives_finite_gradients() -> None:
    drawn = costs()
    mass = torch.tensor([[0.5, 0.25, 0.25, 0.0]] * 2, dtype=torch.float64)
    problem = FusedProblem(drawn[0], drawn[1], drawn[2], mass, torch.full((2, 3), 1 / 3, dtype=torch.float64), 0.4)
    value = fixed(step=0.1, gradient="unrolled")(problem).value
    for gradient in torch.autograd.grad(value.sum(), drawn):
        assert gradient.isfinite().all()


def test_unrolling_stops_at_the_tolerance_too() -> None:
    drawn = costs()
    solution = BAPG(step=1.0, iterations=300, tolerance=1e-3, gradient="unrolled")(uniform(drawn))
    assert solution.settled.all()
    assert (solution.iterations < 300).all()
    assert torch.autograd.grad(solution.value.sum(), drawn)[0].isfinite().all()


@pytest.mark.parametrize("tolerance", [None, 1e-3])
def test_no_gradient_leaves_nothing_to_differentiate(tolerance: float | None) -> None:
    solution = BAPG(step=0.5, iterations=20, tolerance=tolerance, gradient="none")(uniform(costs()))
    assert not solution.value.requires_grad
    assert not solution.plan.requires_grad


@pytest.mark.parametrize("tolerance", [None, 1e-3])
def test_all_gradients_come_with_the_same_value_and_plan(tolerance: float | None) -> None:
    problem = uniform(costs())
    solvers = (BAPG(step=0.5, iterations=20, tolerance=tolerance, gradient=kind) for kind in KINDS)
    first, *others = (solver(problem) for solver in solvers)
    for other in others:
        torch.testing.assert_close(other.value, first.value)
        torch.testing.assert_close(other.plan, first.plan)


def test_masses_get_no_gradient() -> None:
    drawn = costs()
    masses = [torch.full((2, size), 1 / size, dtype=torch.float64, requires_grad=True) for size in (4, 3)]
    problem = FusedProblem(drawn[0], drawn[1], drawn[2], masses[0], masses[1], 0.4)
    for kind in KINDS[:2]:
        solution = fixed(step=0.5, marginals="prescribed", gradient=kind)(problem)
        found = torch.autograd.grad(solution.value.sum(), masses, allow_unused=True)
        assert list(found) == [None, None]


@pytest.mark.parametrize("tolerance", [None, 1e-2])
def test_the_solution_reports_the_outcome_of_the_iterations_and_the_errors_of_its_plan(
    tolerance: float | None,
) -> None:
    problem = uniform(costs(grad=False))
    solution = BAPG(step=0.5, iterations=30, tolerance=tolerance)(problem)
    outcome = bapg_iterations(problem, BapgRule(0.5, 30), tolerance)
    assert torch.equal(solution.plan, outcome.plan)
    assert torch.equal(solution.iterations, outcome.iterations)
    assert torch.equal(solution.settled, outcome.settled)
    assert bool(solution.settled.all()) == (tolerance is not None)
    torch.testing.assert_close(solution.row_error, (outcome.plan.sum(2) - 1 / 4).abs().sum(1))
    assert (solution.row_error > 1e-6).all()
    assert (solution.column_error < 1e-12).all()


def test_a_malformed_problem_is_refused_unless_the_check_is_waived() -> None:
    drawn = costs(grad=False)
    drawn[0][1, 0, 0] = float("nan")
    for solver in (fixed(step=0.5), BAPG(step=0.5)):
        with pytest.raises(TransportError, match="feature_cost of problem 1"):
            solver(uniform(drawn))
        assert solver(uniform(drawn), check=False).value[1].isnan()


@pytest.mark.parametrize("directed", [True, False])
def test_symmetry_is_detected(directed: bool) -> None:
    problem = uniform(costs(directed=directed, grad=False))
    expected = bapg_iterations(problem, BapgRule(0.5, 20, symmetric=not directed)).plan
    assert torch.equal(fixed(step=0.5)(problem).plan, expected)
    other = bapg_iterations(problem, BapgRule(0.5, 20, symmetric=directed)).plan
    assert torch.equal(fixed(step=0.5, symmetric=directed)(problem).plan, other)


def test_one_directed_problem_is_enough_to_leave_the_symmetric_path() -> None:
    problem = uniform(costs(batch=4, grad=False))
    before = fixed(step=0.5, symmetric=True)(problem).plan
    problem.target_structure[2, 0, 1] += 0.5
    found = fixed(step=0.5)(problem).plan
    assert torch.equal(found, fixed(step=0.5, symmetric=False)(problem).plan)
    assert not torch.equal(found[2], before[2])


def test_a_small_step_warns_at_the_line_that_asked_for_it() -> None:
    with pytest.warns(FossilWarning, match=r"step=0\.005 is below 0\.01") as caught:
        solver = BAPG(step=0.005, iterations=1)
        solver(uniform(costs()))
    assert [item.filename for item in caught] == [__file__]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step": 0.0}, "step=0.0"),
        ({"step": float("nan")}, "step=nan"),
        ({"step": float("inf")}, "step=inf"),
        ({"step": "fast"}, "step='fast'"),
        ({"iterations": 0}, "iterations=0"),
        ({"iterations": 2.5}, "iterations=2.5"),
        ({"tolerance": -1.0}, "tolerance=-1.0"),
        ({"gradient": "exact"}, "gradient='exact'"),
        ({"marginals": "exact"}, "marginals='exact'"),
        ({"marginals": "both"}, "marginals='both'"),
        ({"arithmetic": "bf16"}, "arithmetic='bf16'"),
        ({"arithmetic": "tf32x3"}, "arithmetic='tf32x3'"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        BAPG(**settings)


@pytest.mark.parametrize("name", ["problem", "solvers.bapg"])
def test_examples_in_the_documentation_run(name: str) -> None:
    results = doctest.testmod(sys.modules[f"fossil.transport.{name}"])
    assert results.attempted > 0
    assert results.failed == 0
