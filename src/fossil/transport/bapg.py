"""Bregman alternating projected gradient (BAPG) for fused Gromov-Wasserstein: Algorithm 1 of the paper.

Each iteration multiplies the plan by `exp(-gradient / step)` and rescales its rows, then does it again and rescales its
columns. There is no inner loop; in exchange the rows are only approximately right at the end, the more so the
smaller the step. The published algorithm rescales columns by mu; they must have the target masses nu.

The plan is kept as a logarithm (`scaling.rescale`), so that nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.transport import kernels
from fossil.transport.iteration import Outcome, State, check_settings, iterate
from fossil.transport.problem import FusedProblem
from fossil.transport.scaling import log_mass, rescale

_ALIGNED = 4  # products of matrices whose sides are no multiple of four take up to a third longer
_CHUNK_BYTES = 2**20  # one matrix of a chunk on the CPU; about eight of them are in use at a time and share the cache


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
    check_settings(step, iterations, tolerance)
    if symmetric is None:
        symmetric = problem.is_symmetric()
    if kernels.fits(problem, tolerance, symmetric):
        plan = kernels.bapg_plan(problem, step, iterations, constant_terms, symmetric=symmetric)
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
    log_row_mass, log_column_mass = log_mass(row_mass), log_mass(column_mass)

    def advance(state: State) -> State:
        plan, log_plan = state
        rows = rescale(fixed.descend(log_plan, plan, fixed.row_drift), row_mass, log_row_mass, dim=2)
        moved = fixed.descend(rows.log_plan, rows.plan, fixed.column_drift)
        columns = rescale(moved, column_mass, log_column_mass, dim=1)
        return columns.plan, columns.log_plan

    return iterate(advance, (row_mass * column_mass, log_row_mass + log_column_mass), iterations, tolerance)


def _mean_square(structure: Tensor, mass: Tensor, symmetric: bool) -> Tensor:
    """Return the B×k×1 means of the squared costs of each node, over both directions unless symmetric."""
    square = structure.square()
    means = torch.bmm(square, mass.unsqueeze(2))
    return means if symmetric else (means + torch.bmm(square.mT, mass.unsqueeze(2))) / 2


def _in_parts(run: Callable[[FusedProblem], Outcome], problem: FusedProblem) -> Outcome:
    """Solve as many problems at a time as the cache holds, each with a number of nodes that suits the processor."""
    _, n, m = problem.feature_cost.shape
    problem = problem.padded(-n % _ALIGNED, -m % _ALIGNED)
    size = max(1, _CHUNK_BYTES // problem.feature_cost[:1].nbytes) if problem.batch else 1
    parts = [run(problem.part(start, start + size)) for start in range(0, max(problem.batch, 1), size)]
    whole = Outcome(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
    return whole._replace(plan=whole.plan[:, :n, :m].contiguous())
