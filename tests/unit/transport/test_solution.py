"""When a solution calls itself settled, and when converged."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.transport import BAPG, Feasible, Solution, fused_gromov_wasserstein, wasserstein


def costs(batch: int = 6, nodes: int = 10) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.rand(batch, nodes, nodes, generator=generator, dtype=torch.float64) for _ in range(3)]
    return [drawn[0], *((structure + structure.mT) / 2 for structure in drawn[1:])]


@pytest.mark.parametrize("step", [0.01, 0.05])
def test_a_plan_that_stands_still_with_its_rows_far_off_is_settled_but_not_converged(step: float) -> None:
    cost, source, target = costs()
    solver = BAPG(step=step, iterations=2000, tolerance=1e-7)
    for solution in (wasserstein(cost, solver=solver), fused_gromov_wasserstein(cost, source, target, solver=solver)):
        row_error = np.abs(solution.plan.numpy().sum(2) - 0.1).sum(1)
        assert (row_error > 0.15).all() and row_error.max() > 0.44
        assert solution.settled.all()
        assert not solution.converged.any()
        assert not wasserstein(cost[0], solver=solver).converged


def test_a_large_step_converges_where_its_rows_come_close_enough() -> None:
    solution = fused_gromov_wasserstein(*costs(), solver=BAPG(step=5.0, iterations=2000, tolerance=1e-7))
    rows = torch.from_numpy(np.abs(solution.plan.numpy().sum(2) - 0.1).sum(1))
    # Some of these stand still and some do not, with row errors on either side of one per cent.
    assert len(set(zip(solution.settled.tolist(), (rows <= 0.01).tolist(), strict=True))) == 4
    assert torch.equal(solution.converged, solution.settled & (rows <= 0.01))


def test_a_feasible_plan_that_stands_still_is_converged() -> None:
    solution = fused_gromov_wasserstein(*costs(), solver=Feasible(iterations=2000))
    assert solution.settled.all()
    assert solution.converged.all()
    assert not fused_gromov_wasserstein(*costs(), solver=Feasible(iterations=3)).converged.any()


def made(row_error: list[float], column_error: list[float], settled: list[bool]) -> Solution:
    count = len(settled)
    errors = torch.tensor(row_error), torch.tensor(column_error)
    made = torch.full((count,), 7)
    return Solution(torch.arange(float(count)), torch.rand(count, 2, 3), made, *errors, torch.tensor(settled))


def test_converged_asks_for_both_marginals_and_for_a_plan_that_stands_still() -> None:
    rows = [0.0, 0.0099, 0.0101, 0.0, 0.5, 0.0, float("nan")]
    columns = [0.0, 0.0099, 0.0, 0.0101, 0.0, 0.0, 0.0]
    solution = made(rows, columns, [True, True, True, True, True, False, True])
    assert solution.converged.tolist() == [True, True, False, False, False, False, False]


def test_a_single_solution_is_that_of_the_first_problem() -> None:
    solution = made([0.5, 0.0], [0.0, 0.0], [True, True])
    single = solution.single()
    assert torch.equal(single.plan, solution.plan[0])
    assert [each.shape for each in (single.value, single.iterations, single.row_error, single.settled)] == [()] * 4
    assert bool(single.settled) and not bool(single.converged)
