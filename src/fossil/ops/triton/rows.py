"""Dot products of all rows with two vectors as one GPU program, and their gradients as another. Needs Triton.

Tensors are contiguous. Products and sums are float32 whatever type the rows have.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import ceil_div, kernel, launch

# Blocks have fewer columns than a program has threads: all threads then read the vectors where they need them, and do
# not hand them round. In either program a thread asks for at least eight times 16 bytes before it waits for any.
PRODUCT_LAUNCH = {"ROWS": 16, "COLUMNS": 64, "num_warps": 4}
GRADIENT_LAUNCH = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4}


def row_products(values: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the dot products of the rows of `values` (N×D) with both vectors (D float32): 2×N float32."""
    count, width = values.shape
    products = first.new_empty(2, count)
    grid = (ceil_div(count, PRODUCT_LAUNCH["ROWS"]),)
    launch(row_products_kernel, grid, products, values, first, second, count, WIDTH=width, **PRODUCT_LAUNCH)
    return products


def gradients(upstream: Tensor, values: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the values (N×D) and of both vectors (2×D), given those of the products (2×N float32).

    The vectors' are sums of parts, one for each block of rows, and so always the same.
    """
    count, width = values.shape
    down, across = (ceil_div(size, GRADIENT_LAUNCH[block]) for size, block in ((count, "ROWS"), (width, "COLUMNS")))
    gradient = torch.empty_like(values)
    parts = first.new_empty(down, 2, width)
    given = upstream, values, first, second, count
    launch(gradients_kernel, (down * across,), gradient, parts, *given, WIDTH=width, **GRADIENT_LAUNCH)
    return gradient, parts.sum(0)


@kernel("count")
def row_products_kernel(
    products_pointer: tl.tensor,
    values_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Write the products of block `program_id(0)` of rows with both vectors.

    Args:
        products_pointer: 2×N float32 to write.
        values_pointer: N×WIDTH.
        first_pointer: WIDTH float32.
        second_pointer: WIDTH float32.
        count: N.
        WIDTH: D.
        ROWS: rows of a block.
        COLUMNS: columns multiplied at a time.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    # Added up across threads only once, at the end.
    of_first = tl.zeros((ROWS, COLUMNS), tl.float32)
    of_second = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in tl.range(0, WIDTH, COLUMNS, loop_unroll_factor=8):
        columns = start + tl.arange(0, COLUMNS)
        inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
        places = rows[:, None] * WIDTH + columns[None, :]
        values = tl.load(values_pointer + places, mask=inside, other=0.0).to(tl.float32)
        of_first += values * tl.load(first_pointer + columns, mask=columns < WIDTH, other=0.0)[None, :]
        of_second += values * tl.load(second_pointer + columns, mask=columns < WIDTH, other=0.0)[None, :]
    tl.store(products_pointer + rows, tl.sum(of_first, 1), mask=rows < count)
    tl.store(products_pointer + count + rows, tl.sum(of_second, 1), mask=rows < count)


@kernel("count")
def gradients_kernel(
    gradient_pointer: tl.tensor,
    parts_pointer: tl.tensor,
    upstream_pointer: tl.tensor,
    values_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Write the gradients of a block of rows and columns; `program_id(0)` counts through the columns first.

    Args:
        gradient_pointer: N×WIDTH gradient of the values x to write, g_i a + h_i b.
        parts_pointer: blocks of rows×2×WIDTH float32 parts of the vectors' gradients to write, of Σ g_i x_i, Σ h_i x_i.
        upstream_pointer: 2×N float32 gradients of the products, g and h.
        values_pointer: N×WIDTH, x.
        first_pointer: WIDTH float32, a.
        second_pointer: WIDTH float32, b.
        count: N.
        WIDTH: D.
        ROWS: rows of a block.
        COLUMNS: columns of a block.
    """
    across: tl.constexpr = tl.cdiv(WIDTH, COLUMNS)
    block = (tl.program_id(0) // across).to(tl.int64)
    rows = block * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    places = rows[:, None] * WIDTH + columns[None, :]
    values = tl.load(values_pointer + places, mask=inside, other=0.0).to(tl.float32)
    of_first = tl.load(upstream_pointer + rows, mask=rows < count, other=0.0)[:, None]
    of_second = tl.load(upstream_pointer + count + rows, mask=rows < count, other=0.0)[:, None]
    first = tl.load(first_pointer + columns, mask=columns < WIDTH, other=0.0)[None, :]
    second = tl.load(second_pointer + columns, mask=columns < WIDTH, other=0.0)[None, :]
    gradient = of_first * first + of_second * second
    tl.store(gradient_pointer + places, gradient.to(gradient_pointer.dtype.element_ty), mask=inside)
    part = parts_pointer + 2 * block * WIDTH + columns
    tl.store(part, tl.sum(of_first * values, 0), mask=columns < WIDTH)
    tl.store(part + WIDTH, tl.sum(of_second * values, 0), mask=columns < WIDTH)
