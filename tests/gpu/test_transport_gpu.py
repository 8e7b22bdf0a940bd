"""BAPG's kernels on a GPU, against the plain version in float64 on the same device."""

import importlib.util
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import fossil.ops.bapg as operation
from fossil.errors import FossilWarning
from fossil.ops.bapg import Arithmetic, BapgRule, bapg, bapg_iterations, supports
from fossil.ops.objective import Marginals
from fossil.transport import BAPG, FusedProblem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]


def make(n: int, m: int, alpha: float = 0.5, batch: int = 50) -> FusedProblem:
    generator = torch.Generator().manual_seed(n + m)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64).cuda()

    source, target = draw(batch, n, n), draw(batch, m, m)
    masses = torch.softmax(2 * draw(batch, n), 1), torch.softmax(2 * draw(batch, m), 1)
    return FusedProblem(draw(batch, n, m), (source + source.mT) / 2, (target + target.mT) / 2, *masses, alpha)


def single(problem: FusedProblem) -> FusedProblem:
    return FusedProblem(**{name: tensor.float() for name, tensor in problem.tensors().items()}, alpha=problem.alpha)


@pytest.mark.parametrize("constant_terms", [True, False])
@pytest.mark.parametrize("step", [0.1, 1.0])
@pytest.mark.parametrize(
    ("n", "m"), [(12, 12), (20, 20), (30, 30), (48, 48), (64, 64), (5, 16), (12, 30), (64, 17), (1, 3)]
)
def test_kernel_gives_the_float64_plan(n: int, m: int, step: float, constant_terms: bool) -> None:
    problem = make(n, m)
    solver = BAPG(step=step, iterations=20, tolerance=None, constant_terms=constant_terms, symmetric=True)
    assert supports(single(problem), solver.rule(problem))
    assert not supports(problem, solver.rule(problem))
    found, expected = solver(single(problem)), solver(problem)
    torch.testing.assert_close(found.plan.double(), expected.plan, rtol=0, atol=1e-5)
    assert torch.equal(found.iterations, expected.iterations)
    assert torch.equal(found.settled, expected.settled)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_kernel_gives_the_float64_plan_with_one_term_alone(alpha: float) -> None:
    problem, rule = make(20, 14, alpha), BapgRule(1.0, 20)
    found, expected = bapg(single(problem), rule).plan, bapg_iterations(problem, rule).plan
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


def test_nodes_of_zero_mass_get_nothing_and_change_nothing() -> None:
    problem, rule = single(make(10, 10)), BapgRule(0.1, 20)
    bare = bapg(problem, rule).plan
    pad = torch.nn.functional.pad
    wide = FusedProblem(
        pad(problem.feature_cost, (0, 9, 0, 9), value=-3.0),
        pad(problem.source_structure, (0, 9, 0, 9), value=7.0),
        pad(problem.target_structure, (0, 9, 0, 9), value=8.0),
        pad(problem.source_mass, (0, 9)),
        pad(problem.target_mass, (0, 9)),
        problem.alpha,
    )
    plan = bapg(wide, rule).plan
    assert not plan[:, 10:].any()
    assert not plan[:, :, 10:].any()
    torch.testing.assert_close(plan[:, :10, :10], bare, rtol=0, atol=1e-6)


@pytest.mark.parametrize("n", [12, 20, 30, 48, 64])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_plans_are_finite_with_exact_columns_at_all_steps(n: int, scale: float) -> None:
    problem = single(make(n, n))
    for cost in (problem.feature_cost, problem.source_structure, problem.target_structure):
        cost *= scale
    for step in (1e-3, 1e-2, 0.1, 1.0, 10.0):
        plan = bapg(problem, BapgRule(step, 50)).plan
        assert plan.isfinite().all(), step
        torch.testing.assert_close(plan.sum(1), problem.target_mass, rtol=1e-5, atol=0)


def test_larger_problems_are_solved_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "_said", set())
    problem, rule = make(20, 65, batch=2), BapgRule(1.0, 20)
    with pytest.warns(FossilWarning, match="20 and 65 nodes"):
        found = bapg(single(problem), rule).plan
    expected = bapg_iterations(problem, rule).plan
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


SIZES = [(1, 3), (12, 12), (5, 16), (12, 15), (30, 30), (12, 30), (48, 48), (64, 17), (64, 64)]


def assert_near(found: Tensor, exact: Tensor) -> None:
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)


def costs_of(problem: FusedProblem) -> tuple[Tensor, Tensor, Tensor]:
    costs = (problem.feature_cost, problem.source_structure, problem.target_structure)
    for cost in costs:
        cost.requires_grad_()
    return costs


