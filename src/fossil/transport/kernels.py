"""The fused GPU version of BAPG: a problem's iterations, value and errors in one program, its gradients in another.

It computes what `fossil.transport.bapg` and `FusedProblem.objective` do, up to rounding, and nothing more: problems it
cannot treat stay with the batched version. Triton is imported at the first problem that could use it, and need not be
installed.
"""

from __future__ import annotations

import importlib
import math
import os
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.errors import SettingError
from fossil.transport.launches import (
    GRADIENT_LAUNCHES,
    SOLVER_LAUNCHES,
    TILES,
    Precision,
    scoring_precision,
    tile_side,
)
from fossil.transport.problem import FusedProblem, Marginals

Scored: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]

_OLDEST_CAPABILITY = (8, 0)  # what Triton supports


def fits(problem: FusedProblem, tolerance: float | None, symmetric: bool, *, held: bool = False) -> bool:
    """Tell whether the kernels can treat a problem. Never waits for the device.

    They take float32 problems of at most 64 nodes a side on a GPU, with symmetric structures, a fixed number of
    iterations and no gradient through them. Tensors on the CPU are taken where Triton was imported with
    `TRITON_INTERPRET=1` in the environment, which is slow and meant for tests.

    Args:
        problem: B problems.
        tolerance: what `bapg` was asked for.
        symmetric: whether `C1 P C2ᵀ` is used as it is.
        held: the plan is held constant in any gradient, as `solve_fused` does, so that costs may require one.
    """
    if tolerance is not None or not symmetric or (problem.costs_require_grad() and not held):
        return False
    return _is_small_float32(problem) and _device_is_served(problem.feature_cost.device)


def bapg_plan(
    problem: FusedProblem, step: float, iterations: int, constant_terms: bool, precision: Precision = "ieee"
) -> Tensor:
    """Run BAPG in one launch and return the B×n×m plans (P), without a gradient; see `solve_fused`."""
    return _solve(problem, step, iterations, constant_terms, "actual", precision)[0]


def solve_fused(
    problem: FusedProblem,
    step: float,
    iterations: int,
    constant_terms: bool,
    marginals: Marginals,
    precision: Precision = "ieee",
) -> Scored:
    """Run BAPG and score its plans, in one launch; a backward pass is another one. Never waits for the device.

    Each number of iterations is compiled once, at its first use.

    Args:
        problem: B problems that `fits` accepts with `held=True`.
        step: beta.
        iterations: T, all of which are made.
        constant_terms: keep the squared costs in the solver's gradient.
        marginals: weights of the squared costs in the value, see `FusedProblem.objective`.
        precision: of the products in the iterations. `ieee` is full float32. `tf32x3` adds three TF32 products on the
            tensor cores, which keeps about as many digits. `tf32` is one of them: plans are wrong by up to 2e-2 at
            steps of 0.1 and less, though their columns are exact. Values and gradients, for the plan found, never
            use it.

    Returns:
        B×n×m plans (P); B values, differentiable in the three costs with the plan held where one requires it; B row
        errors and B column errors, sums of absolute differences between the marginals of the plan and the masses.

    Raises:
        SettingError: `marginals` or `precision` is unknown.
    """
    if marginals not in ("prescribed", "actual"):
        raise SettingError(f"marginals={marginals!r} is not accepted.", remedy="Use 'prescribed' or 'actual'.")
    if precision not in ("ieee", "tf32x3", "tf32"):
        raise SettingError(f"precision={precision!r} is not accepted.", remedy="Use 'ieee', 'tf32x3' or 'tf32'.")
    if not problem.costs_require_grad():
        return _solve(problem, step, iterations, constant_terms, marginals, precision)
    found: Scored = FusedEnvelope.apply(  # type: ignore[no-untyped-call]
        *problem.tensors().values(), problem.alpha, step, iterations, constant_terms, marginals, precision
    )
    return found


class FusedEnvelope(torch.autograd.Function):
    """`solve_fused` with a gradient of the value in the three costs, the plan held constant.

    It takes the five tensors of a problem, alpha, and the other arguments of `solve_fused` in their order, and returns
    the same. Plans, errors and masses have no gradient. A structure without weight (alpha = 1) gets none either.
    The gradient cannot be differentiated again.
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
        *settings: Any,
    ) -> Scored:
        """Solve the problems and keep what their gradients need."""
        problem = FusedProblem(feature_cost, source_structure, target_structure, source_mass, target_mass, alpha)
        plan, value, row_error, column_error = _solve(problem, *settings)
        ctx.save_for_backward(plan, source_structure, target_structure, source_mass, target_mass)
        ctx.alpha, ctx.actual, ctx.precision = alpha, settings[-2] == "actual", scoring_precision(settings[-1])
        ctx.mark_non_differentiable(plan, row_error, column_error)
        ctx.set_materialize_grads(False)
        return plan, value, row_error, column_error

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients in the three costs, those that are needed."""
        value_gradient = gradients[1]
        needed = [
            bool(wanted and (ctx.alpha != 1 or place == 0)) for place, wanted in enumerate(ctx.needs_input_grad[:3])
        ]
        if value_gradient is None or not any(needed):
            return (None,) * len(ctx.needs_input_grad)
        found = _differentiate(value_gradient, ctx.saved_tensors, needed, ctx.alpha, ctx.actual, ctx.precision)
        return *found, *(None,) * (len(ctx.needs_input_grad) - 3)


