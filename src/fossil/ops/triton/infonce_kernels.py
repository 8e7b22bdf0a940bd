"""Parts of the node loss as GPU programs. Needs Triton.

Z is the matrix of 2N unit vectors, N of either view one below the other. Exponentials are to base 2, because that is
what the hardware computes; `unit` is `log2(e) / τ`. Every exponent is lowered by 1/τ, the most it can be.
"""

from __future__ import annotations

import math

import triton.language as tl

from fossil.ops.triton.infonce_pairs import nodes_that_count, to_bfloat16
from fossil.ops.triton.jit import INTERPRETED, jit, kernel

_LOG2_E = tl.constexpr(1.4426950408889634)
_INTERPRETED = tl.constexpr(INTERPRETED)


def unit_of_exponents(temperature: float) -> float:
    """Return `unit` for a temperature τ."""
    return math.log2(math.e) / temperature


@jit
def _multiply(left: tl.tensor, right: tl.tensor, start: tl.tensor) -> tl.tensor:
    """Return `start + left @ right` of float16 operands, summed in float32."""
    if _INTERPRETED:  # in float32 their products are exact, in what it makes of float16 they are not
        return tl.dot(left.to(tl.float32), right.to(tl.float32), acc=start)
    return tl.dot(left, right, acc=start)


@jit
def _takes_part(places: tl.tensor, nodes: tl.tensor, count: tl.tensor) -> tl.tensor:
    """Tell which rows of Z exist and are among the first `count` of their view."""
    node = tl.where(places < nodes, places, places - nodes)
    return node < count


@jit
def _load_rows(
    pointer: tl.tensor, places: tl.tensor, total: tl.tensor, columns: tl.tensor, WIDTH: tl.constexpr, EVEN: tl.constexpr
) -> tl.tensor:
    """Load some columns of some rows; rows past the end are the last one, whose results nobody keeps."""
    start = pointer + tl.minimum(places, total - 1).to(tl.int64)[:, None] * WIDTH
    if EVEN:
        return tl.load(start + columns[None, :])
    return tl.load(start + columns[None, :], mask=(columns < WIDTH)[None, :], other=0.0)


@jit
def _cosines(
    vectors: tl.tensor,
    top: tl.tensor,
    left: tl.tensor,
    total: tl.tensor,
    WIDTH: tl.constexpr,
    DESCRIBED: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
) -> tl.tensor:
    """Return the products of the rows of Z from `top` on with those from `left` on, TILE of each."""
    steps = tl.arange(0, TILE)
    similarity = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        if DESCRIBED:
            own = vectors.load([top, start])
            other = vectors.load([left, start])
        else:
            part = start + tl.arange(0, DEPTH)
            own = _load_rows(vectors, top + steps, total, part, WIDTH, WIDTH % DEPTH == 0)
            other = _load_rows(vectors, left + steps, total, part, WIDTH, WIDTH % DEPTH == 0)
        similarity = _multiply(own, tl.trans(other), similarity)
    return similarity


@jit
def _others(weights: tl.tensor, rows: tl.tensor, columns: tl.tensor, nodes: tl.tensor, count: tl.tensor) -> tl.tensor:
    """Return the weights, zero on the diagonal and where the row or the column takes no part."""
    counts = _takes_part(rows, nodes, count)[:, None] & _takes_part(columns, nodes, count)[None, :]
    return tl.where(counts & (rows[:, None] != columns[None, :]), weights, 0.0)


@jit
def _tiles_apart(row: tl.tensor, distance: tl.tensor, tiles: tl.tensor) -> tl.tensor:
    """Return row and column, not left of the diagonal, of the tile `distance` to the right of the diagonal in `row`.

    Of T×T tiles of a symmetric matrix each row of tiles has those at a distance of 0 to T/2, going round at the end,
    where the mirror image is taken: every pair once, and every row alike. Only at distance T/2 (T even) each pair would
    come twice; the last number tells where it has come before.
    """
    other = (row + distance) % tiles
    return tl.minimum(row, other), tl.maximum(row, other), (2 * distance == tiles) & (row >= distance)


