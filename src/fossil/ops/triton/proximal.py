"""The proximal point method as one GPU program per problem. Needs Triton.

The costs are loaded once into a square tile and stay on chip with the plan over all iterations. Beyond the n×m entries
a tile holds zero costs and zero masses: such nodes are treated like any others of zero mass, which get exactly nothing.

Logarithms are to base 2, because that is what the hardware computes; `unit` is how much a cost of one changes them.
"""

from __future__ import annotations

import math

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import jit, kernel, launch
from fossil.ops.triton.tiles import (
    FLOOR,
    LOG_ZERO,
    Launch,
    load_matrix,
    load_vector,
    log_mass,
    store_matrix,
    tile_side,
)

# Chosen by what they compile to for an H200 (sm_90): the fewest instructions issued, nothing spilled in the loop.
LAUNCHES = {16: Launch(1, 128), 32: Launch(1, 255), 64: Launch(4, 255)}
"""Launches by the side of the tile."""


def proximal_plan(cost: Tensor, source_mass: Tensor, target_mass: Tensor, step: float, iterations: int) -> Tensor:
    """Return the B×n×m plans of `proximal_point`, without a gradient; each number of iterations is compiled once.

    Args:
        cost: B×n×m float32 costs, of at most 64 nodes a side (M).
        source_mass: B×n float32 masses (mu).
        target_mass: B×m float32 masses (nu).
        step: beta.
        iterations: T, all of which are made.
    """
    tensors = [tensor.detach().contiguous() for tensor in (cost, source_mass, target_mass)]
    batch, n, m = cost.shape
    plan, tile = torch.empty_like(tensors[0]), tile_side(n, m)
    unit = math.log2(math.e) / step
    constants = {"ITERATIONS": iterations, "TILE": tile, **LAUNCHES[tile].options()}
    launch(proximal_kernel, (batch,), plan, *tensors, n, m, unit, **constants)
    return plan


@jit
def _log_support(mass: tl.tensor) -> tl.tensor:
    return tl.where(mass == 0, LOG_ZERO, 0.0)


@jit
def _measure(log_plan: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Move the largest entry of each row (axis 1) or column (axis 0) to one.

    Returns:
        The largest logarithms, the logarithms after the move, the entries, and their sums.
    """
    largest = tl.expand_dims(tl.max(log_plan, axis), axis)
    shifted = log_plan - largest
    weights = tl.where(shifted <= FLOOR, 0.0, tl.exp2(shifted))  # NaN stays NaN
    return largest, shifted, weights, tl.expand_dims(tl.sum(weights, axis), axis)


@kernel()
def proximal_kernel(
    plan_pointer: tl.tensor,
    cost_pointer: tl.tensor,
    source_mass_pointer: tl.tensor,
    target_mass_pointer: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    unit: tl.tensor,
    ITERATIONS: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Solve problem number `program_id(0)`; all tensors are contiguous float32.

    Args:
        plan_pointer: B×n×m plans to write.
        cost_pointer: B×n×m costs (M).
        source_mass_pointer: B×n masses (mu).
        target_mass_pointer: B×m masses (nu).
        n: source nodes, at most TILE.
        m: target nodes, at most TILE.
        unit: `log2(e) / step`.
        ITERATIONS: T.
        TILE: 16, 32 or 64.
    """
    problem = tl.program_id(0).to(tl.int64)
    row_mass = load_vector(source_mass_pointer + problem * n, n, TILE)[:, None]
    column_mass = load_vector(target_mass_pointer + problem * m, m, TILE)[None, :]
    log_kernel = load_matrix(cost_pointer + problem * n * m, n, m, m, 1, False, TILE) * -unit
    log_row_mass = log_mass(row_mass)
    log_column_mass = log_mass(column_mass)

    plan = row_mass * column_mass
    log_columns = _log_support(column_mass)
    log_plan = _log_support(row_mass) + log_columns
    for _ in range(ITERATIONS):
        _, shifted, _, total = _measure(log_plan + log_kernel + log_columns, 1)
        largest, shifted, weights, total = _measure(shifted + (log_row_mass - tl.log2(total)), 0)
        shift = log_column_mass - tl.log2(total)
        log_plan = shifted + shift
        log_columns += shift - largest
        plan = weights * (column_mass / total)
    store_matrix(plan_pointer + problem * n * m, plan, n, m, TILE)
