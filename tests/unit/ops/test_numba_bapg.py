"""The compiled CPU version of BAPG against the plain version in float64, and which problems it takes."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import fossil.ops.bapg as operation
from fossil.ops.bapg import BapgRule, Scored, bapg, bapg_iterations, supports
from fossil.ops.objective import Marginals
from fossil.transport import BAPG, FusedProblem

pytest.importorskip("numba")

from fossil.ops.numba import threads


@pytest.fixture(autouse=True)
def any_work_is_worth_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let problems as small as those of these tests have the kernels."""
    monkeypatch.setattr(operation, "_LEAST_WORK", 0)


def make(
    batch: int, n: int, m: int, *, alpha: float = 0.5, directed: bool = False, rows: int = 0, columns: int = 0
) -> FusedProblem:
    """Draw problems of n×m nodes, padded with more of zero mass and arbitrary cost, in float64."""
    generator = torch.Generator().manual_seed(n + 100 * m)

    def draw(*shape: int) -> Tensor:
        return torch.rand(batch, *shape, generator=generator, dtype=torch.float64)

    def pad(tensor: Tensor, right: int, below: int, value: float) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, right, 0, below), value=value)

    source, target = draw(n, n), draw(m, m)
    if not directed:
        source, target = (source + source.mT) / 2, (target + target.mT) / 2
    return FusedProblem(
        pad(draw(n, m), columns, rows, -3.0),
        pad(source, rows, rows, 9.0),
        pad(target, columns, columns, 11.0),
        torch.nn.functional.pad(torch.softmax(2 * draw(n), 1), (0, rows)),
        torch.nn.functional.pad(torch.softmax(2 * draw(m), 1), (0, columns)),
        alpha,
    )


def single(problem: FusedProblem) -> FusedProblem:
    return FusedProblem(**{name: tensor.float() for name, tensor in problem.tensors().items()}, alpha=problem.alpha)


def costs_of(problem: FusedProblem) -> list[Tensor]:
    return [
        cost.requires_grad_() for cost in (problem.feature_cost, problem.source_structure, problem.target_structure)
    ]


def compiled(problem: FusedProblem, step: float = 0.5, *, symmetric: bool = True) -> Scored:
    """Solve by the kernel, and by nothing else."""
    rule = BapgRule(step, 20, symmetric=symmetric)
    assert supports(problem, rule)
    return bapg(problem, rule)


SIZES = [(1, 3), (5, 5), (12, 12), (16, 16), (17, 9), (9, 17), (30, 30), (33, 64), (70, 20)]


