"""Bregman alternating projected gradient (BAPG) for fused Gromov-Wasserstein: Algorithm 1 of the paper.

Each iteration multiplies the plan by `exp(-gradient / step)` and rescales its rows, then does it again and rescales its
columns. There is no inner loop; in exchange the rows are only approximately right at the end, the more so the
smaller the step. The published algorithm rescales columns by mu; they must have the target masses nu. The plan is kept
as a logarithm (`scaling.rescale`), so that nothing overflows.

`bapg_iterations` is the algorithm; `bapg` runs a fixed number of iterations and scores the plan, with a gradient that
holds the plan. The fast versions, by Triton and by Numba, do that in one launch, and the gradient in another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.errors import warn_the_caller
from fossil.ops.autograd import Function
from fossil.ops.dispatch import numba, numba_runs_on, triton, triton_runs_on
from fossil.ops.iteration import Outcome, State, iterate
from fossil.ops.objective import Marginals, ProblemTensors, envelope_value
from fossil.ops.precision import full_float32
from fossil.ops.scaling import log_mass, rescale

Arithmetic: TypeAlias = Literal["float32", "ieee", "tf32"]

_ALIGNED = 4  # products of matrices whose sides are no multiple of four take up to a third longer
_CHUNK_BYTES = 2**20  # one matrix of a chunk on the CPU; about eight of them are in use at a time and share the cache
_LARGEST_ON_CPU = 128  # nodes on a side that the first caches hold
# Multiplications from which compiling pays: fewer take PyTorch some milliseconds, and a first call of the compiler 20
# s.
_LEAST_WORK = 2**22
_said: set[str] = set()  # what a process hears once


@dataclass(frozen=True)
class BapgRule:
    """How to iterate, and how to score.

    Attributes:
        step: beta; small steps sharpen the plan and break the row marginals.
        iterations: T, the most iterations made.
        constant_terms: keep the squared costs in the solver's gradient, as the paper writes it. False drops them, as
            the released code and POT's `marginal_loss=False` do, which gives other plans.
        symmetric: use `C1 P C2ᵀ` as it is, exact for symmetric structures; otherwise average it with `C1ᵀ P C2`, the
            gradient for directed ones.
        marginals: weights of the squared costs in the value, see `FusedProblem.objective`.
        arithmetic: of the products on a GPU. `float32` adds three TF32 products on the tensor cores, which keeps about
            as many digits as `ieee`, float32 without them, and takes half the time. `tf32` is one of the three: plans
            are wrong by up to 2e-2 at steps of 0.1 and less, though their columns are exact. Values and gradients,
            for the plan found, never use it.
    """

    step: float
    iterations: int
    constant_terms: bool = True
    symmetric: bool = True
    marginals: Marginals = "actual"
    arithmetic: Arithmetic = "float32"


class Scored(NamedTuple):
    """Plans and what they are worth.

    Attributes:
        plan: B×n×m (P).
        value: B values.
        row_error: B sums of absolute differences between the plan's row sums and the source masses.
        column_error: the same for the column sums and the target masses.
    """

    plan: Tensor
    value: Tensor
    row_error: Tensor
    column_error: Tensor


def bapg(problem: ProblemTensors, rule: BapgRule) -> Scored:
    """Run all iterations and score the plans. Never waits for the device.

    The values are differentiable in the three costs with the plan held, where one requires it; nothing else is.
    """
    if supports(problem, rule):
        if not problem.costs_require_grad():
            return Scored(*_version(problem.feature_cost).solve(problem, rule))
        return Scored(*_LaunchedBapg.apply(*problem.tensors().values(), problem.alpha, rule))
    problem = problem.with_constant_masses()
    recording = torch.is_grad_enabled()
    with full_float32():
        with torch.no_grad():
            plan = bapg_iterations(problem, rule).plan
        with torch.set_grad_enabled(recording):
            value = envelope_value(problem, plan, rule.marginals)
    return Scored(plan, value, *marginal_errors(problem, plan))


def bapg_iterations(problem: ProblemTensors, rule: BapgRule, tolerance: float | None = None) -> Outcome:
    """Iterate from the product of the masses; differentiable in the costs, by unrolling, where they require it.

    Args:
        problem: B problems; masses are constants, and nodes of zero mass get exactly zero.
        rule: how to iterate.
        tolerance: a problem is left alone once an iteration moves its plan by no more than this (Frobenius norm). None
            makes every iteration and never waits for the device.
    """

    def run(part: ProblemTensors) -> Outcome:
        return _iterate(part, _Fixed.of(part, rule), rule.iterations, tolerance)

    if problem.feature_cost.device.type != "cpu" or problem.costs_require_grad():
        return run(problem)
    return _in_parts(run, problem)


def marginal_errors(problem: ProblemTensors, plan: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row errors and the column errors of plans, B each; see `Scored`."""
    rows = (plan.sum(2) - problem.source_mass).abs().sum(1)
    return rows, (plan.sum(1) - problem.target_mass).abs().sum(1)


