"""Small dense matrices inside a CPU kernel: copying, multiplying and summing them. Needs Numba.

Their sides are multiples of 16, with zeros beyond the entries of the matrix they hold, which add nothing to a product.
"""

from __future__ import annotations

import numpy as np

from fossil.ops.numba.compiling import Array, inner
from fossil.ops.numba.lanes import LANES, load, spread, store, total

ZERO = np.float32(0)
_ROWS = 4  # rows of a product made at once: enough for the processor to have something to add while a sum is under way


@inner
def padded(nodes: int) -> int:
    """Return the next multiple of the number of lanes."""
    return -(-nodes // LANES) * LANES


@inner
def copy(out: Array, matrix: Array, scale: float, transposed: bool) -> None:
    """Copy a matrix, or its transpose, to the corner of a larger one."""
    factor = np.float32(scale)
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if transposed:
                out[j, i] = matrix[i, j] * factor
            else:
                out[i, j] = matrix[i, j] * factor


@inner
def copy_corner(out: Array, matrix: Array) -> None:
    """Copy the corner of a matrix to a smaller one."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = matrix[i, j]


@inner
def multiply(out: Array, left: Array, right: Array, rows: int, depth: int, columns: int, add: bool) -> None:
    """Write `left @ right`, or add it to what is there; rows up to the next multiple of four are written too."""
    for i in range(0, rows, _ROWS):
        for j in range(0, columns, LANES):
            first = second = third = fourth = spread(ZERO)
            if add:
                first, second = load(out, i, j), load(out, i + 1, j)
                third, fourth = load(out, i + 2, j), load(out, i + 3, j)
            for k in range(depth):
                row = load(right, k, j)
                first += spread(left[i, k]) * row
                second += spread(left[i + 1, k]) * row
                third += spread(left[i + 2, k]) * row
                fourth += spread(left[i + 3, k]) * row
            store(out, i, j, first)
            store(out, i + 1, j, second)
            store(out, i + 2, j, third)
            store(out, i + 3, j, fourth)


@inner
def sum_rows_and_columns(rows: Array, columns: Array, plan: Array, n: int, m: int) -> None:
    """Write the sums of the n rows and of the m columns into the first rows of two matrices."""
    for j in range(0, m, LANES):
        found = load(plan, 0, j)
        for i in range(1, n):
            found += load(plan, i, j)
        store(columns, 0, j, found)
    for i in range(n):
        found = load(plan, i, 0)
        for j in range(LANES, m, LANES):
            found += load(plan, i, j)
        rows[0, i] = total(found)
