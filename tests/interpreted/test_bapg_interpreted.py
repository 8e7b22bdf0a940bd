"""The GPU version of BAPG, interpreted on the CPU, against the plain version in float64."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

import triton.language as tl

import fossil.ops.bapg as operation
from fossil.ops.bapg import Arithmetic, BapgRule, bapg, bapg_iterations, supports
from fossil.ops.objective import Marginals
from fossil.ops.triton.jit import kernel, launch
from fossil.ops.triton.tiles import _split
from fossil.transport import BAPG, FusedProblem

COSTS = ("feature_cost", "source_structure", "target_structure")


def make(n: int, m: int, alpha: float, rows: int = 0, columns: int = 0) -> FusedProblem:
    """Draw three problems of n×m nodes, padded with more of zero mass and arbitrary cost, in float64."""
    generator = torch.Generator().manual_seed(n + m)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    def pad(tensor: Tensor, right: int, below: int, value: float) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, right, 0, below), value=value)

    source, target = draw(3, n, n), draw(3, m, m)
    masses = torch.softmax(2 * draw(3, n), 1), torch.softmax(2 * draw(3, m), 1)
    return FusedProblem(
        pad(draw(3, n, m), columns, rows, -3.0),
        pad((source + source.mT) / 2, rows, rows, 9.0),
        pad((target + target.mT) / 2, columns, columns, 11.0),
        pad(masses[0], rows, 0, 0.0),
        pad(masses[1], columns, 0, 0.0),
        alpha,
    )


def single(problem: FusedProblem) -> FusedProblem:
    return FusedProblem(**{name: tensor.float() for name, tensor in problem.tensors().items()}, alpha=problem.alpha)


def costs_of(problem: FusedProblem, names: tuple[str, ...] = COSTS) -> list[Tensor]:
    return [getattr(problem, name).requires_grad_() for name in names]


def difference(found: Tensor, expected: Tensor) -> float:
    return (found - expected).abs().max().item()


@pytest.fixture
def solved(counted: Callable[..., list[str]]) -> list[str]:
    """Return a list that grows with each launch of the solver."""
    return counted("bapg", "solve")


@pytest.mark.parametrize(
    ("n", "m", "alpha", "constant_terms", "step", "iterations", "rows", "columns"),
    [
        (5, 5, 0.4, True, 0.1, 10, 0, 0),
        (5, 5, 0.4, False, 0.1, 10, 0, 0),
        (12, 12, 0.5, True, 0.1, 5, 0, 0),
        (12, 12, 0.5, False, 1.0, 10, 0, 0),
        (16, 16, 0.5, True, 0.1, 5, 0, 0),
        (20, 20, 0.5, True, 0.1, 5, 0, 0),
        (5, 12, 0.5, True, 0.1, 10, 0, 0),
        (16, 7, 0.0, False, 1.0, 10, 0, 0),
        (9, 20, 0.5, True, 0.1, 5, 0, 0),
        (12, 10, 1.0, True, 0.1, 10, 0, 0),
        (5, 6, 0.4, True, 0.1, 10, 2, 0),
        (5, 6, 0.4, False, 1.0, 10, 0, 3),
        (5, 6, 0.4, True, 0.02, 5, 4, 13),
    ],
)
def test_plan_is_that_of_the_plain_version(
    n: int,
    m: int,
    alpha: float,
    constant_terms: bool,
    step: float,
    iterations: int,
    rows: int,
    columns: int,
    solved: list[str],
) -> None:
    problem = make(n, m, alpha, rows, columns)
    solver = BAPG(step=step, iterations=iterations, tolerance=None, constant_terms=constant_terms, symmetric=True)
    rule = solver.rule(problem)
    assert supports(single(problem), rule)
    assert not supports(problem, rule)
    found = solver(single(problem))
    assert solved == ["solve"]
    expected = bapg_iterations(problem, rule).plan
    assert found.plan.shape == (3, n + rows, m + columns)
    assert difference(found.plan, expected) < 1e-5
    assert difference(expected, expected.mean()) > 1e-3
    assert not found.plan[:, n:].any()
    assert not found.plan[:, :, m:].any()
    assert found.iterations.tolist() == [iterations] * 3
    assert found.settled.tolist() == [False] * 3


@pytest.mark.parametrize(
    ("n", "m", "alpha", "marginals", "arithmetic", "rows", "columns", "needed"),
    [
        (5, 7, 0.4, "actual", "ieee", 0, 0, COSTS),
        (5, 7, 0.4, "prescribed", "ieee", 0, 0, COSTS),
        (20, 9, 0.0, "actual", "ieee", 0, 0, COSTS),
        (6, 9, 0.5, "prescribed", "ieee", 11, 3, COSTS),
        (6, 9, 0.5, "actual", "ieee", 2, 3, COSTS),
        (6, 5, 1.0, "actual", "ieee", 0, 0, COSTS),
        (6, 5, 0.5, "actual", "ieee", 0, 0, COSTS[:1]),
        (6, 5, 0.5, "actual", "ieee", 0, 0, COSTS[1:2]),
        (6, 5, 0.5, "prescribed", "ieee", 0, 0, COSTS[2:]),
        (12, 10, 0.5, "actual", "float32", 0, 0, COSTS),
        (7, 18, 0.5, "prescribed", "float32", 0, 0, COSTS),
    ],
)
def test_scores_and_gradients_are_those_of_the_objective(
    n: int,
    m: int,
    alpha: float,
    marginals: Marginals,
    arithmetic: Arithmetic,
    rows: int,
    columns: int,
    needed: tuple[str, ...],
    solved: list[str],
) -> None:
    problem = make(n, m, alpha, rows, columns)
    rough = single(problem)
    costs, exact_costs = costs_of(rough, needed), costs_of(problem, needed)
    rule = BapgRule(0.5, 5, marginals=marginals, arithmetic=arithmetic)
    plan, value, row_error, column_error = bapg(rough, rule)
    assert solved == ["solve"]
    assert [each.requires_grad for each in (plan, value, row_error, column_error)] == [False, True, False, False]
    with torch.no_grad():
        assert difference(plan, bapg_iterations(problem, rule).plan) < 1e-5
    held = plan.double()
    expected = problem.objective(held, marginals)
    assert difference(value, expected) < 2e-6
    assert difference(row_error, (held.sum(2) - problem.source_mass).abs().sum(1)) < 1e-6
    assert difference(column_error, (held.sum(1) - problem.target_mass).abs().sum(1)) < 1e-6
    assert row_error.min() > 1e-3  # so that a row error that is always zero would fail
    weights = torch.tensor([1.0, -2.0, 3.0])
    for seed in (weights, torch.ones(()).expand(3)):  # the second, as after a sum, is one number for all problems
        found = torch.autograd.grad(value, costs, seed, retain_graph=True, allow_unused=True)
        wanted = torch.autograd.grad(expected, exact_costs, seed.double(), retain_graph=True, allow_unused=True)
        assert [each is None for each in found] == [each is None for each in wanted]
        errors = [difference(a, b) for a, b in zip(found, wanted, strict=True) if a is not None and b is not None]
        assert len(errors) == (3 if needed == COSTS and alpha != 1 else 1)
        assert max(errors) < 2e-6


@pytest.mark.parametrize(("strided", "changed"), [(True, False), (False, True)])
def test_strided_costs_and_changed_values_are_differentiated_alike(
    strided: bool, changed: bool, solved: list[str]
) -> None:
    rough = single(make(6, 9, 0.5))

    def run(strided: bool, changed: bool) -> list[Tensor]:
        given = [getattr(rough, name) for name in COSTS]
        leaves = [(cost.mT.contiguous() if strided else cost.clone()).requires_grad_() for cost in given]
        views = [leaf.mT if strided else leaf for leaf in leaves]
        problem = FusedProblem(views[0], views[1], views[2], rough.source_mass, rough.target_mass, 0.5)
        value = bapg(problem, BapgRule(0.5, 3)).value
        value = value.mul_(2) if changed else value * 2
        gradients = torch.autograd.grad(value.sum(), leaves)
        return [value.detach(), *(each.mT if strided else each for each in gradients)]

    for found, expected in zip(run(strided, changed), run(False, False), strict=True):
        assert torch.equal(found, expected)
    assert len(solved) == 2


@pytest.mark.parametrize("arithmetic", ["ieee", "float32"])
def test_identical_sides_have_almost_no_distance_in_either_full_precision(
    arithmetic: Arithmetic, solved: list[str]
) -> None:
    cost = single(make(12, 12, 0.5)).source_structure
    problem = FusedProblem.uniform(1 - torch.eye(12).expand(3, 12, 12), cost, cost, 0.5)
    assert bapg(problem, BapgRule(0.02, 30, arithmetic=arithmetic)).value.abs().max() < 1e-6
    assert len(solved) == 1


def test_values_and_envelope_gradients_with_the_kernel_are_those_without(solved: list[str]) -> None:
    def run(problem: FusedProblem) -> list[Tensor]:
        costs = costs_of(problem)
        value = BAPG(step=0.5, iterations=5, tolerance=None, symmetric=True)(problem).value
        return [value.detach(), *torch.autograd.grad(value.sum(), costs)]

    found, expected = run(single(make(6, 8, 0.5))), run(make(6, 8, 0.5))
    assert len(solved) == 1
    assert max(difference(a, b) for a, b in zip(found, expected, strict=True)) < 1e-5


@pytest.mark.parametrize("step", [1e-3, 1e-2, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_plans_are_finite_with_exact_columns_at_all_steps_and_costs(
    step: float, scale: float, solved: list[str]
) -> None:
    problem = single(make(9, 12, 0.5))
    problem = replace(problem, **{name: scale * getattr(problem, name) for name in COSTS})
    plan = bapg(problem, BapgRule(step, 5)).plan
    assert len(solved) == 1
    assert difference(plan.sum(1), problem.target_mass) < 1e-6  # NaN compares false


def test_what_the_kernel_cannot_treat_is_left_to_the_plain_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "_said", {"size"})  # the warning of large problems has tests of its own
    small, large, rule = single(make(5, 6, 0.5)), single(make(5, 65, 0.5)), BapgRule(0.5, 20)
    learnt = replace(small, feature_cost=small.feature_cost.clone().requires_grad_())
    with torch.no_grad():
        held = supports(learnt, rule)
    answers = {
        "small": supports(small, rule),
        "held plan": held,
        "envelope": supports(learnt, rule),
        "largest": supports(single(make(5, 64, 0.5)), rule),
        "directed": supports(small, replace(rule, symmetric=False)),
        "float64": supports(make(5, 6, 0.5), rule),
        "large": supports(large, rule),
        "misshapen": supports(replace(small, target_mass=small.target_mass[:, :3]), rule),
        "empty": supports(small.part(0, 0), rule),
    }
    assert [name for name, answer in answers.items() if answer] == ["small", "held plan", "envelope", "largest"]


def test_solvers_profit_where_no_gradient_goes_through_the_iterations(solved: list[str]) -> None:
    small = single(make(5, 6, 0.5))
    learnt = replace(small, feature_cost=small.feature_cost.clone().requires_grad_())

    def launches(problem: FusedProblem, **settings: Any) -> int:
        solved.clear()
        BAPG(**{"step": 0.5, "iterations": 2, "tolerance": None, **settings})(problem)
        return len(solved)

    found = {
        "small": launches(small),
        "envelope": launches(learnt),
        "none": launches(learnt, gradient="none"),
        "tolerance": launches(small, tolerance=1e-6),
        "unrolled": launches(learnt, gradient="unrolled"),
        "directed": launches(small, symmetric=False),
        "float64": launches(make(5, 6, 0.5)),
    }
    assert {name: count for name, count in found.items() if count} == {"small": 1, "envelope": 1, "none": 1}


@kernel()
def split_kernel(rough_pointer: tl.tensor, rest_pointer: tl.tensor, pointer: tl.tensor, SIZE: tl.constexpr) -> None:
    places = tl.arange(0, SIZE)
    rough, rest = _split(tl.load(pointer + places))
    tl.store(rough_pointer + places, rough)
    tl.store(rest_pointer + places, rest)


def test_numbers_are_split_into_the_nearest_of_eleven_bits_and_the_rest() -> None:
    numbers = torch.randn(4096, generator=torch.Generator().manual_seed(0))
    numbers[:2] = torch.tensor([0.0, 1.0])
    rough, rest = torch.empty_like(numbers), torch.empty_like(numbers)
    launch(split_kernel, (1,), rough, rest, numbers, SIZE=4096)
    # Eleven bits: a whole number of 2**-10 of the leading power of two.
    mantissa = torch.frexp(rough.double()).mantissa * 2**11
    assert torch.equal(mantissa, mantissa.round())
    exact = numbers.double()
    step = torch.exp2(torch.floor(torch.log2(exact.abs().clamp_min(1e-30)))) * 2.0**-10
    assert 0.49 < ((exact - rough.double()).abs() / step).max() <= 0.5  # cutting off would miss by up to one
    assert torch.equal(exact, rough.double() + rest.double())
    kept = (rest.view(torch.int32) & -8192).view(torch.float32)  # what the tensor cores leave of the rest
    assert ((rest - kept).abs() / exact.abs().clamp_min(1e-30)).max() <= 2**-22
