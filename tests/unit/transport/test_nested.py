"""GSC's nested Gromov-Wasserstein against a transcription of its recursion."""

import doctest
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.errors import SettingError, TransportError
from fossil.transport import FusedProblem, NestedGW, ProximalPoint, Solution, gromov_wasserstein, wasserstein


def structures(batch: int = 3, n: int = 5, m: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    source, target = (torch.rand(batch, size, size, generator=generator, dtype=torch.float64) for size in (n, m))
    return (source + source.mT) / 2, (target + target.mT) / 2


def nested(source: Tensor, target: Tensor, *masses: Tensor, evaluate_with: Any = None, **settings: Any) -> Solution:
    problem = FusedProblem.of_structures(source, target)
    if masses:
        problem = FusedProblem(problem.feature_cost, source, target, masses[0], masses[1], 0.0)
    return NestedGW(**settings)(problem, evaluate_with=evaluate_with)


def plain_recursion(source: Tensor, target: Tensor, outer: int, inner: int, beta: float) -> tuple[Tensor, Tensor]:
    """Transcribe GSC for one pair and uniform masses; return the last plan and the cost linearised at it."""
    n, m = len(source), len(target)
    p, q = torch.ones(n, 1).double() / n, torch.ones(m, 1).double() / m
    constant = source**2 @ p @ torch.ones(1, m).double() + torch.ones(n, 1).double() @ (target**2 @ q).mT
    gamma = p @ q.mT
    for _ in range(outer):
        kernel = torch.exp(-(constant - 2 * source @ gamma @ target.mT) / beta)
        gamma, sigma = torch.ones(n, m).double(), q
        for _ in range(inner):
            weighted = kernel * gamma
            delta = 1 / (n * weighted @ sigma)
            sigma = 1 / (m * weighted.mT @ delta)
            gamma = delta * weighted * sigma.mT
    return gamma, constant - 2 * source @ gamma @ target.mT


@pytest.mark.parametrize(("outer", "inner", "step"), [(5, 20, 0.1), (1, 3, 0.5)])
def test_plan_and_both_values_are_those_of_gsc(outer: int, inner: int, step: float) -> None:
    source, target = structures()
    features = torch.rand(3, 5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = wasserstein(features, solver=ProximalPoint()).plan
    own = nested(source, target, outer=outer, inner=inner, step=step)
    crossed = nested(source, target, outer=outer, inner=inner, step=step, evaluate_with=weights)
    assert torch.equal(own.plan, crossed.plan)
    assert own.iterations.tolist() == [outer] * 3
    assert not own.settled.any()
    assert not own.converged.any()
    for index in range(3):
        plan, cost = plain_recursion(source[index], target[index], outer, inner, step)
        torch.testing.assert_close(own.plan[index], plan, rtol=0, atol=1e-10)
        torch.testing.assert_close(own.value[index], (cost * plan).sum(), rtol=0, atol=1e-10)
        torch.testing.assert_close(crossed.value[index], (cost * weights[index]).sum(), rtol=0, atol=1e-10)


def test_defaults_are_those_of_gsc() -> None:
    source, target = (structure[0] for structure in structures())
    expected, _ = plain_recursion(source, target, 5, 20, 0.1)
    found = gromov_wasserstein(source, target, solver=NestedGW()).plan
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_own_value_is_the_objective_with_prescribed_marginals() -> None:
    source, target = structures()
    mass = torch.softmax(torch.arange(5.0).double(), 0).expand(3, 5)
    solution = gromov_wasserstein(source, target, mass, solver=NestedGW(step=0.5))
    uniform = torch.full((3, 6), 1 / 6, dtype=torch.float64)
    problem = FusedProblem(torch.zeros(3, 5, 6).double(), source, target, mass, uniform, 0.0)
    torch.testing.assert_close(solution.value, problem.objective(solution.plan, "prescribed"))


def test_padding_with_zero_mass_gets_nothing_and_changes_nothing() -> None:
    pad, (source, target) = torch.nn.functional.pad, structures()
    bare = nested(source, target)
    padded = nested(
        pad(source, (0, 2, 0, 2), value=3.0),
        pad(target, (0, 1, 0, 1), value=4.0),
        pad(torch.full((3, 5), 1 / 5).double(), (0, 2)),
        pad(torch.full((3, 6), 1 / 6).double(), (0, 1)),
    )
    assert not padded.plan[:, 5:].any()
    assert not padded.plan[:, :, 6:].any()
    torch.testing.assert_close(padded.plan[:, :5, :6], bare.plan, rtol=0, atol=1e-7)
    torch.testing.assert_close(padded.value, bare.value, rtol=0, atol=1e-7)


@pytest.mark.parametrize("step", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_float32_is_finite(step: float, scale: float) -> None:
    source, target = (scale * structure.float() for structure in structures())
    solution = nested(source, target, step=step)
    assert solution.plan.isfinite().all()
    assert solution.value.isfinite().all()


def test_envelope_gradient_holds_the_plan_and_reaches_the_weights() -> None:
    source, target = (structure.requires_grad_() for structure in structures())
    weights = torch.full((3, 5, 6), 1 / 30, dtype=torch.float64, requires_grad=True)
    solution = nested(source, target, evaluate_with=weights)
    found = torch.autograd.grad(solution.value.sum(), [source, target, weights])
    plan = solution.plan
    assert not plan.requires_grad
    # d<C1² mu 1ᵀ + 1 (C2² nu)ᵀ - 2 C1 g C2ᵀ, T> with uniform T, mu and nu.
    sums = weights.detach()
    torch.testing.assert_close(found[0], 2 * source / 25 - 2 * sums @ target @ plan.mT)
    torch.testing.assert_close(found[1], 2 * target / 36 - 2 * sums.mT @ source @ plan)
    constant = (source**2).mean(2)[:, :, None] + (target**2).mean(2)[:, None, :]
    torch.testing.assert_close(found[2], constant - 2 * source @ plan @ target.mT)


def test_unrolled_gradient_passes_finite_differences() -> None:
    source, target = (structure.requires_grad_() for structure in structures(2, 3, 3))
    weights = torch.full((2, 3, 3), 1 / 9, dtype=torch.float64)

    def value(source: Tensor, target: Tensor) -> Tensor:
        settings = {"outer": 2, "inner": 3, "step": 0.5, "gradient": "unrolled"}
        return nested(source, target, evaluate_with=weights, **settings).value

    assert torch.autograd.gradcheck(value, [source, target])


@pytest.mark.parametrize("gradient", ["envelope", "unrolled"])
def test_squares_at_hand_give_what_those_computed_inside_give(gradient: Any) -> None:
    # Uniform masses: the mean of the squares, as GSC has it anyway.
    leaves = [structure.requires_grad_() for structure in structures()]
    solver, problem = NestedGW(gradient=gradient), FusedProblem.of_structures(leaves[0], leaves[1])
    squares = leaves[0].square().mean(2)[:, :, None] + leaves[1].square().mean(2)[:, None, :]
    given, own = solver(problem, squares=squares), solver(problem)
    torch.testing.assert_close(given.plan, own.plan, rtol=0, atol=1e-13)
    torch.testing.assert_close(given.value, own.value, rtol=0, atol=1e-13)
    gradients = (torch.autograd.grad(each.value.sum(), leaves, retain_graph=True) for each in (given, own))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_other_squares_reach_the_iterations_and_the_value() -> None:
    source, target = structures()
    squares = torch.rand(3, 5, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    problem = FusedProblem.of_structures(source, target)
    given, own = NestedGW()(problem, squares=squares), NestedGW()(problem)
    assert not torch.allclose(given.plan, own.plan, atol=1e-2)
    cost = squares - 2 * source @ given.plan @ target.mT
    torch.testing.assert_close(given.value, (cost * given.plan).sum((1, 2)))


def test_single_structures_give_what_a_batch_of_one_gives() -> None:
    source, target = structures(batch=1)
    batched = gromov_wasserstein(source, target, solver=NestedGW())
    single = gromov_wasserstein(source[0], target[0], solver=NestedGW())
    assert single.plan.shape == (5, 6)
    assert torch.equal(single.plan, batched.plan[0])
    assert torch.equal(single.value, batched.value[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outer": 0}, "outer=0"),
        ({"inner": 2.5}, "inner=2.5"),
        ({"step": -1.0}, "step=-1.0"),
        ({"gradient": "some"}, "gradient='some'"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        NestedGW(**settings)


def test_malformed_tensors_are_refused_by_name() -> None:
    matrix, solver = torch.eye(3), NestedGW()
    with pytest.raises(TransportError, match=r"^source_structure is a list"):
        gromov_wasserstein([[0.0]], matrix, solver=solver)  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^target_structure has shape"):
        gromov_wasserstein(matrix, matrix[None], solver=solver)
    with pytest.raises(TransportError, match=r"^target_structure has shape"):
        nested(matrix[None], matrix[None, None])
    with pytest.raises(TransportError, match=r"^evaluate_with is a list"):
        nested(matrix[None], matrix[None], evaluate_with=[])
    with pytest.raises(TransportError, match=r"^evaluate_with is torch.float32 of shape \(3, 3\)"):
        nested(matrix[None], matrix[None], evaluate_with=matrix)
    with pytest.raises(TransportError, match=r"^evaluate_with is torch.float64"):
        nested(matrix[None], matrix[None], evaluate_with=matrix[None].double())


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.solvers.nested"])
    assert results.attempted > 0
    assert results.failed == 0
