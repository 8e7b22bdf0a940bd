"""The peers of BAPG against POT: Sinkhorn, exact transport, and the conditional gradient for the fused problem."""

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

from fossil.transport import (
    Feasible,
    FusedProblem,
    ProximalPoint,
    Sinkhorn,
    fused_gromov_wasserstein,
    to_pot_alpha,
    wasserstein,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def masses(batch: int, n: int, m: int) -> tuple[Tensor, Tensor]:
    return torch.softmax(draw(batch, n, seed=1), 1), torch.softmax(draw(batch, m, seed=2), 1)


@pytest.mark.parametrize("regularization", [0.02, 0.1, 1.0])
def test_sinkhorn_converges_to_the_plan_and_value_of_pot(regularization: float) -> None:
    cost, (mu, nu) = draw(4, 6, 8), masses(4, 6, 8)
    solver = Sinkhorn(regularization=regularization, iterations=5000, tolerance=1e-14)
    ours = wasserstein(cost, mu, nu, solver=solver)
    for index in range(4):
        arrays = mu[index].numpy(), nu[index].numpy(), cost[index].numpy()
        settings = {"method": "sinkhorn_log", "numItermax": 5000, "stopThr": 1e-13}
        plan = ot.sinkhorn(*arrays, regularization, **settings)
        value = ot.sinkhorn2(*arrays, regularization, **settings)
        np.testing.assert_allclose(ours.plan[index].numpy(), plan, rtol=0, atol=1e-9)
        assert ours.value[index].item() == pytest.approx(float(value), abs=1e-9)


def test_sinkhorn_follows_pot_iteration_by_iteration() -> None:
    cost, (mu, nu) = draw(4, 6, 8), masses(4, 6, 8)
    # POT scales columns first: its iteration is ours of the transposed problem.
    ours = wasserstein(cost.mT, nu, mu, solver=Sinkhorn(regularization=0.05, iterations=7)).plan.mT
    for index in range(4):
        arrays = mu[index].numpy(), nu[index].numpy(), cost[index].numpy()
        plan = ot.sinkhorn(*arrays, 0.05, method="sinkhorn_log", numItermax=7, stopThr=0, warn=False)
        np.testing.assert_allclose(ours[index].numpy(), plan, rtol=0, atol=1e-12)


@pytest.mark.parametrize("step", [0.1, 0.5])
def test_proximal_points_converge_to_exact_transport(step: float) -> None:
    cost, (mu, nu) = draw(4, 6, 8), masses(4, 6, 8)
    ours = wasserstein(cost, mu, nu, solver=ProximalPoint(step=step, iterations=4000))
    for index in range(4):
        exact = ot.emd2(mu[index].numpy(), nu[index].numpy(), cost[index].numpy())
        assert ours.value[index].item() == pytest.approx(float(exact), abs=1e-5)


def random_structures(batch: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    source, target = draw(batch, k, k, seed=3), draw(batch, k, k, seed=4)
    return draw(batch, k, k, seed=5), (source + source.mT) / 2, (target + target.mT) / 2


def training_like(batch: int, k: int, temperature: float = 0.5) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(6)
    rows = torch.randn(2, batch, k, 8, generator=generator, dtype=torch.float64) + 0.5
    rows = torch.nn.functional.normalize(rows, dim=-1)
    edges = torch.triu((torch.rand(2, batch, k, k, generator=generator) < 0.3).double(), 1)
    source, target = torch.exp(-(rows @ rows.mT + edges + edges.mT) / temperature)
    costs = torch.exp(-rows[0] @ rows[1].mT / temperature), source, target
    feature, source, target = (cost / cost.amax((1, 2), keepdim=True) for cost in costs)
    return feature, source, target


@pytest.mark.parametrize("costs", [random_structures(20, 12), training_like(20, 12)], ids=["random", "training-like"])
@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_feasible_values_are_as_good_as_those_of_the_conditional_gradient(
    costs: tuple[Tensor, Tensor, Tensor], alpha: float
) -> None:
    ours = fused_gromov_wasserstein(*costs, alpha=alpha, solver=Feasible())
    reference = np.array(
        [
            ot.gromov.fused_gromov_wasserstein2(*(each.numpy() for each in triple), alpha=to_pot_alpha(alpha))
            for triple in zip(*costs, strict=True)
        ]
    )
    excess = ours.value.numpy() - reference
    # Values are 0.06 to 0.1. There are many local minima, so single problems go either way.
    assert excess.mean() < 0.001
    assert excess.max() < 0.01
    assert ours.row_error.max() < 1e-6
    assert ours.column_error.max() < 1e-6


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_feasible_value_is_what_pot_says_of_the_plan(alpha: float) -> None:
    costs, (mu, nu) = (draw(3, 5, 7, seed=7), *(draw(3, size, size, seed=size) for size in (5, 7))), masses(3, 5, 7)
    ours = fused_gromov_wasserstein(*costs, mu, nu, alpha=alpha, solver=Feasible(iterations=20))
    problem = FusedProblem(*costs, mu, nu, alpha)
    for index in range(3):
        arrays = {name: tensor[index].numpy() for name, tensor in problem.tensors().items()}
        plan = ours.plan[index].numpy()
        constant = ot.gromov.init_matrix(
            *(arrays[name] for name in ("source_structure", "target_structure", "source_mass", "target_mass"))
        )
        expected = alpha * float((arrays["feature_cost"] * plan).sum())
        expected += (1 - alpha) * float(ot.gromov.gwloss(*constant, plan))
        assert ours.value[index].item() == pytest.approx(expected, abs=1e-10)
