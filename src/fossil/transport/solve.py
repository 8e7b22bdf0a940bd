"""Solve batches of transport problems, with a choice of gradient."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from fossil.errors import SettingError, TransportError
from fossil.transport.bapg import bapg
from fossil.transport.envelope import envelope_value
from fossil.transport.precision import full_float32
from fossil.transport.problem import FusedProblem, Marginals
from fossil.transport.solution import Solution

Gradient: TypeAlias = Literal["envelope", "unrolled", "none"]


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
    if gradient not in ("envelope", "unrolled", "none"):
        raise SettingError(f"gradient={gradient!r} is not accepted.", remedy="Use 'envelope', 'unrolled' or 'none'.")
    if check:
        problem.check()
    with full_float32(), torch.set_grad_enabled(torch.is_grad_enabled() and gradient == "unrolled"):
        plan, made, converged = bapg(
            problem,
            step=step,
            iterations=iterations,
            tolerance=tolerance,
            constant_terms=constant_terms,
            symmetric=symmetric,
        )
    source_mass, target_mass = problem.source_mass.detach(), problem.target_mass.detach()
    with full_float32(), torch.set_grad_enabled(torch.is_grad_enabled() and gradient != "none"):
        if gradient == "unrolled":
            value = _with_masses(problem, source_mass, target_mass).objective(plan, marginals)
        else:
            value = envelope_value(problem, plan, marginals)
    row_error = (plan.detach().sum(2) - source_mass).abs().sum(1)
    column_error = (plan.detach().sum(1) - target_mass).abs().sum(1)
    return Solution(value, plan, made, row_error, column_error, converged)


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
    _require_matrices(feature_cost=feature_cost, source_structure=source_structure, target_structure=target_structure)
    single = feature_cost.dim() == 2
    if single:
        feature_cost, source_structure, target_structure = (
            cost.unsqueeze(0) for cost in (feature_cost, source_structure, target_structure)
        )
        source_mass, target_mass = (
            mass.unsqueeze(0) if isinstance(mass, Tensor) else mass for mass in (source_mass, target_mass)
        )
    uniform = FusedProblem.uniform(feature_cost, source_structure, target_structure, alpha)
    solution = solve(
        _with_masses(uniform, source_mass, target_mass),
        step=step,
        iterations=iterations,
        tolerance=tolerance,
        constant_terms=constant_terms,
        marginals=marginals,
        gradient=gradient,
        symmetric=symmetric,
    )
    return solution.single() if single else solution


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
    _require_matrices(cost=cost)
    n, m = cost.shape[-2:]
    nothing = cost.new_zeros(())
    return fused_gromov_wasserstein(
        cost,
        nothing.expand(*cost.shape[:-2], n, n),
        nothing.expand(*cost.shape[:-2], m, m),
        source_mass,
        target_mass,
        alpha=1.0,
        step=step,
        iterations=iterations,
        tolerance=tolerance,
        gradient=gradient,
    )


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
    _require_matrices(source_structure=source_structure, target_structure=target_structure)
    n, m = source_structure.shape[-1], target_structure.shape[-1]
    return fused_gromov_wasserstein(
        source_structure.new_zeros(()).expand(*source_structure.shape[:-2], n, m),
        source_structure,
        target_structure,
        source_mass,
        target_mass,
        alpha=0.0,
        step=step,
        iterations=iterations,
        tolerance=tolerance,
        constant_terms=constant_terms,
        marginals=marginals,
        gradient=gradient,
        symmetric=symmetric,
    )


def _with_masses(problem: FusedProblem, source_mass: Tensor | None, target_mass: Tensor | None) -> FusedProblem:
    tensors = problem.tensors()
    if source_mass is not None:
        tensors["source_mass"] = source_mass
    if target_mass is not None:
        tensors["target_mass"] = target_mass
    return FusedProblem(**tensors, alpha=problem.alpha)


def _require_matrices(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TransportError(f"{name} is a {type(tensor).__name__}.", remedy="Give a torch tensor.")
        if tensor.dim() not in (2, 3):
            raise TransportError(
                f"{name} has shape {tuple(tensor.shape)}.", remedy="Give one matrix, or a batch of matrices."
            )
