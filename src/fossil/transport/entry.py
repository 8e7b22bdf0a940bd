"""What every solver does around its iteration: read the tensors, record the gradient asked for, report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from fossil.errors import SettingError, TransportError
from fossil.transport.iteration import Outcome
from fossil.transport.precision import full_float32
from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution

Gradient: TypeAlias = Literal["envelope", "unrolled", "none"]


def feature_problem(cost: Tensor, source_mass: Tensor | None, target_mass: Tensor | None) -> FusedProblem:
    """Build and check problems of features alone, from a matrix or a batch of matrices.

    Raises:
        TransportError: a tensor is malformed.
    """
    _require_matrices(cost=cost)
    source, target = (cost.new_zeros(()).expand(*cost.shape[:-2], size, size) for size in cost.shape[-2:])
    return fused_problem(cost, source, target, source_mass, target_mass, alpha=1.0)


def structure_problem(
    source_structure: Tensor, target_structure: Tensor, source_mass: Tensor | None, target_mass: Tensor | None
) -> FusedProblem:
    """Build and check problems of structures alone, from two matrices or two batches of matrices.

    Raises:
        TransportError: a tensor is malformed.
    """
    _require_matrices(source_structure=source_structure, target_structure=target_structure)
    shape = *source_structure.shape[:-1], target_structure.shape[-1]
    cost = source_structure.new_zeros(()).expand(shape)
    return fused_problem(cost, source_structure, target_structure, source_mass, target_mass, alpha=0.0)


def fused_problem(
    feature_cost: Tensor,
    source_structure: Tensor,
    target_structure: Tensor,
    source_mass: Tensor | None,
    target_mass: Tensor | None,
    alpha: float,
) -> FusedProblem:
    """Build and check fused problems, a batch of one for single matrices; masses not given are uniform.

    Raises:
        TransportError: a tensor is malformed.
    """
    _require_matrices(feature_cost=feature_cost, source_structure=source_structure, target_structure=target_structure)
    single = feature_cost.dim() == 2
    costs = [cost[None] if single else cost for cost in (feature_cost, source_structure, target_structure)]
    problem = FusedProblem.uniform(costs[0], costs[1], costs[2], alpha)
    if source_mass is not None:
        problem = replace(problem, source_mass=_batched(source_mass, single))
    if target_mass is not None:
        problem = replace(problem, target_mass=_batched(target_mass, single))
    return problem.check()


def solved(
    problem: FusedProblem,
    gradient: Gradient,
    solver: Callable[[FusedProblem], Outcome],
    evaluate: Callable[[FusedProblem, Tensor], Tensor],
) -> Solution:
    """Solve and evaluate with the gradient asked for; masses get none.

    Args:
        problem: B problems.
        gradient: `envelope` records the evaluation alone, `unrolled` the iterations too, `none` nothing.
        solver: finds the plans.
        evaluate: finds the B values of the plans.

    Raises:
        SettingError: `gradient` is none of the three.
    """
    check_gradient(gradient)
    source_mass, target_mass = problem.source_mass.detach(), problem.target_mass.detach()
    problem = replace(problem, source_mass=source_mass, target_mass=target_mass)
    recording = torch.is_grad_enabled()
    with full_float32():
        with torch.set_grad_enabled(recording and gradient == "unrolled"):
            outcome = solver(problem)
        with torch.set_grad_enabled(recording and gradient != "none"):
            value = evaluate(problem, outcome.plan)
    plan = outcome.plan.detach()
    row_error = (plan.sum(2) - source_mass).abs().sum(1)
    column_error = (plan.sum(1) - target_mass).abs().sum(1)
    return Solution(value, outcome.plan, outcome.iterations, row_error, column_error, outcome.converged)


def check_gradient(gradient: str) -> None:
    """Refuse anything but the three kinds of gradient.

    Raises:
        SettingError: names it.
    """
    if gradient not in ("envelope", "unrolled", "none"):
        raise SettingError(f"gradient={gradient!r} is not accepted.", remedy="Use 'envelope', 'unrolled' or 'none'.")


def _batched(mass: Tensor, single: bool) -> Tensor:
    # Anything but a tensor is left for the check of the problem to refuse by name.
    return mass[None] if single and isinstance(mass, Tensor) else mass


def _require_matrices(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TransportError(f"{name} is a {type(tensor).__name__}.", remedy="Give a torch tensor.")
        if tensor.dim() not in (2, 3):
            raise TransportError(
                f"{name} has shape {tuple(tensor.shape)}.", remedy="Give one matrix, or a batch of matrices."
            )
