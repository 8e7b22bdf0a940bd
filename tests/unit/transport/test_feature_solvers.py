"""What the two solvers of features alone have in common."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.errors import SettingError, TransportError
from fossil.transport import ProximalPoint, Sinkhorn, wasserstein
from fossil.transport.solvers.base import Gradient

Kind = partial[Any]
SOLVERS: list[Kind] = [
    partial(Sinkhorn, regularization=0.1, iterations=30),
    partial(ProximalPoint, step=0.3, iterations=30),
]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def masses(batch: int, n: int, m: int) -> tuple[Tensor, Tensor]:
    return torch.softmax(draw(batch, n, seed=1), 1), torch.softmax(draw(batch, m, seed=2), 1)


@pytest.mark.parametrize("solver", SOLVERS)
def test_columns_are_exact_and_errors_honest(solver: Kind) -> None:
    mu, nu = masses(4, 5, 6)
    solution = wasserstein(draw(4, 5, 6), mu, nu, solver=solver(iterations=5))
    assert (solution.plan >= 0).all()
    torch.testing.assert_close(solution.plan.sum(1), nu, rtol=1e-12, atol=0)
    expected = np.abs(solution.plan.numpy().sum(2) - mu.numpy()).sum(1)
    np.testing.assert_allclose(solution.row_error.numpy(), expected, rtol=0, atol=1e-14)
    assert (solution.row_error > 1e-8).all()
    assert (solution.column_error < 1e-14).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_padding_with_zero_mass_gets_nothing_and_changes_nothing(solver: Kind) -> None:
    pad, (mu, nu) = torch.nn.functional.pad, masses(3, 4, 5)
    cost = draw(3, 4, 5)
    bare = wasserstein(cost, mu, nu, solver=solver())
    padded = wasserstein(pad(cost, (0, 2, 0, 3), value=-4.0), pad(mu, (0, 3)), pad(nu, (0, 2)), solver=solver())
    assert not padded.plan[:, 4:].any()
    assert not padded.plan[:, :, 5:].any()
    torch.testing.assert_close(padded.plan[:, :4, :5], bare.plan, rtol=0, atol=1e-12)
    torch.testing.assert_close(padded.value, bare.value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("strength", [1e-3, 0.1, 10.0])
def test_float32_plans_are_finite_with_exact_columns(strength: float, scale: float) -> None:
    cost = scale * draw(8, 12, 12).float()
    for solver in (Sinkhorn(regularization=strength, iterations=100), ProximalPoint(step=strength, iterations=100)):
        solution = wasserstein(cost, solver=solver)
        assert solution.plan.isfinite().all()
        assert solution.value.isfinite().all()
        torch.testing.assert_close(solution.plan.sum(1), torch.full((8, 12), 1 / 12), rtol=1e-5, atol=0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_tolerance_stops_each_problem_on_its_own(solver: Kind) -> None:
    costs = draw(6, 5, 5) * torch.linspace(0.1, 3, 6, dtype=torch.float64)[:, None, None]
    together = wasserstein(costs, solver=solver(iterations=2000, tolerance=1e-3))
    assert together.settled.all()
    assert len(set(together.iterations.tolist())) > 1
    for index, made in enumerate(together.iterations.tolist()):
        plans = [wasserstein(costs[index], solver=solver(iterations=count)).plan for count in (made - 1, made)]
        torch.testing.assert_close(together.plan[index], plans[1], rtol=0, atol=1e-12)
        assert (plans[1] - plans[0]).norm() <= 1e-3
    assert not wasserstein(costs, solver=solver(iterations=2, tolerance=0.0)).settled.any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_three_gradients(solver: Kind) -> None:
    cost = draw(2, 3, 4, seed=6).requires_grad_()
    kinds: list[Gradient] = ["envelope", "unrolled", "none"]
    held, unrolled, none = (wasserstein(cost, solver=solver(iterations=6, gradient=kind)) for kind in kinds)
    assert torch.equal(torch.autograd.grad(held.value.sum(), cost)[0], held.plan)
    assert not held.plan.requires_grad
    assert unrolled.plan.requires_grad
    assert not none.value.requires_grad
    through = solver(iterations=6, gradient="unrolled")
    assert torch.autograd.gradcheck(lambda cost: wasserstein(cost, solver=through).value, [cost])


def test_unrolled_gradients_of_padded_problems_are_finite_and_zero_outside() -> None:
    cost = draw(1, 4, 4, seed=7).requires_grad_()
    mass = torch.tensor([[0.5, 0.3, 0.2, 0.0]], dtype=torch.float64)
    for solver in SOLVERS:
        value = wasserstein(cost, mass, mass, solver=solver(gradient="unrolled")).value
        (gradient,) = torch.autograd.grad(value.sum(), cost)
        assert gradient.isfinite().all()
        assert not gradient[:, 3].any()
        assert not gradient[:, :, 3].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_single_cost_gives_what_a_batch_of_one_gives(solver: Kind) -> None:
    cost, (mu, nu) = draw(1, 3, 4), masses(1, 3, 4)
    batched = wasserstein(cost, mu, nu, solver=solver())
    single = wasserstein(cost[0], mu[0], nu[0], solver=solver())
    assert single.plan.shape == (3, 4)
    assert single.value.shape == single.settled.shape == ()
    assert torch.equal(single.plan, batched.plan[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"iterations": 0}, "iterations=0"), ({"tolerance": -1}, "tolerance=-1"), ({"gradient": "all"}, "gradient='all'")],
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_settings_out_of_range_are_refused_by_name(solver: Kind, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        solver(**settings)


@pytest.mark.parametrize("solver", SOLVERS)
def test_malformed_tensors_are_refused_by_name(solver: Kind) -> None:
    with pytest.raises(TransportError, match=r"^cost is a list"):
        wasserstein([[0.0]], solver=solver())  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^cost has shape \(3,\)"):
        wasserstein(torch.zeros(3), solver=solver())
    with pytest.raises(TransportError, match=r"^target_mass has shape"):
        wasserstein(torch.eye(3), None, torch.ones(4) / 4, solver=solver())
    with pytest.raises(TransportError, match="NaN or infinite"):
        wasserstein(torch.full((2, 2), float("nan")), solver=solver())
