"""Sparse times dense as one GPU program for each row, or piece of one, adding in a fixed order. Needs Triton.

Rows longer than `PIECE` entries are cut, so that a hub is not one long wait: their pieces are summed apart and then
added up by a second, small kernel. How a pattern is cut is worked out once and belongs to the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import ceil_div, kernel, launch

# Entries of a piece at most, and entries read at a time. Reading is all waiting: for the columns, then for the rows of
# the dense matrix. Shorter pieces end sooner where there is a hub, longer ones leave fewer partial sums; of those tried
# on an H200 with the adjacencies and features of six graphs, these were best in all.
PIECE, STEP = 64, 4
# Bytes of a row for each warp of a program: 16 a thread, so that no sum crosses threads.
WARP_BYTES, MOST_WARPS = 512, 4
ADDING_LAUNCH = {"COLUMNS": 512, "STEP": 8, "num_warps": 4}


@dataclass(frozen=True, eq=False)
class Plan:
    """How the rows of a CSR pattern are taken apart.

    Attributes:
        rows: R.
        col: E columns.
        order: position of each entry in the values (E), None where that is its own.
        pieces: first entry, number of entries and target of each piece, longest first (3×M). A target is a row of the
            product, or R plus a row of the partial sums.
        cut: first partial sum, number of them and row of the product, for each row of several pieces (3×K).
        partial_sums: number of partial sums.
    """

    rows: int
    col: Tensor
    order: Tensor | None
    pieces: Tensor
    cut: Tensor
    partial_sums: int


def make_plan(crow: Tensor, col: Tensor, order: Tensor | None = None) -> Plan:
    """Cut the rows of a pattern into pieces; waits for the device.

    Args:
        crow: R+1 offsets.
        col: E columns.
        order: E positions in the values, if they are in another order than the columns.
    """
    rows = len(crow) - 1
    lengths = crow.diff().long()
    shares = ((lengths + PIECE - 1) // PIECE).clamp_min(1)  # an empty row has a piece too, which writes its zeros
    row = torch.repeat_interleave(shares)
    rank = torch.arange(len(row), device=crow.device) - (shares.cumsum(0) - shares)[row]
    begin, end = (crow[row] + lengths[row] * each // shares[row] for each in (rank, rank + 1))
    is_cut = shares[row] > 1
    target = torch.where(is_cut, rows + is_cut.cumsum(0) - 1, row)
    length = end - begin
    begin = torch.where(length > 0, begin, 0)  # an empty piece may read there, but not past the last entry
    pieces = torch.stack([begin, length, target])[:, torch.argsort(length, descending=True, stable=True)]
    cut_rows = torch.nonzero(shares > 1).squeeze(1)
    cut_shares = shares[cut_rows]
    cut = torch.stack([cut_shares.cumsum(0) - cut_shares, cut_shares, cut_rows])
    kind = crow.dtype
    return Plan(rows, col, order, pieces.to(kind).contiguous(), cut.to(kind), int(cut_shares.sum()))


def product(plan: Plan, values: Tensor, dense: Tensor, out: Tensor | None = None, plus: Tensor | None = None) -> Tensor:
    """Return the product of the matrix of `values` (E, float32) and `dense` (C×D, float32 or bfloat16): R×D, float32.

    All are contiguous. The product is written to `out` if that is given, and `plus` (R×D) is added to it.
    """
    width = dense.shape[1]
    of_warp = WARP_BYTES // dense.element_size()
    warps = min(MOST_WARPS, 1 << (ceil_div(width, of_warp) - 1).bit_length())
    result = torch.empty(plan.rows, width, device=dense.device) if out is None else out
    partial = torch.empty(plan.partial_sums, width, device=dense.device) if plan.partial_sums else None
    count = plan.pieces.shape[1]
    given = plan.pieces, plan.col, plan.order, values, dense, plus, count, plan.rows
    constants = {"WIDTH": width, "COLUMNS": warps * of_warp, "STEP": STEP, "num_warps": warps}
    launch(product_kernel, (count, ceil_div(width, warps * of_warp)), result, partial, *given, **constants)
    if partial is not None:
        cut_rows = plan.cut.shape[1]
        grid = cut_rows, ceil_div(width, ADDING_LAUNCH["COLUMNS"])
        launch(add_pieces_kernel, grid, result, partial, plan.cut, plus, cut_rows, WIDTH=width, **ADDING_LAUNCH)
    return result


@kernel("count", "rows")
def product_kernel(
    product_pointer: tl.tensor,
    partial_pointer: tl.tensor,
    pieces_pointer: tl.tensor,
    col_pointer: tl.tensor,
    order_pointer: tl.tensor,
    values_pointer: tl.tensor,
    dense_pointer: tl.tensor,
    plus_pointer: tl.tensor,
    count: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
) -> None:
    """Write the sum of piece `program_id(0)` in block `program_id(1)` of columns.

    Places past the end of a piece read its last entry again with weight zero, which needs no mask and is at hand (where
    that entry's product is infinite, zero times it makes the sum not a number).

    Args:
        product_pointer: R×WIDTH float32 to write.
        partial_pointer: partial sums of cut rows to write, ×WIDTH float32; None where no row is cut.
        pieces_pointer: 3×M first entries, numbers of entries and targets.
        col_pointer: E columns, at least one.
        order_pointer: E positions in the values, or None.
        values_pointer: E float32.
        dense_pointer: C×WIDTH.
        plus_pointer: R×WIDTH to add, or None.
        count: M.
        rows: R.
        WIDTH: D.
        COLUMNS: columns of a block.
        STEP: entries read at a time.
    """
    piece = pieces_pointer + tl.program_id(0)
    begin = tl.load(piece)
    length = tl.load(piece + count)
    target = tl.load(piece + 2 * count).to(tl.int64)
    part = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = part < WIDTH
    sums = tl.zeros((COLUMNS,), tl.float32)
    if plus_pointer is not None:  # a piece of a row adds nothing: whoever adds up the pieces does
        row = tl.minimum(target, rows - 1)
        plus = tl.load(plus_pointer + row * WIDTH + part, mask=inside, other=0.0).to(tl.float32)
        sums = tl.where(target < rows, plus, 0.0)
    for start in range(0, length, STEP):
        place = start + tl.arange(0, STEP)
        entry = begin + tl.minimum(place, length - 1)
        column = tl.load(col_pointer + entry).to(tl.int64)
        if order_pointer is not None:
            entry = tl.load(order_pointer + entry)
        weight = tl.where(place < length, tl.load(values_pointer + entry), 0.0)
        address = dense_pointer + (column * WIDTH)[:, None] + part[None, :]
        vectors = tl.load(address) if WIDTH % COLUMNS == 0 else tl.load(address, mask=inside[None, :], other=0.0)
        sums += tl.sum(weight[:, None] * vectors.to(tl.float32), 0)
    if partial_pointer is not None:
        start_of_row = tl.where(
            target < rows, product_pointer + target * WIDTH, partial_pointer + (target - rows) * WIDTH
        )
        tl.store(start_of_row + part, sums, mask=inside)
    else:
        tl.store(product_pointer + target * WIDTH + part, sums, mask=inside)


@kernel("count")
def add_pieces_kernel(
    product_pointer: tl.tensor,
    partial_pointer: tl.tensor,
    cut_pointer: tl.tensor,
    plus_pointer: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
) -> None:
    """Add up the partial sums of cut row number `program_id(0)` in block `program_id(1)` of columns.

    Args:
        product_pointer: R×WIDTH float32, of which the row is written.
        partial_pointer: partial sums, ×WIDTH float32.
        cut_pointer: 3×K first partial sums, numbers of them and rows of the product.
        plus_pointer: R×WIDTH to add, or None.
        count: K.
        WIDTH: D.
        COLUMNS: columns of a block.
        STEP: partial sums read at a time.
    """
    place = cut_pointer + tl.program_id(0)
    first = tl.load(place).to(tl.int64)
    length = tl.load(place + count)
    row = tl.load(place + 2 * count).to(tl.int64)
    part = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = part < WIDTH
    sums = tl.zeros((COLUMNS,), tl.float32)
    if plus_pointer is not None:
        sums = tl.load(plus_pointer + row * WIDTH + part, mask=inside, other=0.0).to(tl.float32)
    for start in range(0, length, STEP):
        piece = start + tl.arange(0, STEP)[:, None]
        wanted = (piece < length) & inside[None, :]
        sums += tl.sum(tl.load(partial_pointer + (first + piece) * WIDTH + part[None, :], mask=wanted, other=0.0), 0)
    tl.store(product_pointer + row * WIDTH + part, sums, mask=inside)
