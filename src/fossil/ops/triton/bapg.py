"""BAPG as one GPU program per problem. Needs Triton.

Everything is loaded once into square tiles and stays on chip with the plan over all iterations. Beyond the n×m entries
a tile holds zero costs and zero masses: such nodes are treated like any others of zero mass, which get exactly nothing.

Logarithms are to base 2, because that is what the hardware computes; `unit` is how much a cost of one changes them.
"""

from __future__ import annotations

import math

import triton.language as tl
from torch import Tensor

from fossil.ops.bapg import BapgRule
from fossil.ops.objective import ProblemTensors
from fossil.ops.triton.envelope import PRECISIONS, differentiate, scoring_precision
from fossil.ops.triton.jit import jit, kernel, launch
from fossil.ops.triton.tiles import (
    FLOOR,
    Launch,
    Precision,
    load_matrix,
    load_vector,
    log_mass,
    multiply,
    store_matrix,
    tile_side,
)

__all__ = ["differentiate", "solve"]

# Measured on an H200 with 900 problems and 20 iterations: `tf32x3` took 39 µs for 12 nodes and 181 µs for 30, `ieee`
# 75 µs and 470 µs. On the tensor cores one warp a problem was best up to a tile of 32; a tile of 64 wants four, which
# is what one product instruction takes.
SOLVER_LAUNCHES: dict[tuple[int, Precision], Launch] = {
    (16, "ieee"): Launch(1, 255),
    (16, "tf32x3"): Launch(1, 255),
    (16, "tf32"): Launch(1, 255),
    (32, "ieee"): Launch(4, 255),
    (32, "tf32x3"): Launch(1, 255),
    (32, "tf32"): Launch(1, 255),
    (64, "ieee"): Launch(8, 255),
    (64, "tf32x3"): Launch(4, 255),
    (64, "tf32"): Launch(4, 255),
}
"""Launches of the solver by the side of the tile and the precision of its iterations."""


def solve(problem: ProblemTensors, rule: BapgRule) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return plans, values, row errors and column errors; each number of iterations is compiled when first used."""
    precision = PRECISIONS[rule.arithmetic]
    # Structures of no weight are not read: they are often one number, expanded, and a copy would be large.
    structured = problem.alpha != 1
    feature_cost = problem.feature_cost.detach().contiguous()
    source = problem.source_structure.detach().contiguous() if structured else feature_cost
    target = problem.target_structure.detach().contiguous() if structured else feature_cost
    batch, n, m = feature_cost.shape
    plan = feature_cost.new_empty(feature_cost.shape)
    value, errors = feature_cost.new_empty(batch), feature_cost.new_empty((2, batch))
    tile = tile_side(n, m)
    launch(
        bapg_kernel,
        (batch,),
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
        math.log2(math.e) / rule.step,  # the kernel's logarithms are to base 2
        ITERATIONS=rule.iterations,
        STRUCTURED=structured,
        CONSTANT_TERMS=rule.constant_terms,
        ACTUAL=rule.marginals == "actual",
        PRECISION=precision,
        SCORE_PRECISION=scoring_precision(precision),
        TILE=tile,
        **SOLVER_LAUNCHES[tile, precision].options(),
    )
    return plan, value, errors[0], errors[1]


@jit
def _rescale(log_plan: tl.tensor, mass: tl.tensor, log_total: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Give each row (axis 1) or column (axis 0) its mass; return the logarithm of the plan and the plan."""
    shifted = log_plan - tl.expand_dims(tl.max(log_plan, axis), axis)
    weights = tl.where(shifted > FLOOR, tl.exp2(shifted), 0.0)
    total = tl.expand_dims(tl.sum(weights, axis), axis)
    return shifted + (log_total - tl.log2(total)), weights * (mass / total)


@jit
def _descend(
    log_plan: tl.tensor,
    plan: tl.tensor,
    drift: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    structured: tl.constexpr,
    precision: tl.constexpr,
) -> tl.tensor:
    """Return the logarithm of `plan * exp(-gradient / step)`."""
    moved = log_plan + drift
    if structured:
        moved = multiply(multiply(source, plan, tl.zeros_like(plan), precision), target, moved, precision)
    return moved


@jit
def _sum(matrix: tl.tensor) -> tl.tensor:
    return tl.sum(tl.sum(matrix, 1), 0)


@jit
def _mean_square(matrix: tl.tensor, rows: tl.tensor, columns: tl.tensor) -> tl.tensor:
    """Return `sum_ik rows_i matrix_ik² columns_k`."""
    return tl.sum(tl.sum(matrix * matrix * columns[None, :], 1) * rows, 0)


