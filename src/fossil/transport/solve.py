"""Solve batches of transport problems, with a choice of gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.transport import kernels
from fossil.transport.bapg import bapg
from fossil.transport.entry import Gradient, check_gradient, feature_problem, fused_problem, solved, structure_problem
from fossil.transport.envelope import envelope_value
from fossil.transport.iteration import Outcome, check_settings
from fossil.transport.problem import FusedProblem, Marginals
from fossil.transport.solution import Solution


def solve(
    problem: FusedProblem,
    *,
    step: float,
    iterations: int = 20,
    tolerance: float | None = None,
    constant_terms: bool = True,
    marginals: Marginals = "actual",
    gradient: Gradient = "envelope",
    symmetric: bool | None = None,
    check: bool = True,
) -> Solution:
    """Compare the two sides of each problem with BAPG.

    Args:
        problem: B problems.
        step: beta of Algorithm 1.
        iterations: the most iterations made.
        tolerance: stop a problem whose plan moves by no more than this in an iteration; None makes all iterations.
        constant_terms: keep the squared costs in the solver's gradient (the paper) or not (the released code).
        marginals: weights of the squared costs in the value, see `FusedProblem.objective`.
        gradient: how `value` is differentiated in the three costs. `envelope` holds the plan constant: exact at a
            minimiser, always finite, cheap beside the forward pass. `unrolled` goes through all iterations: exact for
            the truncated algorithm, slow, and explosive at small steps. `none` records nothing. Masses get no
            gradient.
        symmetric: whether the structures are; None looks, which waits for the device.
        check: validate the problem first, which waits for the device.

    With `check=False`, `tolerance=None` and `symmetric` given, nothing waits for the device.

    Raises:
        TransportError: the problem is malformed.
        SettingError: an option is out of range.

    Warns:
        FossilWarning: the step is below 0.01.

    >>> problem = FusedProblem.uniform(torch.eye(3)[None], torch.eye(3)[None], torch.eye(3)[None], alpha=0.5)
    >>> solution = solve(problem, step=0.5, iterations=100)
    >>> solution.plan.shape, round(float(solution.plan.sum()), 5)
    (torch.Size([1, 3, 3]), 1.0)
    """
    check_gradient(gradient)
    if check:
        problem.check()
    if symmetric is None:
        symmetric = problem.is_symmetric()
    if gradient != "unrolled" and kernels.fits(problem, tolerance, symmetric, held=True):
        return _solve_fused(problem, step, iterations, constant_terms, marginals, gradient, symmetric)

    def run(problem: FusedProblem) -> Outcome:
        return bapg(
            problem,
            step=step,
            iterations=iterations,
            tolerance=tolerance,
            constant_terms=constant_terms,
            symmetric=symmetric,
        )

    def evaluate(problem: FusedProblem, plan: Tensor) -> Tensor:
        if gradient == "unrolled":
            return problem.objective(plan, marginals)
        return envelope_value(problem, plan, marginals)

    return solved(problem, gradient, run, evaluate)


def _solve_fused(
    problem: FusedProblem,
    step: float,
    iterations: int,
    constant_terms: bool,
    marginals: Marginals,
    gradient: Gradient,
    symmetric: bool,
) -> Solution:
    """Solve and score in one program; the gradient is another."""
    check_settings(step, iterations, None)
    with torch.set_grad_enabled(torch.is_grad_enabled() and gradient == "envelope"):
        fused = kernels.solve_fused(problem, step, iterations, constant_terms, marginals, symmetric=symmetric)
    plan, value, row_error, column_error = fused
    made = torch.full((problem.batch,), iterations, dtype=torch.int64, device=plan.device)
    return Solution(value, plan, made, row_error, column_error, torch.zeros_like(made, dtype=torch.bool))


def fused_gromov_wasserstein(
    feature_cost: Tensor,
    source_structure: Tensor,
    target_structure: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    alpha: float = 0.5,
    step: float = 1.0,
    iterations: int = 500,
    tolerance: float | None = 1e-7,
    constant_terms: bool = True,
    marginals: Marginals = "actual",
    gradient: Gradient = "envelope",
    symmetric: bool | None = None,
) -> Solution:
    """Compare one pair of attributed graphs, or a batch of pairs.

    The default step suits costs between 0 and about 1; scale it with the costs. A larger step with more iterations
    comes closer to the prescribed masses, see `Solution.row_error`.

    Args:
        feature_cost: n×m or B×n×m costs between the nodes of the two graphs (M).
        source_structure: n×n or B×n×n costs among the nodes of the first graph (C1).
        target_structure: m×m or B×m×m costs among the nodes of the second (C2).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu).
        alpha: weight of the feature term.
        step, iterations, tolerance, constant_terms, marginals, gradient, symmetric: see `solve`.

    Returns:
        The solution, without the batch dimension for a single pair.

    Raises:
        TransportError: the problem is malformed.
        SettingError: an option is out of range.

    >>> path = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 2
    >>> colours = 1 - torch.eye(3)
    >>> solution = fused_gromov_wasserstein(colours, path, path, alpha=0.5)
    >>> bool(solution.value < 1e-3), solution.plan.argmax(1).tolist()
    (True, [0, 1, 2])
    """
    problem = fused_problem(feature_cost, source_structure, target_structure, source_mass, target_mass, alpha)
    solution = solve(
        problem,
        step=step,
        iterations=iterations,
        tolerance=tolerance,
        constant_terms=constant_terms,
        marginals=marginals,
        gradient=gradient,
        symmetric=symmetric,
        check=False,
    )
    return solution.single() if feature_cost.dim() == 2 else solution


def wasserstein(
    cost: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    step: float = 1.0,
    iterations: int = 500,
    tolerance: float | None = 1e-7,
    gradient: Gradient = "envelope",
) -> Solution:
    """Move one set of nodes onto another at the least cost: the fused problem with alpha = 1.

    Args:
        cost: n×m or B×n×m costs (M).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu).
        step, iterations, tolerance, gradient: see `solve`.

    >>> solution = wasserstein(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> bool(solution.value < 1e-3), solution.plan.argmax(1).tolist()
    (True, [1, 0])
    """
    solution = solve(
        feature_problem(cost, source_mass, target_mass),
        step=step,
        iterations=iterations,
        tolerance=tolerance,
        gradient=gradient,
        check=False,
    )
    return solution.single() if cost.dim() == 2 else solution


def gromov_wasserstein(
    source_structure: Tensor,
    target_structure: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    step: float = 1.0,
    iterations: int = 500,
    tolerance: float | None = 1e-7,
    constant_terms: bool = True,
    marginals: Marginals = "actual",
    gradient: Gradient = "envelope",
    symmetric: bool | None = None,
) -> Solution:
    """Compare two structures that share no features: the fused problem with alpha = 0.

    Args:
        source_structure: n×n or B×n×n costs (C1).
        target_structure: m×m or B×m×m costs (C2).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu).
        step, iterations, tolerance, constant_terms, marginals, gradient, symmetric: see `solve`.

    >>> star = torch.ones(4, 4) - torch.eye(4)
    >>> star[1:, 1:] *= 2
    >>> solution = gromov_wasserstein(star, star.flip(0, 1))
    >>> solution.plan[0].argmax().item()
    3
    """
    solution = solve(
        structure_problem(source_structure, target_structure, source_mass, target_mass),
        step=step,
        iterations=iterations,
        tolerance=tolerance,
        constant_terms=constant_terms,
        marginals=marginals,
        gradient=gradient,
        symmetric=symmetric,
        check=False,
    )
    return solution.single() if source_structure.dim() == 2 else solution