def supports(problem: ProblemTensors, rule: BapgRule) -> bool:
    """Tell whether a fast version takes problems, which nobody may have checked. Never waits for the device.

    They take float32 problems: on a GPU symmetric ones of at most 64 nodes a side, on a CPU those of at most 128,
    unless they are so few and small that compiling would take longer than they do. That does not depend on whether
    anything is compiled already: the same problem is always solved in the same way.

    Warns:
        FossilWarning: problems on a GPU are too large, and nothing else is in the way. Said once in a process.
    """
    cost = problem.feature_cost
    if not _is_plain_float32(problem):
        return False
    batch, n, m = cost.shape
    if triton_runs_on(cost.device):
        largest = triton("tiles").LARGEST
        if rule.symmetric and max(n, m) > largest:
            _warn_of_size(n, m, largest)
        return rule.symmetric and max(n, m) <= largest
    work = 4 * batch * n * m * max(n, m) * rule.iterations
    return max(n, m) <= _LARGEST_ON_CPU and work >= _LEAST_WORK and numba_runs_on(cost.device)


def _version(tensor: Tensor) -> Any:
    return triton("bapg") if triton_runs_on(tensor.device) else numba("bapg")


class _LaunchedBapg(Function):
    """A fast version, with a gradient of the value in the three costs, the plan held constant.

    It takes the five tensors of problems, alpha and a rule. Plans, errors and masses have no gradient. A structure
    without weight (alpha = 1) gets none either. The gradient cannot be differentiated again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        feature_cost: Tensor,
        source_structure: Tensor,
        target_structure: Tensor,
        source_mass: Tensor,
        target_mass: Tensor,
        alpha: float,
        rule: BapgRule,
    ) -> tuple[Tensor, ...]:
        problem = ProblemTensors(feature_cost, source_structure, target_structure, source_mass, target_mass, alpha)
        plan, value, row_error, column_error = _version(feature_cost).solve(problem, rule)
        ctx.save_for_backward(plan, source_structure, target_structure, source_mass, target_mass)
        ctx.alpha, ctx.rule = alpha, rule
        ctx.mark_non_differentiable(plan, row_error, column_error)
        ctx.set_materialize_grads(False)
        return plan, value, row_error, column_error

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        value_gradient = gradients[1]
        needed = [
            bool(wanted and (ctx.alpha != 1 or place == 0)) for place, wanted in enumerate(ctx.needs_input_grad[:3])
        ]
        if value_gradient is None or not any(needed):
            return (None,) * len(ctx.needs_input_grad)
        version = _version(value_gradient)
        found = version.differentiate(value_gradient, ctx.saved_tensors, needed, ctx.alpha, ctx.rule)
        return *found, *(None,) * (len(ctx.needs_input_grad) - 3)


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
    def of(cls, problem: ProblemTensors, rule: BapgRule) -> _Fixed:
        feature = problem.feature_cost * (-problem.alpha / rule.step)
        if problem.alpha == 1:
            return cls(feature, feature, ())
        weight = (1 - problem.alpha) / rule.step
        source, target = problem.source_structure, problem.target_structure
        if rule.symmetric:
            products: tuple[tuple[Tensor, Tensor], ...] = ((source * (4 * weight), target.mT),)
        else:
            half = source * (2 * weight)
            products = ((half, target.mT), (half.mT, target))
        if not rule.constant_terms:
            return cls(feature, feature, products)
        along_rows = _mean_square(target, problem.target_mass.detach(), rule.symmetric).mT
        along_columns = _mean_square(source, problem.source_mass.detach(), rule.symmetric)
        return cls(feature - 2 * weight * along_rows, feature - 2 * weight * along_columns, products)

    def descend(self, log_plan: Tensor, plan: Tensor, drift: Tensor) -> Tensor:
        """Return the logarithm of `plan * exp(-gradient / step)`."""
        moved = log_plan + drift
        for left, right in self.products:
            moved.baddbmm_(torch.bmm(left, plan), right)
        return moved


def _iterate(problem: ProblemTensors, fixed: _Fixed, iterations: int, tolerance: float | None) -> Outcome:
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


def _in_parts(run: Callable[[ProblemTensors], Outcome], problem: ProblemTensors) -> Outcome:
    """Solve as many problems at a time as the cache holds, each with a number of nodes that suits the processor."""
    _, n, m = problem.feature_cost.shape
    problem = problem.padded(-n % _ALIGNED, -m % _ALIGNED)
    size = max(1, _CHUNK_BYTES // problem.feature_cost[:1].nbytes) if problem.batch else 1
    parts = [run(problem.part(start, start + size)) for start in range(0, max(problem.batch, 1), size)]
    whole = Outcome(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
    return whole._replace(plan=whole.plan[:, :n, :m].contiguous())


def _is_plain_float32(problem: ProblemTensors) -> bool:
    """Check all that the kernels' addresses rely on, for problems that nobody checked."""
    cost = problem.feature_cost
    if cost.dim() != 3 or 0 in cost.shape:
        return False
    batch, n, m = cost.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m), (batch, n), (batch, m))
    return all(
        tensor.shape == shape and tensor.dtype == torch.float32 and tensor.device == cost.device
        for tensor, shape in zip(problem.tensors().values(), shapes, strict=True)
    )


def _warn_of_size(n: int, m: int, largest: int) -> None:
    if "size" not in _said:
        _said.add("size")
        warn_the_caller(
            f"Problems of {n} and {m} nodes are solved by the batched version, because the GPU kernel holds at most "
            f"{largest} on a side. Sample smaller subgraphs to have it, or expect several times the time."
        )
