"""The GPU version of proximal points, interpreted on the CPU, against the plain version in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.ops.proximal import proximal_point
from fossil.transport import NestedGW, ProximalPoint, gromov_wasserstein, wasserstein
from fossil.transport.solvers.base import Gradient


def make(n: int, m: int, batch: int = 3) -> list[Tensor]:
    """Draw costs and masses in float64."""
    generator = torch.Generator().manual_seed(n + m)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    return [draw(batch, n, m), torch.softmax(2 * draw(batch, n), 1), torch.softmax(2 * draw(batch, m), 1)]


def single(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.float() for tensor in tensors]


def run(tensors: list[Tensor], step: float, iterations: int) -> Tensor:
    return proximal_point(tensors[0], tensors[1], tensors[2], step, iterations).plan


def difference(found: Tensor, expected: Tensor) -> float:
    return (found - expected).abs().max().item()


@pytest.fixture
def launched(counted: Callable[..., list[str]]) -> list[str]:
    """Return a list that grows with each launch of the kernel."""
    return counted("proximal", "proximal_plan")


# Sizes within and at the edges of all three tiles; the first two are those of GSC.
@pytest.mark.parametrize(
    ("n", "m", "step", "iterations"),
    [
        (15, 15, 0.5, 40),
        (15, 15, 0.1, 20),
        (1, 3, 0.5, 5),
        (16, 7, 0.1, 1),
        (5, 17, 0.1, 20),
        (32, 32, 0.5, 5),
        (33, 12, 0.2, 5),
        (64, 64, 0.1, 3),
    ],
)
def test_plans_are_those_of_the_plain_version_in_float64(
    n: int, m: int, step: float, iterations: int, launched: list[str]
) -> None:
    cost, source_mass, target_mass = make(n, m)
    expected = proximal_point(cost, source_mass, target_mass, step, iterations)
    assert not launched
    found = proximal_point(cost.float(), source_mass.float(), target_mass.float(), step, iterations)
    assert len(launched) == 1
    assert found.plan.shape == (3, n, m)
    assert difference(found.plan, expected.plan) / expected.plan.max().item() < 2e-6
    assert torch.equal(found.iterations, expected.iterations)
    assert torch.equal(found.settled, expected.settled)


def test_many_iterations_give_the_exact_value_of_pot(launched: list[str]) -> None:
    ot = pytest.importorskip("ot")
    cost, source_mass, target_mass = make(5, 7, batch=2)
    solver = ProximalPoint(step=0.5, iterations=1000)
    solution = wasserstein(cost.float(), source_mass.float(), target_mass.float(), solver=solver)
    assert len(launched) == 1
    for index, value in enumerate(solution.value.tolist()):
        exact = ot.emd2(source_mass[index].numpy(), target_mass[index].numpy(), cost[index].numpy())
        assert value == pytest.approx(float(exact), abs=2e-5)


def test_nodes_of_zero_mass_get_exactly_nothing_and_change_nothing(launched: list[str]) -> None:
    cost, source_mass, target_mass = single(make(6, 9))
    pad = torch.nn.functional.pad
    wide = [pad(cost, (0, 3, 0, 2), value=-4.0), pad(source_mass, (0, 2)), pad(target_mass, (0, 3))]
    bare, plan = run([cost, source_mass, target_mass], 0.1, 30), run(wide, 0.1, 30)
    expected = run([tensor.double() for tensor in wide], 0.1, 30)
    assert len(launched) == 2
    assert not plan[:, 6:].any()
    assert not plan[:, :, 9:].any()
    assert difference(plan[:, :6, :9], bare) < 1e-6
    assert difference(plan, expected) < 1e-6


@pytest.mark.parametrize("step", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("scale", [1.0, -1e4])
def test_plans_are_finite_with_exact_columns_at_all_steps_and_costs(
    step: float, scale: float, launched: list[str]
) -> None:
    cost, source_mass, target_mass = single(make(9, 12))
    plan = run([scale * cost, source_mass, target_mass], step, 20)
    assert len(launched) == 1
    assert difference(plan.sum(1), target_mass) < 1e-6  # NaN compares false


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")  # of the interpreter
def test_a_cost_that_is_not_a_number_spoils_its_own_problem_visibly(launched: list[str]) -> None:
    tensors = single(make(5, 5))
    tensors[0][1, 2, 3] = float("nan")
    spoilt = run(tensors, 0.5, 3).isnan().flatten(1)
    assert spoilt.all(1).tolist() == spoilt.any(1).tolist() == [False, True, False]
    assert len(launched) == 1


def test_views_that_are_not_contiguous_are_read_as_they_are(launched: list[str]) -> None:
    cost, source_mass, target_mass = make(6, 9)
    shared = source_mass[:1].expand(3, -1)
    plan = run([cost.float().mT.contiguous().mT, shared.float(), target_mass.float()], 0.2, 10)
    assert difference(plan, run([cost, shared, target_mass], 0.2, 10)) < 1e-6
    assert len(launched) == 1


def test_solvers_profit_where_no_gradient_goes_through_the_iterations(launched: list[str]) -> None:
    def launches(solve: Callable[[], object]) -> int:
        launched.clear()
        solve()
        return len(launched)

    def solving(cost: Tensor, **settings: Any) -> Callable[[], object]:
        return lambda: wasserstein(cost, solver=ProximalPoint(iterations=2, **settings))

    cost, source_mass, target_mass = single(make(5, 6))
    learnt, structure = cost.clone().requires_grad_(), make(5, 5)[0].float()
    learnt_mass = source_mass.clone().requires_grad_()
    nested = NestedGW(outer=3, inner=2)
    with torch.no_grad():
        disabled = launches(lambda: run([learnt, source_mass, target_mass], 0.5, 2))
    found = {
        "envelope": launches(solving(learnt)),
        "none": launches(solving(learnt, gradient="none")),
        "no gradient mode": disabled,
        "nested": launches(lambda: gromov_wasserstein(structure, structure, solver=nested)),
        "unrolled": launches(solving(learnt, gradient="unrolled")),
        "learnt cost": launches(lambda: run([learnt, source_mass, target_mass], 0.5, 2)),
        "learnt mass": launches(lambda: run([cost, learnt_mass, target_mass], 0.5, 2)),
        "tolerance": launches(solving(cost, tolerance=1e-6)),
        "large": launches(solving(single(make(5, 65))[0])),
        "float64": launches(solving(cost.double())),
        "empty": launches(lambda: run([cost[:0], source_mass[:0], target_mass[:0]], 0.5, 2)),
    }
    assert {name: count for name, count in found.items() if count} == {
        "envelope": 1,
        "none": 1,
        "no gradient mode": 1,
        "nested": 3,
    }


@pytest.mark.parametrize("gradient", ["envelope", "unrolled"])
def test_gradients_are_those_of_the_plain_version(gradient: Gradient, launched: list[str]) -> None:
    exact = make(6, 5)[0].requires_grad_()
    rough = exact.detach().float().requires_grad_()
    solver = ProximalPoint(iterations=8, gradient=gradient)
    found, expected = (
        torch.autograd.grad(wasserstein(cost, solver=solver).value.sum(), cost)[0] for cost in (rough, exact)
    )
    assert difference(found, expected) < 1e-5
    assert len(launched) == (1 if gradient == "envelope" else 0)
