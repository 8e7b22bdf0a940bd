"""Directions of vectors and their gradient, one GPU program per vector or per pair of them. Needs Triton."""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from fossil.transport._tiles import INTERPRETED

_INTERPRETED = tl.constexpr(INTERPRETED)


@triton.jit  # type: ignore[untyped-decorator]
def unit_kernel(
    unit_pointer: tl.tensor,
    length_pointer: tl.tensor,
    vector_pointer: tl.tensor,
    shortest: tl.tensor,
    width: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Divide vector number `program_id(0)` by its length, or by one if it is too short.

    Args:
        unit_pointer: R×D directions to write.
        length_pointer: R divisors to write.
        vector_pointer: R×D contiguous vectors.
        shortest: the longest length that is too short.
        width: D.
        BLOCK: a power of two, at least D.
    """
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < width
    vector = tl.load(vector_pointer + row * width + places, mask=inside, other=0.0)
    length = tl.sqrt(tl.sum(vector * vector, 0))
    divisor = tl.where(length > shortest, length, 1.0)
    tl.store(unit_pointer + row * width + places, vector / divisor, mask=inside)
    tl.store(length_pointer + row, tl.where(length > shortest, length, -1.0))


@triton.jit  # type: ignore[untyped-decorator]
def _through_length(outer: tl.tensor, unit: tl.tensor, length: tl.tensor) -> tl.tensor:
    """Return (g - u (u·g)) / length, or g itself where the length is -1."""
    along = tl.where(length > 0, tl.sum(unit * outer, 0), 0.0)
    return (outer - unit * along) / tl.abs(length)


@triton.jit  # type: ignore[untyped-decorator]
def unit_gradient_kernel(
    gradient_pointer: tl.tensor,
    unit_pointer: tl.tensor,
    length_pointer: tl.tensor,
    outer_pointer: tl.tensor,
    width: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Write (g - u (u·g)) / length for vector number `program_id(0)`, or g itself for one that was too short.

    Args:
        gradient_pointer: R×D gradients to write.
        unit_pointer: R×D directions (u).
        length_pointer: R lengths, -1 for vectors that were too short.
        outer_pointer: R×D gradients in the directions (g).
        width: D.
        BLOCK: a power of two, at least D.
    """
    row = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < width
    unit = tl.load(unit_pointer + row * width + places, mask=inside, other=0.0)
    outer = tl.load(outer_pointer + row * width + places, mask=inside, other=0.0)
    length = tl.load(length_pointer + row)
    tl.store(gradient_pointer + row * width + places, _through_length(outer, unit, length), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def nodes_that_count(count_pointer: tl.tensor, nodes: tl.tensor, COUNTED: tl.constexpr) -> tl.tensor:
    """Return how many of N nodes take part, as int64: all of them, or what `count_pointer` says where COUNTED."""
    if COUNTED:
        return tl.minimum(tl.load(count_pointer), nodes.to(tl.int64))
    return nodes.to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator]
def to_bfloat16(numbers: tl.tensor) -> tl.tensor:
    """Return float32 numbers as the nearest bfloat16 ones, the even one of two."""
    if _INTERPRETED:  # which would cut off the last 16 bits
        bits = numbers.to(tl.int32, bitcast=True)
        numbers = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
    return numbers.to(tl.bfloat16)


@triton.jit  # type: ignore[untyped-decorator]
def _all_of(condition: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """Return one condition as a mask; when interpreted, it would become integers by itself."""
    return tl.full((BLOCK,), condition.to(tl.int32), tl.int32) > 0


@triton.jit  # type: ignore[untyped-decorator]
def _store_unit(
    vector: tl.tensor,
    row: tl.tensor,
    unit_pointer: tl.tensor,
    half_pointer: tl.tensor,
    narrow_pointer: tl.tensor,
    length_pointer: tl.tensor,
    shortest: tl.tensor,
    WIDTH: tl.constexpr,
    NARROW: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """Write a vector's direction and length as row `row`, and return the direction."""
    places = tl.arange(0, BLOCK)
    inside = places < WIDTH
    length = tl.sqrt(tl.sum(vector * vector, 0))
    unit = vector / tl.where(length > shortest, length, 1.0)
    tl.store(unit_pointer + row * WIDTH + places, unit, mask=inside)
    if NARROW:
        tl.store(half_pointer + row * WIDTH + places, unit.to(tl.float16), mask=inside)
        tl.store(narrow_pointer + row * WIDTH + places, to_bfloat16(unit), mask=inside)
    tl.store(length_pointer + row, tl.where(length > shortest, length, -1.0))
    return unit


@triton.jit(do_not_specialize=["nodes"])  # type: ignore[untyped-decorator]
def unit_pairs_kernel(
    unit_pointer: tl.tensor,
    half_pointer: tl.tensor,
    narrow_pointer: tl.tensor,
    length_pointer: tl.tensor,
    cosine_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    count_pointer: tl.tensor,
    nodes: tl.tensor,
    shortest: tl.tensor,
    WIDTH: tl.constexpr,
    COUNTED: tl.constexpr,
    NARROW: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Stack the directions of both vectors of node `program_id(0)` as rows i and N + i, and write their cosine.

    Nodes that take no part are not even read: their directions are zero, whatever they hold.

    Args:
        unit_pointer: 2N×D directions to write, float32.
        half_pointer: 2N×D directions to write in float16, where NARROW.
        narrow_pointer: 2N×D directions to write in bfloat16, where NARROW.
        length_pointer: 2N lengths to write, -1 for vectors that are too short.
        cosine_pointer: N cosines to write.
        first_pointer: N×D contiguous vectors.
        second_pointer: N×D contiguous vectors.
        count_pointer: one int64, read where COUNTED.
        nodes: N.
        shortest: the longest length that is too short.
        WIDTH: D.
        COUNTED: whether only the first `count` nodes take part.
        NARROW: whether directions are also written in 16 bits.
        BLOCK: a power of two, at least D.
    """
    node = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    taken = (places < WIDTH) & _all_of(node < nodes_that_count(count_pointer, nodes, COUNTED), BLOCK)
    first = tl.load(first_pointer + node * WIDTH + places, mask=taken, other=0.0).to(tl.float32)
    second = tl.load(second_pointer + node * WIDTH + places, mask=taken, other=0.0).to(tl.float32)
    first = _store_unit(
        first, node, unit_pointer, half_pointer, narrow_pointer, length_pointer, shortest, WIDTH, NARROW, BLOCK
    )
    second = _store_unit(
        second, node + nodes, unit_pointer, half_pointer, narrow_pointer, length_pointer, shortest, WIDTH, NARROW, BLOCK
    )
    tl.store(cosine_pointer + node, tl.sum(first * second, 0))


@triton.jit(do_not_specialize=["nodes"])  # type: ignore[untyped-decorator]
def pair_gradient_kernel(
    gradient_pointer: tl.tensor,
    pull_pointer: tl.tensor,
    unit_pointer: tl.tensor,
    length_pointer: tl.tensor,
    outer_pointer: tl.tensor,
    count_pointer: tl.tensor,
    nodes: tl.tensor,
    factor: tl.tensor,
    WIDTH: tl.constexpr,
    COUNTED: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Write the gradient of the node loss in both vectors of node `program_id(0)`, zero if it takes no part.

    In a direction it is g_r = (pull_r - 2 z_pair(r)) / (2 τ count), times the gradient in the loss; in the vector it is
    what `unit_gradient_kernel` makes of g_r.

    Args:
        gradient_pointer: 2N×D gradients to write; may be the pulls.
        pull_pointer: 2N×D pulls, Σ_c A_rc (share_r + share_c) z_c in row r.
        unit_pointer: 2N×D directions (z).
        length_pointer: 2N lengths, -1 for vectors that were too short.
        outer_pointer: the gradient in the loss, one number.
        count_pointer: one int64, read where COUNTED.
        nodes: N.
        factor: 1/(2τ).
        WIDTH: D.
        COUNTED: whether only the first `count` nodes take part.
        BLOCK: a power of two, at least D.
    """
    node = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    inside = places < WIDTH
    count = nodes_that_count(count_pointer, nodes, COUNTED)
    taken = inside & _all_of(node < count, BLOCK)
    scale = tl.load(outer_pointer) * factor / tl.maximum(count, 1).to(tl.float32)
    upper = node * WIDTH + places
    lower = (node + nodes) * WIDTH + places
    first = tl.load(unit_pointer + upper, mask=taken, other=0.0)
    second = tl.load(unit_pointer + lower, mask=taken, other=0.0)
    of_first = (tl.load(pull_pointer + upper, mask=taken, other=0.0) - 2 * second) * scale
    of_second = (tl.load(pull_pointer + lower, mask=taken, other=0.0) - 2 * first) * scale
    of_first = _through_length(of_first, first, tl.load(length_pointer + node))
    of_second = _through_length(of_second, second, tl.load(length_pointer + node + nodes))
    kind = gradient_pointer.dtype.element_ty
    tl.store(gradient_pointer + upper, tl.where(taken, of_first, 0.0).to(kind), mask=inside)
    tl.store(gradient_pointer + lower, tl.where(taken, of_second, 0.0).to(kind), mask=inside)
