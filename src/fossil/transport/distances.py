"""Distances between attributed graphs, structures and sets of nodes, a line each: a problem and a solver."""

from __future__ import annotations

from fossil.transport.inputs import Matrix, feature_problem, fused_problem, is_single, structure_problem
from fossil.transport.solution import Solution
from fossil.transport.solvers import BAPG, Solver


def fused_gromov_wasserstein(
    feature_cost: Matrix,
    source_structure: Matrix,
    target_structure: Matrix,
    source_mass: Matrix | None = None,
    target_mass: Matrix | None = None,
    *,
    alpha: float = 0.5,
    solver: Solver | None = None,
) -> Solution:
    """Compare one pair of attributed graphs, or a batch of pairs; tensors or NumPy arrays.

    Args:
        feature_cost: n×m or B×n×m costs between the nodes of the two graphs (M).
        source_structure: n×n or B×n×n costs among the nodes of the first graph (C1).
        target_structure: m×m or B×m×m costs among the nodes of the second (C2).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu).
        alpha: weight of the feature term.
        solver: `BAPG()` when None; or `Feasible()`, or `ConditionalGradient()` for one pair of large graphs.

    Returns:
        The solution, without the batch dimension for a single pair.

    Raises:
        TransportError: the problem is malformed, or not of the kind that the solver is for.

    >>> import torch
    >>> path = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 2
    >>> colours = 1 - torch.eye(3)
    >>> solution = fused_gromov_wasserstein(colours, path, path, alpha=0.5)
    >>> bool(solution.value < 1e-3), solution.plan.argmax(1).tolist()
    (True, [0, 1, 2])
    """
    problem = fused_problem(feature_cost, source_structure, target_structure, source_mass, target_mass, alpha)
    solution = (solver or BAPG())(problem, check=False)
    return solution.single() if is_single(feature_cost) else solution


def gromov_wasserstein(
    source_structure: Matrix,
    target_structure: Matrix,
    source_mass: Matrix | None = None,
    target_mass: Matrix | None = None,
    *,
    solver: Solver | None = None,
) -> Solution:
    """Compare two structures that share no features: the fused problem with alpha = 0.

    Args:
        source_structure: n×n or B×n×n costs (C1).
        target_structure: m×m or B×m×m costs (C2).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu).
        solver: `BAPG()` when None; or `Feasible()`, `NestedGW()`, `ConditionalGradient()`.

    >>> import torch
    >>> star = torch.ones(4, 4) - torch.eye(4)
    >>> star[1:, 1:] *= 2
    >>> solution = gromov_wasserstein(star, star.flip(0, 1))
    >>> solution.plan[0].argmax().item()
    3
    """
    problem = structure_problem(source_structure, target_structure, source_mass, target_mass)
    solution = (solver or BAPG())(problem, check=False)
    return solution.single() if is_single(source_structure) else solution


def wasserstein(
    cost: Matrix,
    source_mass: Matrix | None = None,
    target_mass: Matrix | None = None,
    *,
    solver: Solver | None = None,
) -> Solution:
    """Move one set of nodes onto another at the least cost: the fused problem with alpha = 1.

    Args:
        cost: n×m or B×n×m costs (M).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu).
        solver: `BAPG()` when None; or `Sinkhorn(regularization=…)`, `ProximalPoint()`.

    >>> import torch
    >>> solution = wasserstein(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> bool(solution.value < 1e-3), solution.plan.argmax(1).tolist()
    (True, [1, 0])
    """
    solution = (solver or BAPG())(feature_problem(cost, source_mass, target_mass), check=False)
    return solution.single() if is_single(cost) else solution
