"""Bias and one or two activations as one GPU program, and their gradients as two others. Needs Triton.

An activation is `prelu`, `relu` or `none`. With x = value + bias: a = f₁(x), result = f₂(a). Products and sums are
float32 whatever is read and written; results and gradients of float32 values are those of PyTorch, which also takes
zero for negative.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import ceil_div, jit, kernel, launch

ROWS, COLUMNS = 8, 128
LAUNCH = {"ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": 4}
PROGRAMS = 1024
"""Programs that a gradient is spread over, each with partial sums of its own: about eight a multiprocessor."""
ADDING_COLUMNS = 16
ADDING_LAUNCH = {"COLUMNS": ADDING_COLUMNS, "STEP": 256, "PARTS": 1024, "num_warps": 4, "maxnreg": 128}
"""Adding parts is all waiting: many programs, one or two turns in each, and registers to read a turn at once.

Without a bound on the registers the compiler saves them, and reads two vectors at a time instead of eight.
"""

Slopes = tuple[Tensor | None, Tensor | None]
Kinds = tuple[str, str]


def activate(values: Tensor, bias: Tensor, slopes: Slopes, kinds: Kinds, kind: torch.dtype) -> Tensor:
    """Return both activations of `values + bias`, N×D of type `kind`."""
    count, width = values.shape
    result = torch.empty_like(values, dtype=kind)
    grid = ceil_div(count, ROWS), ceil_div(width, COLUMNS)
    constants = {"WIDTH": width, "FIRST": kinds[0], "SECOND": kinds[1], **LAUNCH}
    launch(activate_kernel, grid, result, values, bias, *slopes, count, **constants)
    return result


def gradients(upstream: Tensor, values: Tensor, bias: Tensor, slopes: Slopes, kinds: Kinds) -> tuple[Tensor, ...]:
    """Return the gradients of the values (N×D), of the bias (D) and of the two slopes (2; zero where there is none)."""
    count, width = values.shape
    across = ceil_div(width, COLUMNS)
    most = max(1, PROGRAMS // across)
    chunk = ceil_div(ceil_div(count, ROWS), most) * ROWS
    down = ceil_div(count, chunk)
    gradient = torch.empty_like(values)
    bias_parts = bias.new_empty(down, width)
    slope_parts = bias.new_empty(2, down * across)
    bias_sums, slope_sums = bias.new_empty(width), bias.new_empty(2)
    given = upstream, values, bias, *slopes, count, chunk
    constants = {"WIDTH": width, "FIRST": kinds[0], "SECOND": kinds[1], **LAUNCH}
    launch(gradients_kernel, (down, across), gradient, bias_parts, slope_parts, *given, **constants)
    parts = bias_parts, slope_parts, down, down * across
    grid = (ceil_div(width, ADDING_COLUMNS) + 1,)
    launch(add_parts_kernel, grid, bias_sums, slope_sums, *parts, WIDTH=width, **ADDING_LAUNCH)
    return gradient, bias_sums, slope_sums


@jit
def _slope(pointer: tl.tensor, KIND: tl.constexpr) -> tl.tensor:
    if KIND == "prelu":
        return tl.load(pointer)
    return 0.0


@jit
def _activated(values: tl.tensor, slope: tl.tensor, KIND: tl.constexpr) -> tl.tensor:
    if KIND == "prelu":
        return tl.where(values > 0, values, slope * values)
    if KIND == "relu":
        return tl.where(values <= 0, 0.0, values)  # this way round, NaN stays
    return values


@jit
def _passed(upstream: tl.tensor, values: tl.tensor, slope: tl.tensor, KIND: tl.constexpr) -> tl.tensor:
    """Return the gradient of what an activation was given."""
    if KIND == "prelu":
        return tl.where(values > 0, upstream, slope * upstream)
    if KIND == "relu":
        return tl.where(values <= 0, 0.0, upstream)
    return upstream


@kernel("count")
def activate_kernel(
    result_pointer: tl.tensor,
    values_pointer: tl.tensor,
    bias_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Write the result for block `program_id(0)` of rows and block `program_id(1)` of columns.

    Args:
        result_pointer: N×WIDTH to write.
        values_pointer: N×WIDTH.
        bias_pointer: WIDTH float32.
        first_pointer: one float32, read where FIRST is `prelu`.
        second_pointer: one float32, read where SECOND is `prelu`.
        count: N.
        WIDTH: D.
        FIRST: kind of f₁.
        SECOND: kind of f₂.
        ROWS: rows of a block.
        COLUMNS: columns of a block.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    places = rows[:, None] * WIDTH + columns[None, :]
    bias = tl.load(bias_pointer + columns, mask=columns < WIDTH, other=0.0)
    values = tl.load(values_pointer + places, mask=inside, other=0.0).to(tl.float32) + bias[None, :]
    between = _activated(values, _slope(first_pointer, FIRST), FIRST)
    result = _activated(between, _slope(second_pointer, SECOND), SECOND)
    tl.store(result_pointer + places, result.to(result_pointer.dtype.element_ty), mask=inside)


@kernel("count", "chunk")
def gradients_kernel(
    gradient_pointer: tl.tensor,
    bias_parts_pointer: tl.tensor,
    slope_parts_pointer: tl.tensor,
    upstream_pointer: tl.tensor,
    values_pointer: tl.tensor,
    bias_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    count: tl.tensor,
    chunk: tl.tensor,
    WIDTH: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Write the gradient of chunk `program_id(0)` of rows in block `program_id(1)` of columns, and its sums.

    Args:
        gradient_pointer: N×WIDTH gradient of the values to write.
        bias_parts_pointer: chunks×WIDTH float32 sums of it to write.
        slope_parts_pointer: 2×programs float32 gradients of the slopes to write.
        upstream_pointer: N×WIDTH gradient of the result.
        values_pointer: N×WIDTH.
        bias_pointer: WIDTH float32.
        first_pointer: one float32, read where FIRST is `prelu`.
        second_pointer: one float32, read where SECOND is `prelu`.
        count: N.
        chunk: rows of a program, a multiple of ROWS.
        WIDTH: D.
        FIRST: kind of f₁.
        SECOND: kind of f₂.
        ROWS: rows treated at a time.
        COLUMNS: columns of a block.
    """
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    bias = tl.load(bias_pointer + columns, mask=columns < WIDTH, other=0.0)
    first, second = _slope(first_pointer, FIRST), _slope(second_pointer, SECOND)
    bias_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    first_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    second_sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    begin = tl.program_id(0).to(tl.int64) * chunk
    for start in range(begin, tl.minimum(begin + chunk, count), ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
        places = rows[:, None] * WIDTH + columns[None, :]
        values = tl.load(values_pointer + places, mask=inside, other=0.0).to(tl.float32) + bias[None, :]
        upstream = tl.load(upstream_pointer + places, mask=inside, other=0.0).to(tl.float32)
        between = _activated(values, first, FIRST)
        after = _passed(upstream, between, second, SECOND)
        gradient = _passed(after, values, first, FIRST)
        if FIRST == "prelu":
            first_sums += tl.where(values > 0, 0.0, values * after)
        if SECOND == "prelu":
            second_sums += tl.where(between > 0, 0.0, between * upstream)
        bias_sums += gradient
        tl.store(gradient_pointer + places, gradient.to(gradient_pointer.dtype.element_ty), mask=inside)
    across = tl.num_programs(1)
    part = tl.program_id(0) * across + tl.program_id(1)
    parts = tl.num_programs(0) * across
    bias_start = bias_parts_pointer + tl.program_id(0) * WIDTH
    tl.store(bias_start + columns, tl.sum(bias_sums, 0), mask=columns < WIDTH)
    tl.store(slope_parts_pointer + part, tl.sum(tl.sum(first_sums, 0), 0))
    tl.store(slope_parts_pointer + parts + part, tl.sum(tl.sum(second_sums, 0), 0))


@kernel("chunks", "parts")
def add_parts_kernel(
    bias_sums_pointer: tl.tensor,
    slope_sums_pointer: tl.tensor,
    bias_parts_pointer: tl.tensor,
    slope_parts_pointer: tl.tensor,
    chunks: tl.tensor,
    parts: tl.tensor,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    """Add the bias parts of block `program_id(0)` of columns or, past the last block, the parts of both slopes.

    The order is fixed, so the sums of the same parts are always the same.

    Args:
        bias_sums_pointer: WIDTH float32 to write.
        slope_sums_pointer: 2 float32 to write.
        bias_parts_pointer: chunks×WIDTH float32.
        slope_parts_pointer: 2×parts float32.
        chunks: rows of bias parts.
        parts: parts of a slope.
        WIDTH: D.
        COLUMNS: columns of a block.
        STEP: rows of bias parts read at a time.
        PARTS: parts of each slope read at a time.
    """
    if tl.program_id(0) * COLUMNS < WIDTH:
        columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        bias_sums = tl.zeros((STEP, COLUMNS), tl.float32)  # the rows of the tile are added once, after the loop
        for start in range(0, chunks, STEP):
            rows = start + tl.arange(0, STEP)
            inside = (rows < chunks)[:, None] & (columns < WIDTH)[None, :]
            places = rows[:, None] * WIDTH + columns[None, :]
            bias_sums += tl.load(bias_parts_pointer + places, mask=inside, other=0.0)
        tl.store(bias_sums_pointer + columns, tl.sum(bias_sums, 0), mask=columns < WIDTH)
    else:
        slope = tl.arange(0, 2)
        slope_sums = tl.zeros((2, PARTS), tl.float32)
        for start in range(0, parts, PARTS):
            part = start + tl.arange(0, PARTS)
            places = slope[:, None] * parts + part[None, :]
            slope_sums += tl.load(slope_parts_pointer + places, mask=(part < parts)[None, :], other=0.0)
        tl.store(slope_sums_pointer + slope, tl.sum(slope_sums, 1))
