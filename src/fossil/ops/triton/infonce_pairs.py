"""The two views of the node loss as one matrix of directions, and the gradient back to the views. Needs Triton.

Z has the 2N unit vectors, N of either view one below the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import INTERPRETED, block_size, jit, kernel, launch
from fossil.ops.triton.unit import through_length

_INTERPRETED = tl.constexpr(INTERPRETED)


class UnitPairs(NamedTuple):
    """The directions of both views.

    Attributes:
        unit: Z, 2N×D; zero where a row takes no part.
        half: Z in float16, for cosines; None for `float32` products. Of numbers up to one it holds as many digits as
            TF32, and is multiplied twice as fast.
        narrow: Z in bfloat16, for sums with weights of any size, with rows of zeros to the end of the last tile; None
            for `float32` products.
        length: lengths, -1 for vectors that are too short, 2N.
        cosine: of the two vectors of each node, N.
    """

    unit: Tensor
    half: Tensor | None
    narrow: Tensor | None
    length: Tensor
    cosine: Tensor


def unit_pairs(
    first: Tensor, second: Tensor, count: Tensor | None, shortest: float, padded_rows: int | None
) -> UnitPairs:
    """Return the directions of two views, N×D each.

    Args:
        first: one view.
        second: the other.
        count: only so many rows of either take part; all when None.
        shortest: the longest length of a vector that has no direction.
        padded_rows: rows of Z in bfloat16; None where Z is needed in float32 alone.
    """
    nodes, width = first.shape
    unit = torch.empty(2 * nodes, width, device=first.device)
    half = narrow = None
    if padded_rows is not None:
        half = torch.empty_like(unit, dtype=torch.float16)
        narrow = unit.new_empty(padded_rows, width, dtype=torch.bfloat16)
        narrow[2 * nodes :].zero_()
    length, cosine = unit.new_empty(2 * nodes), unit.new_empty(nodes)
    launch(
        unit_pairs_kernel,
        (nodes,),
        unit,
        unit if half is None else half,
        unit if narrow is None else narrow,
        length,
        cosine,
        first.contiguous(),
        second.contiguous(),
        unit if count is None else count,
        nodes,
        shortest,
        WIDTH=width,
        COUNTED=count is not None,
        NARROW=narrow is not None,
        **row_launch(width),
    )
    return UnitPairs(unit, half, narrow, length, cosine)


def pair_gradient(
    pull: Tensor, pairs: UnitPairs, upstream: Tensor, count: Tensor | None, temperature: float, kind: torch.dtype
) -> Tensor:
    """Return the gradient of both views, 2N×D of dtype `kind`; it may take the place of the pulls (2N×D)."""
    total, width = pairs.unit.shape
    result = pull if kind == pull.dtype else torch.empty_like(pull, dtype=kind)
    launch(
        pair_gradient_kernel,
        (total // 2,),
        result,
        pull,
        pairs.unit,
        pairs.length,
        upstream,
        pairs.unit if count is None else count,
        total // 2,
        1 / (2 * temperature),
        WIDTH=width,
        COUNTED=count is not None,
        **row_launch(width),
    )
    return result


def row_launch(width: int) -> dict[str, Any]:
    """Return the block and the warps of kernels with a program for each row: a thread reads 16 bytes."""
    block = block_size(width)
    return {"BLOCK": block, "num_warps": min(max(block // 128, 1), 8)}


@jit
def nodes_that_count(count_pointer: tl.tensor, nodes: tl.tensor, COUNTED: tl.constexpr) -> tl.tensor:
    """Return how many of N nodes take part, as int64: all of them, or what `count_pointer` says where COUNTED."""
    if COUNTED:
        return tl.minimum(tl.load(count_pointer), nodes.to(tl.int64))
    return nodes.to(tl.int64)


@jit
def to_bfloat16(numbers: tl.tensor) -> tl.tensor:
    """Return float32 numbers as the nearest bfloat16 ones, the even one of two."""
    if _INTERPRETED:  # which would cut off the last 16 bits
        bits = numbers.to(tl.int32, bitcast=True)
        numbers = ((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000).to(tl.float32, bitcast=True)
    return numbers.to(tl.bfloat16)


@jit
def _all_of(condition: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """Return one condition as a mask; when interpreted, it would become integers by itself."""
    return tl.full((BLOCK,), condition.to(tl.int32), tl.int32) > 0


@jit
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


@kernel("nodes")
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


@kernel("nodes")
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
    what `unit.unit_gradient_kernel` makes of g_r.

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
    of_first = through_length(of_first, first, tl.load(length_pointer + node))
    of_second = through_length(of_second, second, tl.load(length_pointer + node + nodes))
    kind = gradient_pointer.dtype.element_ty
    tl.store(gradient_pointer + upper, tl.where(taken, of_first, 0.0).to(kind), mask=inside)
    tl.store(gradient_pointer + lower, tl.where(taken, of_second, 0.0).to(kind), mask=inside)
