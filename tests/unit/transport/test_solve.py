"""The public solver: what it reports, its three gradients, and the convenience functions."""

import doctest
import importlib
import sys
import warnings

import pytest
import torch
from torch import Tensor

from fossil.errors import FossilWarning, SettingError, TransportError
from fossil.transport import FusedProblem, fused_gromov_wasserstein, gromov_wasserstein, solve, wasserstein
from fossil.transport.bapg import bapg
from fossil.transport.problem import Marginals
from fossil.transport.solve import Gradient

KINDS: list[Gradient] = ["envelope", "unrolled", "none"]


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
    solution = solve(problem, step=0.3, marginals=marginals)
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
    def value(feature_cost: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return solve(
            FusedProblem.uniform(feature_cost, source, target, 0.4),
            step=0.5,
            iterations=4,
            gradient="unrolled",
            constant_terms=constant_terms,
            symmetric=symmetric,
            marginals=marginals,
        ).value

    # Directed inputs: finite differences break symmetry anyway.
    assert torch.autograd.gradcheck(value, costs(directed=True))


def test_envelope_gradient_passes_finite_differences_of_the_objective_at_the_plan() -> None:
    drawn = costs()
    plan = solve(uniform(drawn), step=0.5).plan

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
        value = solve(problem, step=0.5, iterations=100, gradient=kind).value
        gradients.append(torch.autograd.grad(value.sum(), cost)[0])
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-8, rtol=0)


def test_unrolling_with_padding_gives_finite_gradients() -> None:
    drawn = costs()
    mass = torch.tensor([[0.5, 0.25, 0.25, 0.0]] * 2, dtype=torch.float64)
    problem = FusedProblem(drawn[0], drawn[1], drawn[2], mass, torch.full((2, 3), 1 / 3, dtype=torch.float64), 0.4)
    value = solve(problem, step=0.1, gradient="unrolled").value
    for gradient in torch.autograd.grad(value.sum(), drawn):
        assert gradient.isfinite().all()


def test_unrolling_stops_at_the_tolerance_too() -> None:
    drawn = costs()
    solution = solve(uniform(drawn), step=1.0, iterations=300, tolerance=1e-3, gradient="unrolled")
    assert solution.converged.all()
    assert torch.autograd.grad(solution.value.sum(), drawn)[0].isfinite().all()


def test_no_gradient_leaves_nothing_to_differentiate() -> None:
    solution = solve(uniform(costs()), step=0.5, gradient="none")
    assert not solution.value.requires_grad
    assert not solution.plan.requires_grad


def test_all_gradients_come_with_the_same_value_and_plan() -> None:
    problem = uniform(costs())
    first, *others = (solve(problem, step=0.5, gradient=kind) for kind in KINDS)
    for other in others:
        torch.testing.assert_close(other.value, first.value)
        torch.testing.assert_close(other.plan, first.plan)


def test_masses_get_no_gradient() -> None:
    drawn = costs()
    masses = [torch.full((2, size), 1 / size, dtype=torch.float64, requires_grad=True) for size in (4, 3)]
    problem = FusedProblem(drawn[0], drawn[1], drawn[2], masses[0], masses[1], 0.4)
    for kind in KINDS[:2]:
        solution = solve(problem, step=0.5, marginals="prescribed", gradient=kind)
        found = torch.autograd.grad(solution.value.sum(), masses, allow_unused=True)
        assert list(found) == [None, None]


def test_the_solution_reports_the_solvers_outcome_and_the_errors_of_its_plan() -> None:
    problem = uniform(costs(grad=False))
    solution = solve(problem, step=0.5, iterations=30, tolerance=1e-2)
    outcome = bapg(problem, step=0.5, iterations=30, tolerance=1e-2)
    assert torch.equal(solution.plan, outcome.plan)
    assert torch.equal(solution.iterations, outcome.iterations)
    assert torch.equal(solution.converged, outcome.converged)
    torch.testing.assert_close(solution.row_error, (outcome.plan.sum(2) - 1 / 4).abs().sum(1))
    assert (solution.row_error > 1e-6).all()
    assert (solution.column_error < 1e-12).all()


def test_a_malformed_problem_is_refused_unless_the_check_is_waived() -> None:
    drawn = costs(grad=False)
    drawn[0][1, 0, 0] = float("nan")
    with pytest.raises(TransportError, match="feature_cost of problem 1"):
        solve(uniform(drawn), step=0.5)
    assert solve(uniform(drawn), step=0.5, check=False).value[1].isnan()


@pytest.mark.parametrize("option", ["gradient", "marginals"])
def test_an_unknown_option_is_named(option: str) -> None:
    with pytest.raises(SettingError, match=f"{option}='exact'"):
        solve(uniform(costs()), step=0.5, **{option: "exact"})  # type: ignore[arg-type]


def test_a_single_problem_gives_what_a_batch_of_one_gives() -> None:
    cost, source, target = costs(batch=1, grad=False)
    mass = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    batched = fused_gromov_wasserstein(cost, source, target, mass[None], alpha=0.3)
    single = fused_gromov_wasserstein(cost[0], source[0], target[0], mass, alpha=0.3)
    assert batched.plan.shape == (1, 4, 3)
    assert single.plan.shape == (4, 3)
    assert single.value.shape == single.row_error.shape == single.converged.shape == single.iterations.shape == ()
    assert torch.equal(single.plan, batched.plan[0])


def test_wasserstein_and_gromov_wasserstein_are_the_two_ends_of_alpha() -> None:
    cost, source, target = costs(grad=False)
    ends = [fused_gromov_wasserstein(cost, source, target, alpha=alpha) for alpha in (1.0, 0.0)]
    assert torch.equal(wasserstein(cost).plan, ends[0].plan)
    assert torch.equal(wasserstein(cost).value, ends[0].value)
    assert torch.equal(gromov_wasserstein(source, target).plan, ends[1].plan)
    assert torch.equal(gromov_wasserstein(source, target).value, ends[1].value)


def test_convenience_functions_refuse_what_they_cannot_read() -> None:
    matrix = torch.eye(3)
    with pytest.raises(TransportError, match=r"^cost is a list"):
        wasserstein([[0.0]])  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^cost has shape"):
        wasserstein(torch.zeros(3))
    with pytest.raises(TransportError, match=r"^target_structure has shape"):
        gromov_wasserstein(matrix, torch.zeros(3))
    with pytest.raises(TransportError, match=r"^source_mass is a list"):
        wasserstein(matrix, [1.0, 0.0, 0.0])  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^source_structure has shape"):
        fused_gromov_wasserstein(matrix, matrix[None], matrix)


def test_the_warning_of_a_small_step_points_outside_the_package() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wasserstein(torch.eye(3), step=0.001, iterations=1)
    assert [(item.category, item.filename) for item in caught] == [(FossilWarning, __file__)]


@pytest.mark.parametrize("name", ["problem", "solve"])
def test_examples_in_the_documentation_run(name: str) -> None:
    importlib.import_module("fossil.transport")
    results = doctest.testmod(sys.modules[f"fossil.transport.{name}"])
    assert results.attempted > 0
    assert results.failed == 0
