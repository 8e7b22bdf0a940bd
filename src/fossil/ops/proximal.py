"""The inexact proximal point method (IPOT) for transport of features, as GSC uses it."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.iteration import Outcome, State, all_made, iterate
from fossil.ops.scaling import log_mass, log_support, rescale


def proximal_point(
    cost: Tensor, source_mass: Tensor, target_mass: Tensor, step: float, iterations: int, tolerance: float | None = None
) -> Outcome:
    """Move B×n masses onto B×m masses under B×n×m costs, without checks; differentiable, by unrolling.

    The multiplicative form is `Q = exp(-M / step) * P`, `d = mu / Q s`, `s = nu / Qᵀ d`, `P = diag(d) Q diag(s)`, from
    plans and scalings of ones. Scaling the rows of `Q diag(s)`, then the columns, is the same.

    On a GPU small float32 problems are one launch, unless they have a tolerance or a gradient through the iterations.
    """
    if tolerance is None and supports(cost, source_mass, target_mass):
        plan = triton("proximal").proximal_plan(cost, source_mass, target_mass, step, iterations)
        return all_made(plan, iterations)
    log_kernel = cost / -step
    row_mass, column_mass = source_mass.unsqueeze(2), target_mass.unsqueeze(1)
    log_row_mass, log_column_mass = log_mass(row_mass), log_mass(column_mass)

    def advance(state: State) -> State:
        _, log_plan, log_columns = state
        rows = rescale(log_plan + log_kernel + log_columns, row_mass, log_row_mass, dim=2)
        columns = rescale(rows.log_plan, column_mass, log_column_mass, dim=1)
        return columns.plan, columns.log_plan, log_columns + columns.log_factor

    start = row_mass * column_mass, log_support(row_mass) + log_support(column_mass), log_support(column_mass)
    return iterate(advance, start, iterations, tolerance)


def supports(cost: Tensor, source_mass: Tensor, target_mass: Tensor) -> bool:
    """Tell whether the kernel takes these tensors, which nobody may have checked. Never waits for the device."""
    tensors = cost, source_mass, target_mass
    if cost.dim() != 3 or 0 in cost.shape or not triton_runs_on(cost.device):
        return False
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    batch, n, m = cost.shape
    return max(n, m) <= triton("tiles").LARGEST and all(
        tensor.shape == shape and tensor.dtype == torch.float32 and tensor.device == cost.device
        for tensor, shape in zip(tensors, ((batch, n, m), (batch, n), (batch, m)), strict=True)
    )
