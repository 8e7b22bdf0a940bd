"""What all solvers share: settings that cannot change, equality by value, and the problems each of them is for."""

import dataclasses
import pickle

import pytest
import torch

from fossil.errors import SettingError, TransportError
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

SOLVERS: list[Solver] = [BAPG(), Feasible(), NestedGW(), ProximalPoint(), Sinkhorn(regularization=0.1)]
NAMES = [type(solver).__name__ for solver in SOLVERS]
OF_FEATURES = [ProximalPoint(), Sinkhorn(regularization=0.1)]


def problem(alpha: float) -> FusedProblem:
    generator = torch.Generator().manual_seed(0)
    cost, source, target = (torch.rand(2, 4, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    return FusedProblem.uniform(cost, source + source.mT, target + target.mT, alpha)


@pytest.mark.parametrize("solver", SOLVERS, ids=NAMES)
def test_settings_cannot_be_changed_after_construction(solver: Solver) -> None:
    for field in dataclasses.fields(solver):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(solver, field.name, getattr(solver, field.name))


@pytest.mark.parametrize("solver", SOLVERS, ids=NAMES)
def test_solvers_of_equal_settings_are_equal_and_hash_alike(solver: Solver) -> None:
    again = dataclasses.replace(solver)
    assert again is not solver
    assert again == solver
    assert hash(again) == hash(solver)
    assert pickle.loads(pickle.dumps(solver)) == solver
    assert dataclasses.replace(solver, gradient="none") != solver
    assert all(other is solver or other != solver for other in SOLVERS)


@pytest.mark.parametrize("solver", SOLVERS, ids=NAMES)
def test_settings_are_given_by_name_and_checked_whenever_they_change(solver: Solver) -> None:
    with pytest.raises(TypeError, match="positional"):
        type(solver)(0.5)  # type: ignore[misc]
    with pytest.raises(SettingError, match="gradient='exact'"):
        dataclasses.replace(solver, gradient="exact")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="stepp"):
        type(solver)(stepp=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("solver", SOLVERS, ids=NAMES)
def test_a_solver_shows_its_settings(solver: Solver) -> None:
    assert eval(repr(solver)) == solver


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("solver", OF_FEATURES, ids=["ProximalPoint", "Sinkhorn"])
def test_solvers_of_features_refuse_problems_in_which_structures_count(solver: Solver, alpha: float) -> None:
    message = rf"{type(solver).__name__} moves features alone, .* alpha={alpha:g}\."
    for check in (True, False):
        with pytest.raises(TransportError, match=message):
            solver(problem(alpha), check=check)
    tensors = problem(alpha)
    with pytest.raises(TransportError, match=message):
        fused_gromov_wasserstein(*list(tensors.tensors().values()), alpha=alpha, solver=solver)
    with pytest.raises(TransportError, match=r"alpha=0\."):
        gromov_wasserstein(tensors.source_structure, tensors.target_structure, solver=solver)
    assert solver(problem(1.0)).plan.isfinite().all()


@pytest.mark.parametrize("alpha", [1.0, 0.5, 1e-3])
def test_the_solver_of_structures_refuses_problems_in_which_features_count(alpha: float) -> None:
    solver = NestedGW()
    message = rf"NestedGW compares structures alone, .* alpha={alpha:g}\."
    for check in (True, False):
        with pytest.raises(TransportError, match=message):
            solver(problem(alpha), check=check)
    with pytest.raises(TransportError, match=r"alpha=1\."):
        wasserstein(problem(1.0).feature_cost, solver=solver)
    assert solver(problem(0.0)).plan.isfinite().all()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("solver", [BAPG(), Feasible()], ids=["BAPG", "Feasible"])
def test_solvers_of_the_fused_problem_take_its_ends_too(solver: Solver, alpha: float) -> None:
    solution = solver(problem(alpha))
    assert solution.plan.isfinite().all()
    torch.testing.assert_close(solution.value, problem(alpha).objective(solution.plan))


@pytest.mark.parametrize("solver", SOLVERS, ids=NAMES)
def test_a_malformed_problem_is_refused_by_name_before_anything_is_solved(solver: Solver) -> None:
    broken = dataclasses.replace(problem(0.0 if isinstance(solver, NestedGW) else 1.0))
    broken.target_mass[1, 2] = -0.25
    with pytest.raises(TransportError, match="target_mass of problem 1 has a negative"):
        solver(broken)