@pytest.mark.parametrize("arithmetic", ["float32", "ieee"])
@pytest.mark.parametrize("marginals", ["actual", "prescribed"])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_scores_and_gradients_are_those_of_the_float64_objective(
    n: int, m: int, marginals: Marginals, arithmetic: Arithmetic
) -> None:
    problem = make(n, m)
    rough = single(problem)
    costs, exact_costs = costs_of(rough), costs_of(problem)
    rule = BapgRule(0.1, 20, marginals=marginals, arithmetic=arithmetic)
    assert supports(rough, rule)
    plan, value, row_error, column_error = bapg(rough, rule)
    held = plan.double()
    expected = problem.objective(held, marginals)
    with torch.no_grad():
        assert_near(plan, bapg_iterations(problem, rule).plan)
    assert_near(value.detach(), expected.detach())
    assert_near(row_error, (held.sum(2) - problem.source_mass).abs().sum(1))
    assert_near(column_error, (held.sum(1) - problem.target_mass).abs().sum(1))
    weights = torch.linspace(-1, 2, problem.batch, device="cuda")
    wanted = torch.autograd.grad(expected, exact_costs, weights.double())
    for found, exact in zip(torch.autograd.grad(value, costs, weights), wanted, strict=True):
        assert_near(found, exact)


@pytest.mark.parametrize("n", [12, 30, 64])
def test_plain_tf32_is_close_at_large_steps_and_has_exact_columns(n: int) -> None:
    problem, rule = make(n, n), BapgRule(1.0, 20, arithmetic="tf32")
    plan, value, _, column_error = bapg(single(problem), rule)
    torch.testing.assert_close(plan.double(), bapg_iterations(problem, rule).plan, rtol=0, atol=1e-3)
    torch.testing.assert_close(value.double(), problem.objective(plan.double()), rtol=0, atol=1e-5)
    assert column_error.max() < 1e-5


@pytest.mark.parametrize("arithmetic", ["float32", "ieee", "tf32"])
def test_the_solver_passes_its_arithmetic_on(arithmetic: Arithmetic) -> None:
    problem, rule = single(make(12, 12)), BapgRule(0.5, 20, arithmetic=arithmetic)
    solver = BAPG(step=0.5, iterations=20, tolerance=None, symmetric=True, arithmetic=arithmetic)
    plan = bapg(problem, rule).plan
    assert torch.equal(solver(problem).plan, plan)
    others = {"float32", "ieee", "tf32"} - {arithmetic}
    assert not any(torch.equal(bapg(problem, replace(rule, arithmetic=other)).plan, plan) for other in others)


@pytest.mark.parametrize("needed", [0, 1, 2])
def test_a_single_cost_gets_its_gradient_alone(needed: int) -> None:
    problem, rough = make(12, 15), single(make(12, 15))
    pairs = [
        (each.feature_cost, each.source_structure, each.target_structure)[needed].requires_grad_()
        for each in (problem, rough)
    ]
    plan, value, _, _ = bapg(rough, BapgRule(0.5, 20))
    wanted = torch.autograd.grad(problem.objective(plan.double()).sum(), pairs[0])[0]
    torch.testing.assert_close(torch.autograd.grad(value.sum(), pairs[1])[0].double(), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("n", [12, 30])
def test_each_pass_is_one_launch_that_waits_for_nothing(n: int) -> None:
    rough = single(make(n, n))
    costs, seed = costs_of(rough), torch.ones(rough.batch, device="cuda")

    def both() -> None:
        value = bapg(rough, BapgRule(0.1, 20)).value
        torch.autograd.grad(value, costs, seed)

    both()  # compiles
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as record:
        torch.cuda.set_sync_debug_mode("error")
        try:
            both()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    names = [event.name for event in record.events() if "CUDA" in str(event.device_type)]
    assert sorted(names) == ["bapg_kernel", "envelope_kernel"]


def test_the_solver_waits_for_nothing_where_it_is_told_what_it_would_look_for() -> None:
    problem = single(make(12, 12))
    solver = BAPG(step=0.1, iterations=20, tolerance=None, symmetric=True)
    solver(problem, check=False)  # compiles
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        solver(problem, check=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_values_and_envelope_gradients_are_those_of_float64() -> None:
    results = []
    for problem in (make(12, 15), single(make(12, 15))):
        costs = costs_of(problem)
        value = BAPG(step=0.5, iterations=20, tolerance=None, symmetric=True)(problem).value
        results.append((value.detach(), *torch.autograd.grad(value.sum(), costs)))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
