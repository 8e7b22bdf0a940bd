"""Six things any BAPG must do; the expected figures come from exact assignment, POT and independent float64 runs."""

import ot
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fossil.ops.scaling import rescale
from fossil.transport import BAPG, FusedProblem, gromov_wasserstein, to_pot_alpha, wasserstein

SEEDS = 20


def draw(*shape: int, seed: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("step", "iterations", "difference", "row_error"),
    [
        (5.0, 2000, -0.0014, 0.016),
        (2.0, 2000, -0.0037, 0.039),
        (0.5, 2000, -0.014, 0.14),
        (0.2, 2000, -0.025, 0.27),
        (0.05, 2000, -0.035, 0.44),
    ],
)
def test_the_limit_lies_below_exact_assignment_by_a_known_amount(
    step: float, iterations: int, difference: float, row_error: float
) -> None:
    # The reference figures are means over twenty other draws of the same law, hence the wide band.
    costs = torch.stack([draw(10, 10, seed=seed) for seed in range(SEEDS)])
    exact = [cost[linear_sum_assignment(cost.numpy())].mean() for cost in costs]
    solution = wasserstein(costs, solver=BAPG(step=step, iterations=iterations, tolerance=None))
    found = (solution.value - torch.stack(exact)).mean().item()
    assert found == pytest.approx(difference, rel=0.25)
    assert solution.row_error.mean().item() == pytest.approx(row_error, rel=0.25)


def test_few_iterations_with_a_large_step_stay_above_exact_assignment() -> None:
    costs = torch.stack([draw(10, 10, seed=seed) for seed in range(SEEDS)])
    exact = torch.stack([cost[linear_sum_assignment(cost.numpy())].mean() for cost in costs])
    solution = wasserstein(costs, solver=BAPG(step=5.0, iterations=20, tolerance=None))
    found = (solution.value - exact).mean().item()
    assert found == pytest.approx(0.063, abs=0.02)


def relabelled_distances() -> tuple[Tensor, Tensor]:
    first, second = [], []
    for seed in range(SEEDS):
        points = draw(10, 2, seed=seed)
        order = torch.randperm(10, generator=torch.Generator().manual_seed(seed))
        distances = torch.cdist(points, points)
        first.append(distances)
        second.append(distances[order][:, order])
    return torch.stack(first), torch.stack(second)


def share_recognised(step: float, constant_terms: bool) -> float:
    first, second = relabelled_distances()
    solver = BAPG(step=step, iterations=1000, tolerance=None, constant_terms=constant_terms)
    solution = gromov_wasserstein(first, second, solver=solver)
    return (solution.value < 1e-3).double().mean().item()


@pytest.mark.parametrize(("step", "least", "most"), [(1.0, 1, 1), (0.5, 1, 1), (0.2, 0.05, 0.4), (0.05, 0, 0)])
def test_without_constant_terms_a_relabelled_copy_is_lost_at_small_steps(
    step: float, least: float, most: float
) -> None:
    assert least <= share_recognised(step, constant_terms=False) <= most


@pytest.mark.parametrize("step", [1.0, 0.5, 0.2])
def test_with_constant_terms_a_relabelled_copy_is_recognised_at_smaller_steps_too(step: float) -> None:
    assert share_recognised(step, constant_terms=True) == 1


def random_problem(alpha: float = 0.5) -> FusedProblem:
    source, target = draw(4, 6, 6, seed=1), draw(4, 8, 8, seed=2)
    cost = draw(4, 6, 8, seed=3)
    masses = torch.softmax(draw(4, 6, seed=4), 1), torch.softmax(draw(4, 8, seed=5), 1)
    return FusedProblem(cost, source + source.mT, target + target.mT, *masses, alpha)


def test_row_sums_are_exact_after_a_row_step_and_column_sums_after_a_column_step() -> None:
    log_plan = 50 * torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem = random_problem()
    rows, columns = problem.source_mass[:, :, None], problem.target_mass[:, None, :]
    plan = rescale(log_plan, rows, rows.log(), 2).plan
    torch.testing.assert_close(plan.sum(2), problem.source_mass, rtol=1e-14, atol=0)
    plan = rescale(log_plan, columns, columns.log(), 1).plan
    torch.testing.assert_close(plan.sum(1), problem.target_mass, rtol=1e-14, atol=0)


def test_plan_is_that_of_pot_after_the_same_iterations() -> None:
    problem = random_problem()
    ours = BAPG(step=0.2, iterations=40, tolerance=None)(problem).plan
    for index in range(problem.batch):
        plan = ot.gromov.BAPG_fused_gromov_wasserstein(
            *(tensor[index].numpy() for tensor in problem.tensors().values()),
            epsilon=0.2,
            alpha=to_pot_alpha(0.5),
            marginal_loss=True,
            max_iter=40,
            tol=0,
        )
        torch.testing.assert_close(ours[index], torch.from_numpy(plan), rtol=0, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 100.0, -100.0])
def test_shifted_and_plain_exponentials_agree_where_the_plain_ones_do_not_overflow(offset: float) -> None:
    log_plan = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + offset
    rows = random_problem().source_mass[:, :, None]
    log_found, found, *_ = rescale(log_plan, rows, rows.log(), 2)
    plain = log_plan.exp()
    expected = plain * (rows / plain.sum(2, keepdim=True))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(log_found, expected.log(), rtol=1e-12, atol=1e-12)


def test_unrolled_gradient_passes_finite_differences() -> None:
    problem = random_problem().part(0, 1)
    cost = problem.feature_cost.clone().requires_grad_()
    solver = BAPG(step=0.3, iterations=6, tolerance=None, gradient="unrolled")

    def value(feature_cost: Tensor) -> Tensor:
        tensors = {**problem.tensors(), "feature_cost": feature_cost}
        return solver(FusedProblem(**tensors, alpha=0.5)).value

    assert torch.autograd.gradcheck(value, (cost,))
