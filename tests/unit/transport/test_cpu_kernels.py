"""The compiled CPU version against the batched version in float64, and where it is used."""

import itertools
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fossil.errors import FossilWarning
from fossil.transport import FusedProblem, cpu_kernels, kernels, solve
from fossil.transport.bapg import bapg
from fossil.transport.problem import Marginals

pytest.importorskip("numba")


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


SIZES = [(1, 3), (5, 5), (12, 12), (16, 16), (17, 9), (9, 17), (30, 30), (33, 64), (70, 20)]


@pytest.mark.parametrize("constant_terms", [True, False])
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_plan_is_that_of_float64(n: int, m: int, directed: bool, constant_terms: bool) -> None:
    problem = make(3, n, m, directed=directed)
    settings = {"constant_terms": constant_terms, "symmetric": not directed}
    assert kernels.fits(single(problem), None, not directed)
    found = bapg(single(problem), step=0.5, **settings)
    expected = bapg(problem, step=0.5, **settings)
    torch.testing.assert_close(found.plan.double(), expected.plan, rtol=0, atol=1e-6)
    assert (expected.plan - expected.plan.mean()).abs().max() > 1e-4
    assert torch.equal(found.iterations, expected.iterations)
    assert torch.equal(found.converged, expected.converged)


@pytest.mark.parametrize("step", [0.01, 0.1, 1.0, 10.0])
def test_values_are_those_of_float64_at_all_steady_steps(step: float) -> None:
    problem = make(20, 12, 12)
    found, expected = (solve(each, step=step, symmetric=True) for each in (single(problem), problem))
    torch.testing.assert_close(found.value.double(), expected.value, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.row_error.double(), expected.row_error, rtol=0, atol=1e-4)
    assert found.column_error.max() < 1e-6


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_each_term_alone_gives_the_float64_plan(alpha: float) -> None:
    problem = make(3, 20, 14, alpha=alpha)
    found, expected = (bapg(each, step=0.5, symmetric=True).plan for each in (single(problem), problem))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_structures_of_no_weight_are_not_read() -> None:
    problem = single(make(3, 6, 5, alpha=1.0))
    broken = replace(problem, source_structure=torch.full_like(problem.source_structure, torch.nan))
    assert torch.equal(bapg(broken, step=0.5, symmetric=True).plan, bapg(problem, step=0.5, symmetric=True).plan)


@pytest.mark.parametrize(("rows", "columns"), [(2, 0), (0, 3), (4, 13), (20, 20)])
@pytest.mark.parametrize("step", [0.02, 0.5])
def test_nodes_of_zero_mass_get_nothing_and_change_nothing(rows: int, columns: int, step: float) -> None:
    bare = bapg(single(make(3, 5, 6)), step=step, symmetric=True).plan
    plan = bapg(single(make(3, 5, 6, rows=rows, columns=columns)), step=step, symmetric=True).plan
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
    solution = solve(rough, step=0.3, marginals=marginals)
    held = solution.plan.double()
    expected = problem.objective(held, marginals)
    torch.testing.assert_close(solution.value.double(), expected, rtol=0, atol=1e-6)
    row_error = (held.sum(2) - problem.source_mass).abs().sum(1)
    torch.testing.assert_close(solution.row_error.double(), row_error, rtol=0, atol=1e-6)
    assert solution.column_error.max() < 1e-6
    weights = torch.tensor([1.0, -2.0, 3.0, 0.0])
    for seed in (weights, torch.ones(()).expand(4)):  # the second, as after a sum, is one number for all problems
        found = torch.autograd.grad(solution.value, costs, seed, retain_graph=True)
        wanted = torch.autograd.grad(expected, exact_costs, seed.double(), retain_graph=True)
        for gradient, exact in zip(found, wanted, strict=True):
            torch.testing.assert_close(gradient.double(), exact, rtol=0, atol=2e-6)


@pytest.mark.parametrize("needed", [0, 1, 2])
def test_a_single_cost_gets_its_gradient_alone(needed: int) -> None:
    problem, rough = make(3, 7, 9), single(make(3, 7, 9))
    names = ("feature_cost", "source_structure", "target_structure")
    found, wanted = (getattr(each, names[needed]).requires_grad_() for each in (rough, problem))
    solution = solve(rough, step=0.5)
    problem.objective(solution.plan.double()).sum().backward()
    solution.value.sum().backward()
    torch.testing.assert_close(found.grad.double(), wanted.grad, rtol=0, atol=1e-6)
    assert not solution.plan.requires_grad


def test_features_alone_give_structures_no_gradient() -> None:
    problem = single(make(3, 7, 9, alpha=1.0))
    costs = costs_of(problem)
    solution = solve(problem, step=0.5)
    found = torch.autograd.grad(solution.value.sum(), costs, allow_unused=True)
    assert torch.equal(found[0], solution.plan)
    assert found[1:] == (None, None)