def _solve(
    problem: FusedProblem,
    step: float,
    iterations: int,
    constant_terms: bool,
    marginals: Marginals,
    precision: Precision,
) -> Scored:
    """Launch the solver."""
    # Structures of no weight are not read: they are often one number, expanded, and a copy would be large.
    structured = problem.alpha != 1
    feature_cost = problem.feature_cost.detach().contiguous()
    source = problem.source_structure.detach().contiguous() if structured else feature_cost
    target = problem.target_structure.detach().contiguous() if structured else feature_cost
    batch, n, m = feature_cost.shape
    plan = torch.empty_like(feature_cost)
    value, errors = feature_cost.new_empty(batch), feature_cost.new_empty((2, batch))
    tile = tile_side(n, m)
    kernel = _module("_bapg_kernel").bapg_kernel
    with torch.cuda.device_of(plan):  # type: ignore[no-untyped-call]
        kernel[(batch,)](
            plan,
            value,
            errors,
            feature_cost,
            source,
            target,
            problem.source_mass.detach().contiguous(),
            problem.target_mass.detach().contiguous(),
            batch,
            n,
            m,
            float(problem.alpha),
            math.log2(math.e) / step,  # the kernel's logarithms are to base 2
            ITERATIONS=iterations,
            STRUCTURED=structured,
            CONSTANT_TERMS=constant_terms,
            ACTUAL=marginals == "actual",
            PRECISION=precision,
            SCORE_PRECISION=scoring_precision(precision),
            TILE=tile,
            **SOLVER_LAUNCHES[tile, precision].options(),
        )
    return plan, value, errors[0], errors[1]


def _differentiate(
    value_gradient: Tensor,
    saved: tuple[Tensor, ...],
    needed: list[bool],
    alpha: float,
    actual: bool,
    precision: Precision,
) -> list[Tensor | None]:
    """Launch the gradient kernel for those of the three costs that are needed."""
    plan = saved[0]
    structured = needed[1] or needed[2]
    source, target, *masses = (tensor.contiguous() if structured else plan for tensor in saved[1:])
    batch, n, m = plan.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m))
    found = [plan.new_empty(shape) if wanted else None for shape, wanted in zip(shapes, needed, strict=True)]
    tile = tile_side(n, m)
    kernel = _module("_envelope_kernel").envelope_kernel
    with torch.cuda.device_of(plan):  # type: ignore[no-untyped-call]
        kernel[(batch,)](
            *(plan if gradient is None else gradient for gradient in found),
            value_gradient,
            plan,
            source,
            target,
            *masses,
            value_gradient.stride(0),  # zero after a sum: a copy would be another launch
            n,
            m,
            float(alpha),
            FEATURE=needed[0],
            SOURCE=needed[1],
            TARGET=needed[2],
            ACTUAL=actual,
            PRECISION=precision,
            TILE=tile,
            **GRADIENT_LAUNCHES[tile, precision].options(),
        )
    return found


def _is_small_float32(problem: FusedProblem) -> bool:
    """Check all that the kernel's addresses rely on, for problems that nobody checked."""
    cost = problem.feature_cost
    if cost.dim() != 3 or 0 in cost.shape or max(cost.shape[1:]) > TILES[-1]:
        return False
    batch, n, m = cost.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m), (batch, n), (batch, m))
    return all(
        tensor.shape == shape and tensor.dtype == torch.float32 and tensor.device == cost.device
        for tensor, shape in zip(problem.tensors().values(), shapes, strict=True)
    )


def _device_is_served(device: torch.device) -> bool:
    if device.type == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":
            return False
        return _has_triton() and bool(_module("_tiles").INTERPRETED)
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return _capability(device) >= _OLDEST_CAPABILITY and _has_triton()


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _has_triton() -> bool:
    try:
        _module("_tiles")
    except ImportError:
        return False
    return True


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"fossil.transport.{name}")
