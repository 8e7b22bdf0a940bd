"""What holds for every transport problem, whatever its size, masses, costs and step."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_problems import few, problems, shuffled, steps
from torch import Tensor

from fossil.transport import BAPG, FusedProblem, Solution


def run(problem: FusedProblem, step: float) -> Solution:
    # Symmetry is stated, not looked at, so that a batch and its members take the same path.
    return BAPG(step=step, iterations=15, tolerance=None, symmetric=False, gradient="none")(problem)


@few
@given(problems(), st.sampled_from([0.02, 0.1, 1.0, 5.0]))
def test_plans_are_non_negative_with_exact_columns_and_honest_errors(problem: FusedProblem, step: float) -> None:
    solution = run(problem, step)
    assert (solution.plan >= 0).all()
    torch.testing.assert_close(solution.plan.sum(1), problem.target_mass, rtol=1e-12, atol=0)
    rows = np.abs(solution.plan.numpy().sum(2) - problem.source_mass.numpy()).sum(1)
    columns = np.abs(solution.plan.numpy().sum(1) - problem.target_mass.numpy()).sum(1)
    np.testing.assert_allclose(solution.row_error.numpy(), rows, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.column_error.numpy(), columns, rtol=0, atol=1e-12)
    assert (solution.value >= -1e-12).all()


@few
@given(problems(), steps, st.integers(0, 10_000))
def test_relabelling_the_nodes_relabels_the_plan_and_keeps_the_value(
    problem: FusedProblem, step: float, seed: int
) -> None:
    relabelled, rows, columns = shuffled(problem, seed)
    before, after = run(problem, step), run(relabelled, step)
    torch.testing.assert_close(after.value, before.value, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(after.plan, before.plan[:, rows][:, :, columns], rtol=0, atol=1e-8)


@few
@given(problems(), steps, st.integers(0, 3), st.integers(0, 3))
def test_padding_with_zero_mass_changes_nothing(problem: FusedProblem, step: float, rows: int, columns: int) -> None:
    def pad(tensor: Tensor, right: int, below: int = 0) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, right, 0, below), value=2.5)

    padded = FusedProblem(
        pad(problem.feature_cost, columns, rows),
        pad(problem.source_structure, rows, rows),
        pad(problem.target_structure, columns, columns),
        torch.nn.functional.pad(problem.source_mass, (0, rows)),
        torch.nn.functional.pad(problem.target_mass, (0, columns)),
        problem.alpha,
    )
    _, n, m = problem.feature_cost.shape
    before, after = run(problem, step), run(padded, step)
    assert not after.plan[:, n:].any()
    assert not after.plan[:, :, m:].any()
    torch.testing.assert_close(after.plan[:, :n, :m], before.plan, rtol=0, atol=1e-8)
    torch.testing.assert_close(after.value, before.value, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(after.row_error, before.row_error, rtol=0, atol=1e-8)


@few
@given(problems(), steps)
def test_a_batch_of_one_gives_what_the_batch_gives(problem: FusedProblem, step: float) -> None:
    together = run(problem, step)
    for index in range(problem.batch):
        alone = run(problem.part(index, index + 1), step)
        torch.testing.assert_close(alone.plan[0], together.plan[index], rtol=0, atol=1e-8)
        torch.testing.assert_close(alone.value[0], together.value[index], rtol=1e-8, atol=1e-10)