def test_strided_tensors_are_read_as_they_are_meant() -> None:
    problem = single(make(3, 7, 9, directed=True))
    turned = FusedProblem(
        **{name: tensor.transpose(0, -1).contiguous().transpose(0, -1) for name, tensor in problem.tensors().items()},
        alpha=problem.alpha,
    )
    assert not turned.feature_cost.is_contiguous()
    assert torch.equal(bapg(turned, step=0.5).plan, bapg(problem, step=0.5).plan)


@pytest.mark.parametrize("directed", [True, False])
def test_plans_and_gradients_are_finite_with_exact_columns_over_the_whole_grid(directed: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    cosine = torch.rand(3, 4, 12, 12, generator=generator) * 2 - 1
    for step, temperature, scale in itertools.product(
        (1e-3, 1e-2, 0.1, 1.0, 10.0), (0.05, 0.2, 1.0, 3.0), (1.0, 1e2, 1e4)
    ):
        costs = [(scale * torch.exp(-each / temperature)).clamp_max(1e4).requires_grad_() for each in cosine]
        problem = FusedProblem.uniform(costs[0], costs[1], costs[2], 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FossilWarning)
            solution = solve(problem, step=step, symmetric=not directed)
        assert solution.value.isfinite().all(), (step, temperature, scale)
        torch.testing.assert_close(solution.plan.sum(1), problem.target_mass, rtol=1e-5, atol=0)
        smallest = torch.finfo(torch.float32).tiny
        assert ((solution.plan == 0) | (solution.plan >= smallest)).all(), (step, temperature, scale)
        for gradient in torch.autograd.grad(solution.value.sum(), costs):
            assert gradient.isfinite().all(), (step, temperature, scale)


@pytest.mark.parametrize("name", ["feature_cost", "source_structure", "target_structure"])
def test_a_value_that_is_not_a_number_shows_in_its_own_problem_alone(name: str) -> None:
    sound, broken = single(make(5, 6, 7)), single(make(5, 6, 7))
    getattr(broken, name)[2, 0, 1] = torch.nan
    costs = costs_of(broken)
    expected = solve(sound, step=0.5, symmetric=True)
    found = solve(broken, step=0.5, symmetric=True, check=False)
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
    monkeypatch.setattr(cpu_kernels, "_LEAST_WORK", 1)
    problem = single(make(batch, 8, 9))
    costs = costs_of(problem)

    def work() -> Tensor:
        solution = solve(problem, step=0.1)
        gradients = torch.autograd.grad(solution.value.sum(), costs)
        return torch.cat([solution.plan.flatten(), solution.value.detach(), *(each.flatten() for each in gradients)])

    assert torch.equal(with_threads(1, work), with_threads(3, work))


def test_two_threads_of_a_program_may_solve_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kernels, "_LEAST_WORK", 1)
    problem = single(make(40, 12, 12))
    expected, found = bapg(problem, step=0.1, symmetric=True).plan, []

    def work() -> None:
        found.append(bapg(problem, step=0.1, symmetric=True).plan)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [torch.equal(plan, expected) for plan in found] == [True] * 3


def test_what_the_kernel_cannot_treat_is_left_to_the_batched_version() -> None:
    small = single(make(2, 5, 6))
    learnt = replace(small, feature_cost=small.feature_cost.clone().requires_grad_())
    answers = {
        "small": kernels.fits(small, None, True),
        "directed": kernels.fits(small, None, False),
        "envelope": kernels.fits(learnt, None, True, held=True),
        "tolerance": kernels.fits(small, 1e-6, True),
        "float64": kernels.fits(make(2, 5, 6), None, True),
        "large": kernels.fits(single(make(1, 2, cpu_kernels.LARGEST + 1)), None, True),
        "unrolled": kernels.fits(learnt, None, True),
        "misshapen": kernels.fits(replace(small, target_mass=small.target_mass[:, :3]), None, True),
        "empty": kernels.fits(small.part(0, 0), None, True),
    }
    assert [name for name, answer in answers.items() if answer] == ["small", "directed", "envelope"]


def test_the_solver_works_where_numba_cannot_be_imported() -> None:
    script = """
import sys
sys.modules["numba"] = None
import torch
from fossil.transport import FusedProblem, kernels, solve
cost = torch.eye(3)[None]
problem = FusedProblem.uniform(cost, cost, cost, 0.5)
assert not kernels.fits(problem, None, True)
assert solve(problem, step=0.5).plan.isfinite().all()
"""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_numba_is_not_imported_before_a_problem_needs_it() -> None:
    script = "import sys, fossil.transport; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_machine_code_that_cannot_be_kept_is_made_anyway() -> None:
    from fossil.transport._compiled import entry

    namespace: dict[str, Callable[[int], int]] = {}
    exec(compile("def double(x):\n    return 2 * x\n", "/no/such/folder/source.py", "exec"), namespace)
    assert entry(namespace["double"])(21) == 42
