"""The functions of one line: single problems and batches, masses, solvers, and what they refuse."""

import doctest
import subprocess
import sys
import warnings

import pytest
import torch
from torch import Tensor

from fossil.errors import FossilWarning, TransportError
from fossil.transport import (
    BAPG,
    Feasible,
    FusedProblem,
    NestedGW,
    ProximalPoint,
    Sinkhorn,
    Solver,
    fused_gromov_wasserstein,
    gromov_wasserstein,
    wasserstein,
)


def costs(batch: int = 2, n: int = 4, m: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(11)
    drawn = [torch.rand(batch, *shape, generator=generator, dtype=torch.float64) for shape in ((n, m), (n, n), (m, m))]
    drawn[1:] = [(structure + structure.mT) / 2 for structure in drawn[1:]]
    return drawn


def test_a_single_problem_gives_what_a_batch_of_one_gives() -> None:
    cost, source, target = costs(batch=1)
    mass = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    batched = fused_gromov_wasserstein(cost, source, target, mass[None], alpha=0.3)
    single = fused_gromov_wasserstein(cost[0], source[0], target[0], mass, alpha=0.3)
    assert batched.plan.shape == (1, 4, 3)
    assert single.plan.shape == (4, 3)
    assert single.value.shape == single.row_error.shape == single.settled.shape == single.iterations.shape == ()
    assert single.converged.shape == ()
    assert torch.equal(single.plan, batched.plan[0])


def test_wasserstein_and_gromov_wasserstein_are_the_two_ends_of_alpha() -> None:
    cost, source, target = costs()
    ends = [fused_gromov_wasserstein(cost, source, target, alpha=alpha) for alpha in (1.0, 0.0)]
    assert torch.equal(wasserstein(cost).plan, ends[0].plan)
    assert torch.equal(wasserstein(cost).value, ends[0].value)
    assert torch.equal(gromov_wasserstein(source, target).plan, ends[1].plan)
    assert torch.equal(gromov_wasserstein(source, target).value, ends[1].value)


@pytest.mark.parametrize("solver", [BAPG(step=0.3, iterations=7), Feasible(iterations=9)])
def test_the_solver_given_is_the_one_that_solves_the_fused_problem(solver: Solver) -> None:
    cost, source, target = costs()
    mass = torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 2, dtype=torch.float64)
    found = fused_gromov_wasserstein(cost, source, target, mass, alpha=0.3, solver=solver)
    uniform = torch.full((2, 3), 1 / 3, dtype=torch.float64)
    expected = solver(FusedProblem(cost, source, target, mass, uniform, 0.3))
    assert torch.equal(found.plan, expected.plan)
    assert torch.equal(found.value, expected.value)
    assert not torch.allclose(found.plan, fused_gromov_wasserstein(cost, source, target, mass, alpha=0.3).plan)


def test_the_solver_given_is_the_one_that_solves_each_end() -> None:
    cost, source, target = costs()
    for solver in (Sinkhorn(regularization=0.1), ProximalPoint(), BAPG(step=0.3)):
        expected = solver(FusedProblem.of_features(cost))
        assert torch.equal(wasserstein(cost, solver=solver).plan, expected.plan)
    for solver in (NestedGW(), Feasible(), BAPG(step=0.3)):
        expected = solver(FusedProblem.of_structures(source, target))
        assert torch.equal(gromov_wasserstein(source, target, solver=solver).plan, expected.plan)


def test_what_cannot_be_read_is_refused_by_name() -> None:
    matrix = torch.eye(3)
    with pytest.raises(TransportError, match=r"^cost is a list"):
        wasserstein([[0.0]])  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^cost has shape"):
        wasserstein(torch.zeros(3))
    with pytest.raises(TransportError, match=r"^target_structure has shape"):
        gromov_wasserstein(matrix, torch.zeros(3))
    with pytest.raises(TransportError, match=r"^target_structure has shape"):
        gromov_wasserstein(matrix, matrix[None])
    with pytest.raises(TransportError, match=r"^source_mass is a list"):
        wasserstein(matrix, [1.0, 0.0, 0.0])  # type: ignore[arg-type]
    with pytest.raises(TransportError, match=r"^source_structure has shape"):
        fused_gromov_wasserstein(matrix, matrix[None], matrix)


def test_the_warning_of_a_small_step_points_outside_the_package() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wasserstein(torch.eye(3), solver=BAPG(step=0.001, iterations=1))
    assert [(item.category, item.filename) for item in caught] == [(FossilWarning, __file__)]


def test_transport_can_be_reached_once_the_package_is_imported() -> None:
    script = "import fossil, torch; assert fossil.transport.wasserstein(torch.eye(3)).plan.shape == (3, 3)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.distances"])
    assert results.attempted > 0
    assert results.failed == 0
