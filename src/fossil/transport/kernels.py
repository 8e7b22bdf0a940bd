"""The fused versions of BAPG: a problem's iterations, value and errors in one program, its gradients in another.

They compute what `fossil.transport.bapg` and `FusedProblem.objective` do, up to rounding, and nothing more: problems
they cannot treat stay with the batched version. There is one for GPUs, by Triton, and one for CPUs, by Numba; neither
needs to be installed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.errors import SettingError
from fossil.transport import cpu_kernels, gpu_kernels
from fossil.transport.caution import warn_the_caller
from fossil.transport.fused import Arithmetic, Order, Scored, Version
from fossil.transport.problem import FusedProblem, Marginals

_said: set[str] = set()  # what a process hears once


def fits(problem: FusedProblem, tolerance: float | None, symmetric: bool, *, held: bool = False) -> bool:
    """Tell whether a fused version can treat a problem. Never waits for the device.

    They take float32 problems of at most 64 nodes a side with a fixed number of iterations and no gradient through
    them; the one for GPUs only those with symmetric structures.

    Args:
        problem: B problems.
        tolerance: what `bapg` was asked for.
        symmetric: whether `C1 P C2ᵀ` is used as it is.
        held: the plan is held constant in any gradient, as `solve_fused` does, so that costs may require one.

    Warns:
        FossilWarning: problems on a GPU are too large, and nothing else is in the way. Said once in a process.
    """
    if tolerance is not None or (problem.costs_require_grad() and not held) or not _is_plain_float32(problem):
        return False
    nodes, device = max(problem.feature_cost.shape[1:]), problem.feature_cost.device
    if gpu_kernels.serves(device):
        if symmetric and nodes > gpu_kernels.LARGEST:
            _warn_of_size(problem)
        return symmetric and nodes <= gpu_kernels.LARGEST
    return nodes <= cpu_kernels.LARGEST and cpu_kernels.serves(device)


def bapg_plan(
    problem: FusedProblem,
    step: float,
    iterations: int,
    constant_terms: bool,
    precision: Arithmetic = "float32",
    symmetric: bool = True,
) -> Tensor:
    """Run BAPG in one launch and return the B×n×m plans (P), without a gradient; see `solve_fused`."""
    order = Order(step, iterations, constant_terms, symmetric, True, precision)
    return _version(problem.feature_cost).solve(problem, order)[0]


def solve_fused(
    problem: FusedProblem,
    step: float,
    iterations: int,
    constant_terms: bool,
    marginals: Marginals,
    precision: Arithmetic = "float32",
    symmetric: bool = True,
) -> Scored:
    """Run BAPG and score its plans, in one launch; a backward pass is another one. Never waits for the device.

    Args:
        problem: B problems that `fits` accepts with `held=True`.
        step: beta.
        iterations: T, all of which are made.
        constant_terms: keep the squared costs in the solver's gradient.
        marginals: weights of the squared costs in the value, see `FusedProblem.objective`.
        precision: of the products on a GPU. `float32` adds three TF32 products on the tensor cores, which keeps about
            as many digits as `ieee`, float32 without them, and takes half the time. `tf32` is one of the three: plans
            are wrong by up to 2e-2 at steps of 0.1 and less, though their columns are exact. Values and gradients,
            for the plan found, never use it.
        symmetric: use `C1 P C2ᵀ` as it is; False, on the CPU alone, averages it with `C1ᵀ P C2`.

    Returns:
        B×n×m plans (P); B values, differentiable in the three costs with the plan held where one requires it; B row
        errors and B column errors, sums of absolute differences between the marginals of the plan and the masses.

    Raises:
        SettingError: `marginals` or `precision` is unknown.
    """
    if marginals not in ("prescribed", "actual"):
        raise SettingError(f"marginals={marginals!r} is not accepted.", remedy="Use 'prescribed' or 'actual'.")
    if precision not in ("float32", "ieee", "tf32"):
        raise SettingError(f"precision={precision!r} is not accepted.", remedy="Use 'float32', 'ieee' or 'tf32'.")
    order = Order(step, iterations, constant_terms, symmetric, marginals == "actual", precision)
    if not problem.costs_require_grad():
        return _version(problem.feature_cost).solve(problem, order)
    found: Scored = FusedEnvelope.apply(*problem.tensors().values(), problem.alpha, order)  # type: ignore[no-untyped-call]
    return found


class FusedEnvelope(torch.autograd.Function):
    """`solve_fused` with a gradient of the value in the three costs, the plan held constant.

    It takes the five tensors of a problem, alpha and an order. Plans, errors and masses have no gradient. A structure
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
        order: Order,
    ) -> Scored:
        """Solve the problems and keep what their gradients need."""
        problem = FusedProblem(feature_cost, source_structure, target_structure, source_mass, target_mass, alpha)
        plan, value, row_error, column_error = _version(feature_cost).solve(problem, order)
        ctx.save_for_backward(plan, source_structure, target_structure, source_mass, target_mass)
        ctx.alpha, ctx.order = alpha, order
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
        version = _version(value_gradient)
        found = version.differentiate(value_gradient, ctx.saved_tensors, needed, ctx.alpha, ctx.order)
        return *found, *(None,) * (len(ctx.needs_input_grad) - 3)


def _version(tensor: Tensor) -> Version:
    return gpu_kernels if gpu_kernels.serves(tensor.device) else cpu_kernels


def _is_plain_float32(problem: FusedProblem) -> bool:
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


def _warn_of_size(problem: FusedProblem) -> None:
    if "size" in _said:
        return
    _said.add("size")
    _, n, m = problem.feature_cost.shape
    warn_the_caller(
        f"Problems of {n} and {m} nodes are solved by the batched version, because the GPU kernel holds at most "
        f"{gpu_kernels.LARGEST} on a side. Sample smaller subgraphs to have it, or expect several times the time."
    )
