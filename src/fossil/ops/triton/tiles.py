"""Square tiles inside a GPU program: loading, multiplying, logarithms. Needs Triton, as do the kernels that use it.

Beyond the entries of its matrix a tile holds zeros, which add nothing to a product. Logarithms are to base 2.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import triton.language as tl

from fossil.ops.triton.jit import jit

Precision: TypeAlias = Literal["ieee", "tf32x3", "tf32"]

TILES = (16, 32, 64)
"""Sides of the square tiles. A larger problem does not fit on chip."""

LARGEST = TILES[-1]


class Launch(NamedTuple):
    """The shape of a program, chosen on an H200.

    Attributes:
        warps: warps that share a problem.
        registers: the most a thread may use.
    """

    warps: int
    registers: int

    def options(self) -> dict[str, Any]:
        """Return it by the names of Triton."""
        # Without a limit on registers the assembler may settle for 32, and keep nearly all of a large tile in memory.
        return {"num_warps": self.warps, "maxnreg": self.registers}


def tile_side(n: int, m: int) -> int:
    """Return the smallest tile that holds n×m entries.

    >>> tile_side(12, 17)
    32
    """
    return next(side for side in TILES if max(n, m) <= side)


# The floor of the batched version, -60, to base 2; and its finite stand-in for log 0, which needs no conversion.
FLOOR = tl.constexpr(-86.5617)
LOG_ZERO = tl.constexpr(-1e30)


@jit
def log_mass(mass: tl.tensor) -> tl.tensor:
    """Return the logarithms of masses, LOG_ZERO for none."""
    return tl.where(mass > 0, tl.log2(tl.where(mass > 0, mass, 1.0)), LOG_ZERO)


@jit
def load_matrix(
    start: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    again: tl.constexpr,
    TILE: tl.constexpr,
) -> tl.tensor:
    """Load a height×width matrix; `again` reads it anew, where the compiler would keep it since it was read first."""
    rows = tl.arange(0, TILE)[:, None]
    columns = tl.arange(0, TILE)[None, :]
    inside = (rows < height) & (columns < width)
    places = rows * row_stride + columns * column_stride
    return tl.load(start + places, mask=inside, other=0.0, volatile=again)


@jit
def load_block(
    pointer: tl.tensor, rows: tl.tensor, columns: tl.tensor, count: tl.tensor, WIDTH: tl.constexpr
) -> tl.tensor:
    """Load some columns of some rows of a count×WIDTH matrix as float32, zero beyond it."""
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    return tl.load(pointer + rows[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0).to(tl.float32)


@jit
def store_matrix(start: tl.tensor, matrix: tl.tensor, height: tl.tensor, width: tl.tensor, TILE: tl.constexpr) -> None:
    """Write the height×width matrix in a tile, rows one after another."""
    rows = tl.arange(0, TILE)[:, None]
    columns = tl.arange(0, TILE)[None, :]
    tl.store(start + rows * width + columns, matrix, mask=(rows < height) & (columns < width))


@jit
def load_vector(start: tl.tensor, length: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Load a vector, with zeros to the end of the tile."""
    places = tl.arange(0, TILE)
    return tl.load(start + places, mask=places < length, other=0.0)


@jit
def _split(matrix: tl.tensor) -> tl.tensor:
    """Return each entry to the nearest 11 bits, which TF32 holds exactly, and the rest.

    Of the rest the tensor cores take the first bits and cut off the others, which changes the product by no more than
    float32 itself does.
    """
    rough = _rounded(matrix)
    return rough, matrix - rough


@jit
def _rounded(matrix: tl.tensor) -> tl.tensor:
    """Return each entry to the nearest 11 bits; the tensor cores alone would cut the others off."""
    bits = matrix.to(tl.int32, bitcast=True)
    return ((bits + 0x1000) & -8192).to(tl.float32, bitcast=True)


@jit
def multiply(left: tl.tensor, right: tl.tensor, start: tl.tensor, precision: tl.constexpr) -> tl.tensor:
    """Return `start + left @ right`; the precision is `ieee`, `tf32x3` or `tf32`.

    `tf32x3` adds three TF32 products of the entries' first bits and their rest. Triton has it too, but also looks for
    infinities, and splits a constant operand again at each turn of a loop. `tf32` rounds the operands first.
    """
    if precision == "tf32x3":
        left_rough, left_rest = _split(left)
        right_rough, right_rest = _split(right)
        total = tl.dot(left_rest, right_rough, acc=start, input_precision="tf32")
        total = tl.dot(left_rough, right_rest, acc=total, input_precision="tf32")
        total = tl.dot(left_rough, right_rough, acc=total, input_precision="tf32")
    elif precision == "tf32":
        total = tl.dot(_rounded(left), _rounded(right), acc=start, input_precision="tf32")
    else:
        total = tl.dot(left, right, acc=start, input_precision=precision)
    return total
