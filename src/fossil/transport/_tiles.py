"""Square tiles inside a GPU program: loading, multiplying, logarithms. Needs Triton, as do the kernels that use it.

Beyond the entries of its matrix a tile holds zeros, which add nothing to a product. Logarithms are to base 2.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

INTERPRETED = not isinstance(tl.sum, triton.JITFunction)
"""Whether Triton was imported to be interpreted, which is the only way it treats tensors on the CPU."""

# The floor of the batched version, -60, to base 2; and its finite stand-in for log 0, which needs no conversion.
FLOOR = tl.constexpr(-86.5617)
LOG_ZERO = tl.constexpr(-1e30)


@triton.jit  # type: ignore[untyped-decorator]
def log_mass(mass: tl.tensor) -> tl.tensor:
    """Return the logarithms of masses, LOG_ZERO for none."""
    return tl.where(mass > 0, tl.log2(tl.where(mass > 0, mass, 1.0)), LOG_ZERO)


@triton.jit  # type: ignore[untyped-decorator]
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


@triton.jit  # type: ignore[untyped-decorator]
def store_matrix(start: tl.tensor, matrix: tl.tensor, height: tl.tensor, width: tl.tensor, TILE: tl.constexpr) -> None:
    """Write the height×width matrix in a tile, rows one after another."""
    rows = tl.arange(0, TILE)[:, None]
    columns = tl.arange(0, TILE)[None, :]
    tl.store(start + rows * width + columns, matrix, mask=(rows < height) & (columns < width))


@triton.jit  # type: ignore[untyped-decorator]
def load_vector(start: tl.tensor, length: tl.tensor, TILE: tl.constexpr) -> tl.tensor:
    """Load a vector, with zeros to the end of the tile."""
    places = tl.arange(0, TILE)
    return tl.load(start + places, mask=places < length, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _split(matrix: tl.tensor) -> tl.tensor:
    """Return each entry to the nearest 11 bits, which TF32 holds exactly, and the rest.

    Of the rest the tensor cores take the first bits and cut off the others, which changes the product by no more than
    float32 itself does.
    """
    rough = _rounded(matrix)
    return rough, matrix - rough


@triton.jit  # type: ignore[untyped-decorator]
def _rounded(matrix: tl.tensor) -> tl.tensor:
    """Return each entry to the nearest 11 bits; the tensor cores alone would cut the others off."""
    bits = matrix.to(tl.int32, bitcast=True)
    return ((bits + 0x1000) & -8192).to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
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
