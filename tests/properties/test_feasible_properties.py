"""What holds for every plan of the feasible variant, whatever the problem."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_problems import few, problems, shuffled, steps
from torch import Tensor

from fossil.transport import Feasible, FusedProblem


def run(problem: FusedProblem, step: float, sweeps: int = 2) -> Tensor:
    # Symmetry is stated, not looked at, so that a batch and its members take the same path.
    return Feasible(step=step, iterations=12, sweeps=sweeps, tolerance=None, symmetric=False)(problem).plan


@pytest.mark.filterwarnings("ignore::fossil.errors.FossilWarning")
@few
@given(problems(), st.sampled_from([1e-3, 0.02, 0.1, 1.0, 10.0]), st.integers(1, 3))
def test_plans_are_non_negative_and_meet_both_marginals(problem: FusedProblem, step: float, sweeps: int) -> None:
    plan = run(problem, step, sweeps)
    assert (plan >= 0).all()
    torch.testing.assert_close(plan.sum(2), problem.source_mass, rtol=0, atol=1e-14)
    torch.testing.assert_close(plan.sum(1), problem.target_mass, rtol=0, atol=1e-14)
    assert (problem.objective(plan) >= -1e-12).all()


@few
@given(problems(), steps, st.integers(0, 10_000))
def test_relabelling_the_nodes_relabels_the_plan_and_keeps_the_value(
    problem: FusedProblem, step: float, seed: int
) -> None:
    relabelled, rows, columns = shuffled(problem, seed)
    before, after = run(problem, step), run(relabelled, step)
    torch.testing.assert_close(after, before[:, rows][:, :, columns], rtol=0, atol=1e-8)
    torch.testing.assert_close(relabelled.objective(after), problem.objective(before), rtol=1e-8, atol=1e-10)


@few
@given(problems(), steps, st.integers(0, 3), st.integers(0, 3))
def test_padding_with_zero_mass_changes_nothing(problem: FusedProblem, step: float, rows: int, columns: int) -> None:
    def pad(tensor: Tensor, right: int, below: int) -> Tensor:
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
    assert not after[:, n:].any()
    assert not after[:, :, m:].any()
    torch.testing.assert_close(after[:, :n, :m], before, rtol=0, atol=1e-8)
    torch.testing.assert_close(padded.objective(after), problem.objective(before), rtol=1e-8, atol=1e-10)


@few
@given(problems(), steps)
def test_a_batch_of_one_gives_what_the_batch_gives(problem: FusedProblem, step: float) -> None:
    together = run(problem, step)
    for index in range(problem.batch):
        alone = run(problem.part(index, index + 1), step)
        torch.testing.assert_close(alone[0], together[index], rtol=0, atol=1e-8)
