"""BAPG as one GPU program per problem. Needs Triton, so only `fossil.transport.kernels` imports it.

Everything is loaded once into square tiles and stays on chip with the plan over all iterations. Beyond the n×m entries
a tile holds zero costs and zero masses: such nodes are treated like any others of zero mass, which get exactly nothing.

Logarithms are to base 2, because that is what the hardware computes; the caller folds the base into the costs.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

# The floor of the batched version, -60, to base 2; and its finite stand-in for log 0, which needs no conversion.
_FLOOR = tl.constexpr(-86.5617)
_LOG_ZERO = tl.constexpr(-1e30)

INTERPRETED = not isinstance(tl.sum, triton.JITFunction)
"""Whether Triton was imported to be interpreted, which is the only way it treats tensors on the CPU."""


@triton.jit  # type: ignore[untyped-decorator]
def _load_matrix(
    start: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
) -> tl.tensor:
    inside = (rows[:, None] < height) & (columns[None, :] < width)
    return tl.load(start + rows[:, None] * row_stride + columns[None, :] * column_stride, mask=inside, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _log_mass(mass: tl.tensor) -> tl.tensor:
    return tl.where(mass > 0, tl.log2(tl.where(mass > 0, mass, 1.0)), _LOG_ZERO)


@triton.jit  # type: ignore[untyped-decorator]
def _rescale(log_plan: tl.tensor, mass: tl.tensor, log_mass: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Give each row (axis 1) or column (axis 0) its mass; return the logarithm of the plan and the plan."""
    shifted = log_plan - tl.expand_dims(tl.max(log_plan, axis), axis)
    weights = tl.where(shifted > _FLOOR, tl.exp2(shifted), 0.0)
    total = tl.expand_dims(tl.sum(weights, axis), axis)
    return shifted + (log_mass - tl.log2(total)), weights * (mass / total)


@triton.jit  # type: ignore[untyped-decorator]
def _descend(
    log_plan: tl.tensor,
    plan: tl.tensor,
    drift: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    structured: tl.constexpr,
) -> tl.tensor:
    """Return the logarithm of `plan * exp(-gradient / step)`."""
    moved = log_plan + drift
    if structured:
        moved = tl.dot(tl.dot(source, plan, input_precision="ieee"), target, acc=moved, input_precision="ieee")
    return moved


@triton.jit  # type: ignore[untyped-decorator]
def bapg_kernel(
    plan_pointer: tl.tensor,
    feature_pointer: tl.tensor,
    source_pointer: tl.tensor,
    target_pointer: tl.tensor,
    source_mass_pointer: tl.tensor,
    target_mass_pointer: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    feature_scale: tl.tensor,
    square_scale: tl.tensor,
    product_scale: tl.tensor,
    ITERATIONS: tl.constexpr,
    STRUCTURED: tl.constexpr,
    CONSTANT_TERMS: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Solve problem number `program_id(0)`; all tensors are contiguous.

    Args:
        plan_pointer: B×n×m plans to write.
        feature_pointer: B×n×m costs (M).
        source_pointer: B×n×n costs (C1), read only where STRUCTURED.
        target_pointer: B×m×m costs (C2), read only where STRUCTURED.
        source_mass_pointer: B×n masses (mu).
        target_mass_pointer: B×m masses (nu).
        n: source nodes, at most TILE.
        m: target nodes, at most TILE.
        feature_scale: factor of M in the logarithm of the plan.
        square_scale: factor of the mean squared costs.
        product_scale: factor of `C1 P C2ᵀ`.
        ITERATIONS: T.
        STRUCTURED: whether the structures count at all.
        CONSTANT_TERMS: whether the squared costs are kept.
        TILE: 16, 32 or 64.
    """
    problem = tl.program_id(0).to(tl.int64)
    rows = tl.arange(0, TILE)
    columns = tl.arange(0, TILE)
    source_mass = tl.load(source_mass_pointer + problem * n + rows, mask=rows < n, other=0.0)
    target_mass = tl.load(target_mass_pointer + problem * m + columns, mask=columns < m, other=0.0)
    row_mass = source_mass[:, None]
    column_mass = target_mass[None, :]

    row_drift = _load_matrix(feature_pointer + problem * n * m, rows, columns, n, m, m, 1) * feature_scale
    column_drift = row_drift
    source = row_drift
    target = row_drift
    if STRUCTURED:
        source = _load_matrix(source_pointer + problem * n * n, rows, columns, n, n, n, 1)
        target = _load_matrix(target_pointer + problem * m * m, rows, columns, m, m, 1, m)  # read as its transpose
        if CONSTANT_TERMS:
            # In a row step the squared source costs cancel, in a column step the squared target costs.
            row_drift += square_scale * tl.sum(target * target * target_mass[:, None], 0)[None, :]
            column_drift += square_scale * tl.sum(source * source * source_mass[None, :], 1)[:, None]
        source *= product_scale

    plan = row_mass * column_mass
    log_row_mass = _log_mass(row_mass)
    log_column_mass = _log_mass(column_mass)
    log_plan = log_row_mass + log_column_mass
    for _ in range(ITERATIONS):
        moved = _descend(log_plan, plan, row_drift, source, target, STRUCTURED)
        log_plan, plan = _rescale(moved, row_mass, log_row_mass, 1)
        moved = _descend(log_plan, plan, column_drift, source, target, STRUCTURED)
        log_plan, plan = _rescale(moved, column_mass, log_column_mass, 0)

    inside = (rows[:, None] < n) & (columns[None, :] < m)
    tl.store(plan_pointer + problem * n * m + rows[:, None] * m + columns[None, :], plan, mask=inside)