@jit
def _structure_value(
    plan: tl.tensor,
    source: tl.tensor,
    target: tl.tensor,
    source_mass: tl.tensor,
    target_mass: tl.tensor,
    actual: tl.constexpr,
    precision: tl.constexpr,
) -> tl.tensor:
    """Return the structure term of the objective; `target` is C2ᵀ."""
    row_sum = tl.sum(plan, 1)
    column_sum = tl.sum(plan, 0)
    nothing = tl.zeros_like(plan)
    crossed = _sum(multiply(multiply(source, plan, nothing, precision), target, nothing, precision) * plan)
    if actual:
        squared = _mean_square(source, row_sum, row_sum) + _mean_square(target, column_sum, column_sum)
    else:
        squared = _mean_square(source, row_sum, source_mass) + _mean_square(target, target_mass, column_sum)
    return squared - 2 * crossed


@kernel()
def bapg_kernel(
    plan_pointer: tl.tensor,
    value_pointer: tl.tensor,
    error_pointer: tl.tensor,
    feature_pointer: tl.tensor,
    source_pointer: tl.tensor,
    target_pointer: tl.tensor,
    source_mass_pointer: tl.tensor,
    target_mass_pointer: tl.tensor,
    batch: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    alpha: tl.tensor,
    unit: tl.tensor,
    ITERATIONS: tl.constexpr,
    STRUCTURED: tl.constexpr,
    CONSTANT_TERMS: tl.constexpr,
    ACTUAL: tl.constexpr,
    PRECISION: tl.constexpr,
    SCORE_PRECISION: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Solve problem number `program_id(0)` and score its plan; all tensors are contiguous float32.

    Args:
        plan_pointer: B×n×m plans to write.
        value_pointer: B values to write (D).
        error_pointer: 2×B errors to write, of the rows and of the columns.
        feature_pointer: B×n×m costs (M).
        source_pointer: B×n×n symmetric costs (C1), read only where STRUCTURED.
        target_pointer: B×m×m symmetric costs (C2), read only where STRUCTURED.
        source_mass_pointer: B×n masses (mu).
        target_mass_pointer: B×m masses (nu).
        batch: B.
        n: source nodes, at most TILE.
        m: target nodes, at most TILE.
        alpha: weight of the feature term.
        unit: `log2(e) / step`.
        ITERATIONS: T.
        STRUCTURED: whether the structures count at all, which they do unless alpha is 1.
        CONSTANT_TERMS: whether the iteration keeps the squared costs.
        ACTUAL: whether the value weighs the squared costs by the plan's own marginals, rather than by mu and nu.
        PRECISION: of the products in the iteration, see `multiply`.
        SCORE_PRECISION: of the products in the value.
        TILE: 16, 32 or 64.
    """
    problem = tl.program_id(0).to(tl.int64)
    feature_start = feature_pointer + problem * n * m
    source_start = source_pointer + problem * n * n
    target_start = target_pointer + problem * m * m
    source_mass = load_vector(source_mass_pointer + problem * n, n, TILE)
    target_mass = load_vector(target_mass_pointer + problem * m, m, TILE)
    row_mass = source_mass[:, None]
    column_mass = target_mass[None, :]

    row_drift = load_matrix(feature_start, n, m, m, 1, False, TILE) * (-alpha * unit)
    column_drift = row_drift
    source = row_drift
    target = row_drift
    if STRUCTURED:
        source = load_matrix(source_start, n, n, n, 1, False, TILE)
        target = load_matrix(target_start, m, m, 1, m, False, TILE)  # C2ᵀ
        if CONSTANT_TERMS:
            # In a row step the squared source costs cancel, in a column step the squared target costs.
            scale = -2 * (1 - alpha) * unit
            row_drift += scale * tl.sum(target * target * target_mass[:, None], 0)[None, :]
            column_drift += scale * tl.sum(source * source * source_mass[None, :], 1)[:, None]
        source *= 4 * (1 - alpha) * unit

    plan = row_mass * column_mass
    log_row_mass = log_mass(row_mass)
    log_column_mass = log_mass(column_mass)
    log_plan = log_row_mass + log_column_mass
    for _ in range(ITERATIONS):
        moved = _descend(log_plan, plan, row_drift, source, target, STRUCTURED, PRECISION)
        log_plan, plan = _rescale(moved, row_mass, log_row_mass, 1)
        moved = _descend(log_plan, plan, column_drift, source, target, STRUCTURED, PRECISION)
        log_plan, plan = _rescale(moved, column_mass, log_column_mass, 0)
    store_matrix(plan_pointer + problem * n * m, plan, n, m, TILE)

    # The costs are read again: to keep them over the iterations would take registers.
    value = alpha * _sum(load_matrix(feature_start, n, m, m, 1, True, TILE) * plan)
    if STRUCTURED:
        source = load_matrix(source_start, n, n, n, 1, True, TILE)
        target = load_matrix(target_start, m, m, 1, m, True, TILE)
        value += (1 - alpha) * _structure_value(plan, source, target, source_mass, target_mass, ACTUAL, SCORE_PRECISION)
    tl.store(value_pointer + problem, value)
    tl.store(error_pointer + problem, tl.sum(tl.abs(tl.sum(plan, 1) - source_mass), 0))
    tl.store(error_pointer + batch + problem, tl.sum(tl.abs(tl.sum(plan, 0) - target_mass), 0))