@pytest.mark.parametrize("constant_terms", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_plan_is_that_of_float64(n: int, m: int, directed: bool, constant_terms: bool) -> None:
    problem = make(3, n, m, directed=directed)
    rule = BapgRule(0.5, 20, constant_terms, symmetric=not directed)
    assert supports(single(problem), rule)
    assert not supports(problem, rule)
    found, expected = bapg(single(problem), rule), bapg_iterations(problem, rule)
    torch.testing.assert_close(found.plan.double(), expected.plan, rtol=0, atol=1e-6)
    assert (expected.plan - expected.plan.mean()).abs().max() > 1e-4


def test_the_solver_claims_of_the_kernel_what_it_claims_of_the_plain_version() -> None:
    problem, solver = make(3, 5, 6), BAPG(step=0.5, iterations=20, tolerance=None)
    found, expected = solver(single(problem)), solver(problem)
    assert torch.equal(found.plan, compiled(single(problem)).plan)
    assert found.iterations.tolist() == expected.iterations.tolist() == [20] * 3
    assert found.settled.tolist() == expected.settled.tolist() == [False] * 3


@pytest.mark.parametrize("step", [0.01, 0.1, 1.0, 10.0])
def test_values_are_those_of_float64_at_all_steady_steps(step: float) -> None:
    problem = make(20, 12, 12)
    found, expected = compiled(single(problem), step), bapg(problem, BapgRule(step, 20))
    torch.testing.assert_close(found.value.double(), expected.value, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.row_error.double(), expected.row_error, rtol=0, atol=1e-4)
    assert found.column_error.max() < 1e-6


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_each_term_alone_gives_the_float64_plan(alpha: float) -> None:
    problem = make(3, 20, 14, alpha=alpha)
    found, expected = compiled(single(problem)).plan, bapg_iterations(problem, BapgRule(0.5, 20)).plan
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_structures_of_no_weight_are_not_read() -> None:
    problem = single(make(3, 6, 5, alpha=1.0))
    broken = replace(problem, source_structure=torch.full_like(problem.source_structure, torch.nan))
    assert torch.equal(compiled(broken).plan, compiled(problem).plan)


@pytest.mark.parametrize(("rows", "columns"), [(2, 0), (0, 3), (4, 13), (20, 20)])
@pytest.mark.parametrize("step", [0.02, 0.5])
def test_nodes_of_zero_mass_get_nothing_and_change_nothing(rows: int, columns: int, step: float) -> None:
    bare = compiled(single(make(3, 5, 6)), step).plan
    plan = compiled(single(make(3, 5, 6, rows=rows, columns=columns)), step).plan
    assert not plan[:, 5:].any()
    assert not plan[:, :, 6:].any()
    torch.testing.assert_close(plan[:, :5, :6], bare, rtol=0, atol=1e-6)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("marginals", ["actual", "prescribed"])
@pytest.mark.parametrize(("n", "m"), [(1, 3), (5, 7), (12, 12), (20, 9), (30, 33)])
def test_scores_and_gradients_are_those_of_the_float64_objective(
    n: int, m: int, marginals: Marginals, directed: bool
) -> None:
    problem = make(4, n, m, directed=directed, rows=2, columns=1)
    rough = single(problem)
    costs, exact_costs = costs_of(rough), costs_of(problem)
    rule = BapgRule(0.3, 20, symmetric=not directed, marginals=marginals)
    assert supports(rough, rule)
    scored = bapg(rough, rule)
    held = scored.plan.double()
    expected = problem.objective(held, marginals)
    torch.testing.assert_close(scored.value.double(), expected, rtol=0, atol=1e-6)
    row_error = (held.sum(2) - problem.source_mass).abs().sum(1)
    torch.testing.assert_close(scored.row_error.double(), row_error, rtol=0, atol=1e-6)
    assert scored.column_error.max() < 1e-6
    weights = torch.tensor([1.0, -2.0, 3.0, 0.0])
    for seed in (weights, torch.ones(()).expand(4)):  # the second, as after a sum, is one number for all problems
        found = torch.autograd.grad(scored.value, costs, seed, retain_graph=True)
        wanted = torch.autograd.grad(expected, exact_costs, seed.double(), retain_graph=True)
        for gradient, exact in zip(found, wanted, strict=True):
            torch.testing.assert_close(gradient.double(), exact, rtol=0, atol=2e-6)


@pytest.mark.parametrize("needed", [0, 1, 2])
def test_a_single_cost_gets_its_gradient_alone(needed: int) -> None:
    problem, rough = make(3, 7, 9), single(make(3, 7, 9))
    names = ("feature_cost", "source_structure", "target_structure")
    found, wanted = (getattr(each, names[needed]).requires_grad_() for each in (rough, problem))
    scored = compiled(rough)
    problem.objective(scored.plan.double()).sum().backward()
    scored.value.sum().backward()
    torch.testing.assert_close(found.grad.double(), wanted.grad, rtol=0, atol=1e-6)
    assert not scored.plan.requires_grad


def test_features_alone_give_structures_no_gradient() -> None:
    problem = single(make(3, 7, 9, alpha=1.0))
    costs = costs_of(problem)
    scored = compiled(problem)
    found = torch.autograd.grad(scored.value.sum(), costs, allow_unused=True)
    assert torch.equal(found[0], scored.plan)
    assert found[1:] == (None, None)


def test_strided_tensors_are_read_as_they_are_meant() -> None:
    problem = single(make(3, 7, 9, directed=True))
    turned = FusedProblem(
        **{name: tensor.transpose(0, -1).contiguous().transpose(0, -1) for name, tensor in problem.tensors().items()},
        alpha=problem.alpha,
    )
    assert not turned.feature_cost.is_contiguous()
    assert torch.equal(compiled(turned, symmetric=False).plan, compiled(problem, symmetric=False).plan)


@pytest.mark.parametrize("directed", [True, False])
def test_plans_and_gradients_are_finite_with_exact_columns_over_the_whole_grid(directed: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    cosine = torch.rand(3, 4, 12, 12, generator=generator) * 2 - 1
    for step, temperature, scale in itertools.product(
        (1e-3, 1e-2, 0.1, 1.0, 10.0), (0.05, 0.2, 1.0, 3.0), (1.0, 1e2, 1e4)
    ):
        costs = [(scale * torch.exp(-each / temperature)).clamp_max(1e4).requires_grad_() for each in cosine]
        problem = FusedProblem.uniform(costs[0], costs[1], costs[2], 0.5)
        scored = compiled(problem, step, symmetric=not directed)
        assert scored.value.isfinite().all(), (step, temperature, scale)
        torch.testing.assert_close(scored.plan.sum(1), problem.target_mass, rtol=1e-5, atol=0)
        smallest = torch.finfo(torch.float32).tiny
        assert ((scored.plan == 0) | (scored.plan >= smallest)).all(), (step, temperature, scale)
        for gradient in torch.autograd.grad(scored.value.sum(), costs):
            assert gradient.isfinite().all(), (step, temperature, scale)


@pytest.mark.parametrize("name", ["feature_cost", "source_structure", "target_structure"])
def test_a_value_that_is_not_a_number_shows_in_its_own_problem_alone(name: str) -> None:
    sound, broken = single(make(5, 6, 7)), single(make(5, 6, 7))
    getattr(broken, name)[2, 0, 1] = torch.nan
    costs = costs_of(broken)
    expected, found = compiled(sound), compiled(broken)
    gradients = torch.autograd.grad(found.value.sum(), costs)
    others = [0, 1, 3, 4]
    assert found.value[2].isnan()
    assert torch.equal(found.value[others], expected.value[others])
    assert torch.equal(found.plan[others], expected.plan[others])
    assert all(gradient[others].isfinite().all() for gradient in gradients)


def with_threads(count: int, work: Callable[[], Tensor]) -> Tensor:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return work()
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("batch", [1, 2, 13])
def test_the_number_of_threads_does_not_show(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(threads, "_LEAST_WORK", 1)
    problem = single(make(batch, 8, 9))
    costs = costs_of(problem)

    def work() -> Tensor:
        scored = compiled(problem, 0.1)
        gradients = torch.autograd.grad(scored.value.sum(), costs)
        return torch.cat([scored.plan.flatten(), scored.value.detach(), *(each.flatten() for each in gradients)])

    assert torch.equal(with_threads(1, work), with_threads(3, work))


def test_two_threads_of_a_program_may_solve_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_LEAST_WORK", 1)
    problem = single(make(40, 12, 12))
    expected, found = compiled(problem, 0.1).plan, []

    def work() -> None:
        found.append(compiled(problem, 0.1).plan)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [torch.equal(plan, expected) for plan in found] == [True] * 3


def test_what_the_kernel_cannot_treat_is_left_to_the_plain_version() -> None:
    small, symmetric, directed = single(make(2, 5, 6)), BapgRule(0.5, 20), BapgRule(0.5, 20, symmetric=False)
    learnt = replace(small, feature_cost=small.feature_cost.clone().requires_grad_())
    answers = {
        "small": supports(small, symmetric),
        "directed": supports(small, directed),
        "envelope": supports(learnt, symmetric),
        "largest": supports(single(make(1, 2, 128)), symmetric),
        "float64": supports(make(2, 5, 6), symmetric),
        "large": supports(single(make(1, 2, 129)), symmetric),
        "misshapen": supports(replace(small, target_mass=small.target_mass[:, :3]), symmetric),
        "empty": supports(small.part(0, 0), symmetric),
    }
    assert [name for name, answer in answers.items() if answer] == ["small", "directed", "envelope", "largest"]