@jit
def _place_in_strips(top: tl.tensor, left: tl.tensor, total: tl.tensor, height: tl.tensor) -> tl.tensor:
    """Return where an entry on or right of the diagonal is stored, and the length of its row.

    Strips of `height` rows lie one behind the other. Strip s has the columns from its diagonal block on, `total - s
    height` of them.
    """
    strip = top // height
    start = strip * height
    before = (strip * total - height * (strip * (strip - 1) // 2)).to(tl.int64) * height
    stride = total - start
    return before + (top - start).to(tl.int64) * stride + (left - start), stride


@kernel("nodes", "first_band")
def band_sums_kernel(
    sums_pointer: tl.tensor,
    kept_pointer: tl.tensor,
    vectors: tl.tensor,
    count_pointer: tl.tensor,
    nodes: tl.tensor,
    first_band: tl.tensor,
    whole: tl.tensor,
    height: tl.tensor,
    unit: tl.tensor,
    WIDTH: tl.constexpr,
    DESCRIBED: tl.constexpr,
    COUNTED: tl.constexpr,
    KEPT: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Write the row sums and the column sums of one tile of exp((Z Zᵀ - 1)/τ), and where KEPT the tile.

    Program (b, i) has the tile that is `first_band + b` to the right of the diagonal in row i of tiles, going round.
    Tiles of one distance cover all rows twice, once as row i and once as the other that it meets, so that band b has
    two slots for sums. Only on the diagonal are the two the same.

    Args:
        sums_pointer: 2×bands×2N float32 sums to write.
        kept_pointer: tiles to write where KEPT, rounded to bfloat16, in strips.
        vectors: Z, 2N×WIDTH, contiguous, float16: where it starts, or its descriptor.
        count_pointer: one int64, read where COUNTED.
        nodes: N.
        first_band: distance of band 0.
        whole: columns of all tiles.
        height: rows of a strip, whole tiles.
        unit: `log2(e) / τ`.
        WIDTH: D.
        DESCRIBED: whether `vectors` is a descriptor, of blocks of TILE×DEPTH.
        COUNTED: whether rows from `count` on, in either view, are left out; not where KEPT.
        KEPT: whether tiles are stored.
        TILE: side of a tile.
        DEPTH: columns of Z multiplied at a time.
    """
    band = tl.program_id(0)
    own = tl.program_id(1)
    distance = first_band + band
    top, left, met_twice = _tiles_apart(own, distance, tl.num_programs(1))
    total = 2 * nodes
    steps = tl.arange(0, TILE)
    rows = top * TILE + steps
    columns = left * TILE + steps
    count = nodes_that_count(count_pointer, nodes, COUNTED)

    some_row = tl.max(_takes_part(rows, nodes, count).to(tl.int32), 0) > 0
    some_column = tl.max(_takes_part(columns, nodes, count).to(tl.int32), 0) > 0
    row_sums = tl.zeros((TILE,), tl.float32)
    column_sums = tl.zeros((TILE,), tl.float32)
    if some_row & some_column & (met_twice == 0):
        similarity = _cosines(vectors, top * TILE, left * TILE, total, WIDTH, DESCRIBED, TILE, DEPTH)
        weights = tl.exp2(similarity * unit - unit)
        if COUNTED or (distance == 0) | (left * TILE + TILE > total):  # most tiles need no mask
            weights = _others(weights, rows, columns, nodes, count)
        row_sums = tl.sum(weights, 1)
        if distance > 0:
            column_sums = tl.sum(weights, 0)
        if KEPT:
            start, stride = _place_in_strips(top * TILE, left * TILE, whole, height)
            places = kept_pointer + start + steps[:, None] * stride + steps[None, :]
            tl.store(places, to_bfloat16(weights).to(kept_pointer.dtype.element_ty))
    bands = tl.num_programs(0)
    row_slot = tl.where(top == own, band, bands + band).to(tl.int64)
    column_slot = tl.where(top == own, bands + band, band).to(tl.int64)
    tl.store(sums_pointer + row_slot * total + rows, row_sums, mask=rows < total)
    tl.store(sums_pointer + column_slot * total + columns, column_sums, mask=columns < total)


@kernel("total")
def kept_weights_kernel(
    kept_pointer: tl.tensor,
    share_pointer: tl.tensor,
    total: tl.tensor,
    whole: tl.tensor,
    height: tl.tensor,
    TILE: tl.constexpr,
) -> None:
    """Multiply one tile that `band_sums_kernel` kept by (share_r + share_c), and mirror it within a diagonal block.

    Program (d, i) has the tile d to the right of the diagonal in row i of tiles, going round.

    Args:
        kept_pointer: tiles in strips, bfloat16; the weights take their place.
        share_pointer: 2N float32 reciprocals of the row sums.
        total: 2N.
        whole: columns of all tiles.
        height: rows of a strip, whole tiles.
        TILE: side of a tile.
    """
    top, left, met_twice = _tiles_apart(tl.program_id(1), tl.program_id(0), tl.num_programs(1))
    steps = tl.arange(0, TILE)
    rows = top * TILE + steps
    columns = left * TILE + steps
    if met_twice == 0:
        row_share = tl.load(share_pointer + tl.minimum(rows, total - 1))
        column_share = tl.load(share_pointer + tl.minimum(columns, total - 1))
        start, stride = _place_in_strips(top * TILE, left * TILE, whole, height)
        places = kept_pointer + start + steps[:, None] * stride + steps[None, :]
        weights = tl.load(places).to(tl.float32) * (row_share[:, None] + column_share[None, :])
        narrow = to_bfloat16(weights).to(kept_pointer.dtype.element_ty)
        tl.store(places, narrow)
        if (left > top) & (left * TILE // height == top * TILE // height):
            # The diagonal block is multiplied as a whole; both halves are in the same strip, with rows of one length.
            mirrored = start + (left - top) * TILE * (stride - 1).to(tl.int64)
            tl.store(kept_pointer + mirrored + steps[:, None] * stride + steps[None, :], tl.trans(narrow))


@kernel("nodes", "top", "left")
def tile_sums_kernel(
    row_sums_pointer: tl.tensor,
    column_sums_pointer: tl.tensor,
    similarity_pointer: tl.tensor,
    count_pointer: tl.tensor,
    nodes: tl.tensor,
    top: tl.tensor,
    left: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    stride: tl.tensor,
    unit: tl.tensor,
    COUNTED: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Write row sums and column sums of exp((s - 1)/τ) for part (program_id(0), program_id(1)) of a stored tile.

    Args:
        row_sums_pointer: (width / TILE)×height float32 sums to write.
        column_sums_pointer: (height / TILE)×width float32 sums to write.
        similarity_pointer: height×width cosines divided by τ, float32.
        count_pointer: one int64, read where COUNTED.
        nodes: N.
        top: row of Z where the tile starts.
        left: column of Zᵀ where the tile starts.
        height: rows of the tile.
        width: columns of the tile.
        stride: entries from one row of the tile to the next.
        unit: `log2(e) / τ`.
        COUNTED: whether rows from `count` on, in either view, are left out.
        TILE: side of a part.
    """
    row_part = tl.program_id(0)
    column_part = tl.program_id(1)
    rows = row_part * TILE + tl.arange(0, TILE)
    columns = column_part * TILE + tl.arange(0, TILE)
    count = nodes_that_count(count_pointer, nodes, COUNTED)
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    places = rows[:, None] * stride + columns[None, :]
    similarity = tl.load(similarity_pointer + places, mask=inside, other=0.0)
    weights = tl.where(inside, tl.exp2(similarity * _LOG2_E - unit), 0.0)
    weights = _others(weights, top + rows, left + columns, nodes, count)
    tl.store(row_sums_pointer + column_part * height + rows, tl.sum(weights, 1), mask=rows < height)
    tl.store(column_sums_pointer + row_part * width + columns, tl.sum(weights, 0), mask=columns < width)


@kernel("top", "left")
def tile_weights_kernel(
    tile_pointer: tl.tensor,
    share_pointer: tl.tensor,
    top: tl.tensor,
    left: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    stride: tl.tensor,
    unit: tl.tensor,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Turn a stored tile of cosines into exp((s - 1)/τ) (share_r + share_c), the diagonal of Z Zᵀ zero.

    Args:
        tile_pointer: height×width cosines divided by τ, float32; the weights take their place.
        share_pointer: 2N float32 reciprocals of the row sums, zero where a row takes no part.
        top: row of Z where the tile starts.
        left: column of Zᵀ where the tile starts.
        height: rows of the tile.
        width: columns of the tile.
        stride: entries from one row of the tile to the next.
        unit: `log2(e) / τ`.
        ROWS: rows that a program treats.
        COLUMNS: columns that a program treats.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row_share = tl.load(share_pointer + top + rows, mask=rows < height, other=0.0)
    column_share = tl.load(share_pointer + left + columns, mask=columns < width, other=0.0)
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    places = rows[:, None] * stride + columns[None, :]
    similarity = tl.load(tile_pointer + places, mask=inside, other=0.0)
    weights = tl.exp2(similarity * _LOG2_E - unit) * (row_share[:, None] + column_share[None, :])
    weights = tl.where((top + rows)[:, None] != (left + columns)[None, :], weights, 0.0)
    tl.store(tile_pointer + places, weights, mask=inside)


@kernel("total", "top")
def strip_weights_kernel(
    weights_pointer: tl.tensor,
    vectors: tl.tensor,
    share_pointer: tl.tensor,
    total: tl.tensor,
    top: tl.tensor,
    unit: tl.tensor,
    WIDTH: tl.constexpr,
    DESCRIBED: tl.constexpr,
    TILE: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Write exp((z_r·z_c - 1)/τ) (share_r + share_c) for a tile of a strip of rows r and columns c, both from `top` on.

    Program (i, j) has tile (i, j). Tiles are stored whole, so that no store has a mask: what lies past the end of Z is
    finite and means nothing. Tiles of one column are neighbours in time and find its rows of Z in the cache.

    Args:
        weights_pointer: weights to write, rounded to bfloat16: a matrix of as many tiles as there are programs.
        vectors: Z, 2N×WIDTH, contiguous, float16: where it starts, or its descriptor.
        share_pointer: 2N float32 reciprocals of the row sums, zero where a row takes no part.
        total: 2N.
        top: row and column of Z Zᵀ where the strip starts.
        unit: `log2(e) / τ`.
        WIDTH: D.
        DESCRIBED: whether `vectors` is a descriptor, of blocks of TILE×DEPTH.
        TILE: side of a tile.
        DEPTH: columns of Z multiplied at a time.
    """
    down = tl.program_id(0) * TILE
    across = tl.program_id(1) * TILE
    steps = tl.arange(0, TILE)
    rows = top + down + steps
    columns = top + across + steps
    similarity = _cosines(vectors, top + down, top + across, total, WIDTH, DESCRIBED, TILE, DEPTH)
    row_share = tl.load(share_pointer + tl.minimum(rows, total - 1))
    column_share = tl.load(share_pointer + tl.minimum(columns, total - 1))
    weights = tl.exp2(similarity * unit - unit) * (row_share[:, None] + column_share[None, :])
    if down == across:
        weights = tl.where(rows[:, None] != columns[None, :], weights, 0.0)
    stride = tl.num_programs(1) * TILE
    start = weights_pointer + down.to(tl.int64) * stride + across  # a strip can have more entries than int32 counts
    tl.store(
        start + steps[:, None] * stride + steps[None, :], to_bfloat16(weights).to(weights_pointer.dtype.element_ty)
    )


@kernel("nodes")
def pair_losses_kernel(
    losses_pointer: tl.tensor,
    share_pointer: tl.tensor,
    totals_pointer: tl.tensor,
    cosine_pointer: tl.tensor,
    count_pointer: tl.tensor,
    nodes: tl.tensor,
    exponent: tl.tensor,
    COUNTED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write what BLOCK nodes add to the mean loss, and the reciprocals of their row sums.

    Args:
        losses_pointer: a float32 sum for each program to write.
        share_pointer: 2N float32 reciprocals to write, zero where a row takes no part.
        totals_pointer: 2N float32 row sums of exp((Z Zᵀ - 1)/τ).
        cosine_pointer: N float32 cosines between the two vectors of each node.
        count_pointer: one int64, read where COUNTED.
        nodes: N.
        exponent: 1/τ, by which every exponent was lowered.
        COUNTED: whether only the first `count` nodes take part, and the mean is over them.
        BLOCK: nodes of a program.
    """
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < nodes
    count = nodes_that_count(count_pointer, nodes, COUNTED)
    active = places < count
    first = tl.load(totals_pointer + places, mask=active, other=1.0)
    second = tl.load(totals_pointer + nodes + places, mask=active, other=1.0)
    tl.store(share_pointer + places, tl.where(active, 1.0 / first, 0.0), mask=inside)
    tl.store(share_pointer + nodes + places, tl.where(active, 1.0 / second, 0.0), mask=inside)
    cosine = tl.load(cosine_pointer + places, mask=active, other=1.0)
    losses = (tl.log(first) + tl.log(second)) / 2 + (1.0 - cosine) * exponent  # zero where a node takes no part
    tl.store(losses_pointer + tl.program_id(0), tl.sum(losses, 0) / tl.maximum(count, 1).to(tl.float32))
