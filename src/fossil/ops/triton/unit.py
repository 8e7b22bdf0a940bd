"""Directions of vectors and their gradient, one GPU program per vector. Needs Triton."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import block_size, jit, kernel, launch


def unit_vectors(vectors: Tensor, shortest: float) -> tuple[Tensor, Tensor]:
    """Return the directions of contiguous float32 vectors (last dimension), and their lengths, -1 where too short."""
    unit, length, width = torch.empty_like(vectors), vectors.new_empty(vectors.shape[:-1]), vectors.shape[-1]
    launch(unit_kernel, (length.numel(),), unit, length, vectors, shortest, width, BLOCK=block_size(width))
    return unit, length


def gradient(unit: Tensor, length: Tensor, outer: Tensor) -> Tensor:
    """Return the gradient of the vectors, given that of their directions; all are contiguous float32."""
    found, width = torch.empty_like(unit), unit.shape[-1]
    launch(unit_gradient_kernel, (length.numel(),), found, unit, length, outer, width, BLOCK=block_size(width))
    return found


@kernel()
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


@jit
def through_length(outer: tl.tensor, unit: tl.tensor, length: tl.tensor) -> tl.tensor:
    """Return (g - u (u·g)) / length, or g itself where the length is -1."""
    along = tl.where(length > 0, tl.sum(unit * outer, 0), 0.0)
    return (outer - unit * along) / tl.abs(length)


@kernel()
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
    tl.store(gradient_pointer + row * width + places, through_length(outer, unit, length), mask=inside)
