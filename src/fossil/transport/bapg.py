"""Bregman alternating projected gradient (BAPG) for fused Gromov-Wasserstein: Algorithm 1 of the paper.

Each iteration multiplies the plan by `exp(-gradient / step)` and rescales its rows, then does it again and rescales its
columns. There is no inner loop; in exchange the rows are only approximately right at the end, the more so the
smaller the step. The published algorithm rescales columns by mu; they must have the target masses nu.

The plan is kept as a logarithm. A half-step is unchanged by a constant added to a row (or column), so the largest
entry is moved to zero before the exponential: nothing overflows, and a sum is never less than one.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import threshold

from fossil.errors import FossilWarning, SettingError
from fossil.transport import kernels
from fossil.transport.problem import FusedProblem

SMALLEST_STEADY_STEP = 0.01
"""Below this step the iteration often cycles, and float32 and float64 part company."""

_FLOOR = -60.0  # entries below exp(-60) of the largest become zero: subnormal numbers are slow, and these do not count
_LOG_ZERO = -1e30  # finite stand-in for log 0: below any logarithm the iteration reaches, and differences stay finite
_BITS = math.log2(math.e)
_ALIGNED = 4  # products of matrices whose sides are no multiple of four take up to a third longer
_CHUNK_BYTES = 2**20  # one matrix of a chunk on the CPU; about eight of them are in use at a time and share the cache


class Outcome(NamedTuple):
    """Where BAPG ended.

    Attributes:
        plan: B×n×m plans (P).
        iterations: B numbers of iterations made.
        converged: B answers to whether the tolerance was met.
    """

    plan: Tensor
    iterations: Tensor
    converged: Tensor


def bapg(
    problem: FusedProblem,
    *,
    step: float,
    iterations: int = 20,
    tolerance: float | None = None,
    constant_terms: bool = True,
    symmetric: bool | None = None,
) -> Outcome:
    """Run BAPG from the product of the masses; differentiable in the costs, by unrolling, where they require it.

    Args:
        problem: B problems; masses are constants, and nodes of zero mass get exactly zero.
        step: beta; small steps sharpen the plan and break the row marginals.
        iterations: T, the most iterations made.
        tolerance: a problem is left alone once an iteration moves its plan by no more than this (Frobenius norm). None
            makes every iteration and never waits for the device.
        constant_terms: keep the squared costs in the gradient, as the paper writes it. False drops them, as the
            released code and POT's `marginal_loss=False` do, which gives other plans.
        symmetric: True uses `C1 P C2ᵀ` as it is, exact for symmetric structures; False averages it with
            `C1ᵀ P C2`, the gradient for directed ones; None looks at the structures, which waits for the device.

    Raises:
        SettingError: step, iterations or tolerance is out of range.

    Warns:
        FossilWarning: the step is below 0.01.
    """
    _check_settings(step, iterations, tolerance)
    if step < SMALLEST_STEADY_STEP:
        _warn_of_small_step(step)
    if symmetric is None:
        symmetric = problem.alpha == 1 or (
            _is_symmetric(problem.source_structure) and _is_symmetric(problem.target_structure)
        )
    if kernels.fits(problem, tolerance, symmetric):
        plan = kernels.bapg_plan(problem, step, iterations, constant_terms)
        made = torch.full((problem.batch,), iterations, dtype=torch.int64, device=plan.device)
        return Outcome(plan, made, torch.zeros_like(made, dtype=torch.bool))

    def run(part: FusedProblem) -> Outcome:
        return _iterate(part, _Fixed.of(part, step, constant_terms, symmetric), iterations, tolerance)

    if problem.feature_cost.device.type != "cpu" or problem.costs_require_grad():
        return run(problem)
    return _in_parts(run, problem)


@dataclass(frozen=True)
class _Fixed:
    """What stays the same over the iterations, divided by the step once and for all.

    The gradient is `alpha M + 2 (1 - alpha) (C1² P1 1ᵀ + 1 (C2² Pᵀ1)ᵀ - 2 C1 P C2ᵀ)`. In a row step the first squared
    term is constant along each row, so it cancels, and the columns are exact, so `Pᵀ1 = nu`; in a column step it is the
    other way round. Each half-step therefore needs one squared term, known in advance.

    Attributes:
        row_drift: B×n×m, minus the part of the gradient that does not depend on the plan, in a row step.
        column_drift: the same in a column step.
        products: pairs (C1, C2ᵀ) with the factor of `C1 P C2ᵀ` in the first.
    """

    row_drift: Tensor
    column_drift: Tensor
    products: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, problem: FusedProblem, step: float, constant_terms: bool, symmetric: bool) -> _Fixed:
        feature = problem.feature_cost * (-problem.alpha / step)
        if problem.alpha == 1:
            return cls(feature, feature, ())
        weight = (1 - problem.alpha) / step
        source, target = problem.source_structure, problem.target_structure
        if symmetric:
            products: tuple[tuple[Tensor, Tensor], ...] = ((source * (4 * weight), target.mT),)
        else:
            half = source * (2 * weight)
            products = ((half, target.mT), (half.mT, target))
        if not constant_terms:
            return cls(feature, feature, products)
        along_rows = _mean_square(target, problem.target_mass.detach(), symmetric).mT
        along_columns = _mean_square(source, problem.source_mass.detach(), symmetric)
        return cls(feature - 2 * weight * along_rows, feature - 2 * weight * along_columns, products)

    def descend(self, log_plan: Tensor, plan: Tensor, drift: Tensor) -> Tensor:
        """Return the logarithm of `plan * exp(-gradient / step)`."""
        moved = log_plan + drift
        for left, right in self.products:
            moved.baddbmm_(torch.bmm(left, plan), right)
        return moved


def _iterate(problem: FusedProblem, fixed: _Fixed, iterations: int, tolerance: float | None) -> Outcome:
    row_mass = problem.source_mass.detach().unsqueeze(2)
    column_mass = problem.target_mass.detach().unsqueeze(1)
    log_row_mass, log_column_mass = _log_mass(row_mass), _log_mass(column_mass)
    plan, log_plan = row_mass * column_mass, log_row_mass + log_column_mass
    made = torch.zeros(problem.batch, dtype=torch.int64, device=plan.device)
    moving = torch.ones(problem.batch, dtype=torch.bool, device=plan.device)
    for _ in range(iterations):
        moved = fixed.descend(log_plan, plan, fixed.row_drift)
        next_log_plan, next_plan = _rescale(moved, row_mass, log_row_mass, dim=2)
        moved = fixed.descend(next_log_plan, next_plan, fixed.column_drift)
        next_log_plan, next_plan = _rescale(moved, column_mass, log_column_mass, dim=1)
        if tolerance is None:
            log_plan, plan = next_log_plan, next_plan
            continue
        made += moving
        change = torch.linalg.vector_norm((next_plan - plan).detach(), dim=(1, 2))
        log_plan = torch.where(moving[:, None, None], next_log_plan, log_plan)
        plan = torch.where(moving[:, None, None], next_plan, plan)
        moving = moving & (change > tolerance)
        if not moving.any():
            break
    if tolerance is None:
        return Outcome(plan, made + iterations, ~moving)
    return Outcome(plan, made, ~moving)


def _rescale(log_plan: Tensor, mass: Tensor, log_mass: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Give each row (dim 2) or column (dim 1) its mass; return the logarithm of the plan and the plan."""
    # The shift changes nothing, so it needs no gradient.
    shifted = log_plan - _largest(log_plan.detach(), dim)
    # Powers of two cost a third of powers of e on many processors.
    weights = threshold(shifted, _FLOOR, -math.inf).mul_(_BITS).exp2_()
    total = weights.sum(dim, keepdim=True)
    shift, scale = log_mass - total.log(), mass / total
    if weights.requires_grad:
        return shifted + shift, weights * scale
    return shifted.add_(shift), weights.mul_(scale)


