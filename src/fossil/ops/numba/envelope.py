"""Gradients of the objective in its costs with the plan held, one problem at a time on the CPU. Needs Numba."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from fossil.ops.bapg import BapgRule
from fossil.ops.numba.compiling import Array, entry, inner
from fossil.ops.numba.dense import copy, multiply, padded, sum_rows_and_columns
from fossil.ops.numba.threads import plain, run_in_threads


def differentiate(
    value_gradient: Tensor, saved: tuple[Tensor, ...], needed: list[bool], alpha: float, rule: BapgRule
) -> list[Tensor | None]:
    """Return the gradients in the three costs, those that are needed; see `fossil.ops.triton.envelope`."""
    plan, source, target, *masses = saved
    batch, n, m = plan.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m))
    found = [plan.new_empty(shape) if wanted else None for shape, wanted in zip(shapes, needed, strict=True)]
    given = [plain(tensor) if needed[1] or needed[2] else plan for tensor in (source, target)]
    arrays = [plan if gradient is None else gradient for gradient in found]
    arrays += [plain(value_gradient), plan, *given, *(plain(mass) for mass in masses)]
    settings = (float(alpha), *needed, rule.marginals == "actual")
    run_in_threads(gradient_kernel, [*(array.numpy() for array in arrays), *settings], plan, 4)
    return found


@inner
def _write_gradient(
    out: Array, structure: Array, product: Array, marginal: Array, other: Array, scale: np.float32
) -> None:
    """Write scale / 2 times the gradient of `sum_ik marginal_i structure_ik² other_k - 2 <structure, product>`."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = scale * (structure[i, k] * marginal[i] * other[k] - product[i, k])


@entry
def gradient_kernel(
    feature_gradient: Array,
    source_gradient: Array,
    target_gradient: Array,
    value_gradient: Array,
    plans: Array,
    source: Array,
    target: Array,
    source_mass: Array,
    target_mass: Array,
    alpha: float,
    feature_needed: bool,
    source_needed: bool,
    target_needed: bool,
    actual: bool,
    start: int,
    stop: int,
) -> None:
    """Differentiate the values of problems start to stop - 1 with the plan held, see `fossil.ops.objective`.

    Args:
        feature_gradient: B×n×m gradients to write, where needed.
        source_gradient: B×n×n gradients to write, where needed.
        target_gradient: B×m×m gradients to write, where needed.
        value_gradient: gradients of the B values.
        plans: B×n×m plans (P).
        source: B×n×n costs (C1), read only where a structure's gradient is needed.
        target: B×m×m costs (C2), likewise.
        source_mass: B×n masses (mu), likewise.
        target_mass: B×m masses (nu), likewise.
        alpha: weight of the feature term.
        feature_needed: whether the gradient in M is needed.
        source_needed: whether the gradient in C1 is needed.
        target_needed: whether the gradient in C2 is needed.
        actual: whether the value weighs the squared costs by the plan's own marginals.
        start: the first problem.
        stop: one after the last.
    """
    _, n, m = plans.shape
    height, width = padded(n), padded(m)
    plan, product = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    transposed = np.zeros((width, height), np.float32)
    source_square, target_square = np.zeros((height, height), np.float32), np.zeros((width, width), np.float32)
    rows, columns = np.zeros((1, height), np.float32), np.zeros((1, width), np.float32)
    for problem in range(start, stop):
        gradient = value_gradient[problem]
        if feature_needed:
            copy(feature_gradient[problem], plans[problem], gradient * alpha, False)
        scale = np.float32(2 * (1 - alpha) * gradient)
        if source_needed or target_needed:
            copy(plan, plans[problem], 1.0, False)
            copy(transposed, plans[problem], 1.0, True)
            sum_rows_and_columns(rows, columns, plan, n, m)
        if source_needed:  # P C2 Pᵀ
            copy(target_square, target[problem], 1.0, False)
            multiply(product, plan, target_square, n, m, m, False)
            multiply(source_square, product, transposed, n, m, n, False)
            other = rows[0] if actual else source_mass[problem]
            _write_gradient(source_gradient[problem], source[problem], source_square, rows[0], other, scale)
        if target_needed:  # Pᵀ C1 P
            copy(source_square, source[problem], 1.0, False)
            multiply(product, source_square, plan, n, n, m, False)
            multiply(target_square, transposed, product, m, n, m, False)
            other = columns[0] if actual else target_mass[problem]
            _write_gradient(target_gradient[problem], target[problem], target_square, columns[0], other, scale)