def _largest(values: Tensor, dim: int) -> Tensor:
    """Return `values.amax(dim, keepdim=True)`, on the CPU several times sooner."""
    # torch compares the entries of short rows one by one, but two halves with vector instructions.
    while values.device.type == "cpu" and 8 < (size := values.shape[dim]) < 64:
        half = (size + 1) // 2
        values = torch.maximum(values.narrow(dim, 0, half), values.narrow(dim, size - half, half))
    return values.amax(dim, keepdim=True)


def _log_mass(mass: Tensor) -> Tensor:
    return mass.log().clamp_min(_LOG_ZERO)


def _mean_square(structure: Tensor, mass: Tensor, symmetric: bool) -> Tensor:
    """Return the B×k×1 means of the squared costs of each node, over both directions unless symmetric."""
    square = structure.square()
    means = torch.bmm(square, mass.unsqueeze(2))
    return means if symmetric else (means + torch.bmm(square.mT, mass.unsqueeze(2))) / 2


def _is_symmetric(structure: Tensor) -> bool:
    return torch.allclose(structure, structure.mT, rtol=1e-5, atol=1e-10)


def _in_parts(run: Callable[[FusedProblem], Outcome], problem: FusedProblem) -> Outcome:
    """Solve as many problems at a time as the cache holds, each with a number of nodes that suits the processor."""
    _, n, m = problem.feature_cost.shape
    problem = problem.padded(-n % _ALIGNED, -m % _ALIGNED)
    size = max(1, _CHUNK_BYTES // problem.feature_cost[:1].nbytes) if problem.batch else 1
    parts = [run(problem.part(start, start + size)) for start in range(0, max(problem.batch, 1), size)]
    whole = Outcome(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
    return whole._replace(plan=whole.plan[:, :n, :m].contiguous())


def _check_settings(step: float, iterations: int, tolerance: float | None) -> None:
    if not (step > 0 and math.isfinite(step)):
        raise SettingError(f"step={step!r} is not accepted.", remedy="Give a positive number, such as 0.1.")
    if not (isinstance(iterations, int) and iterations >= 1):
        raise SettingError(f"iterations={iterations!r} is not accepted.", remedy="Give a whole number from 1 up.")
    if tolerance is not None and not tolerance >= 0:
        raise SettingError(f"tolerance={tolerance!r} is not accepted.", remedy="Give a number from 0 up, or None.")


def _warn_of_small_step(step: float) -> None:
    """Warn at the line outside this package that led here, so that each such line warns once."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("fossil."):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"step={step:g} is below {SMALLEST_STEADY_STEP}: the iteration may cycle, and the value then depends "
        "on the exact number of iterations and on rounding.",
        FossilWarning,
        stacklevel=level,
    )
