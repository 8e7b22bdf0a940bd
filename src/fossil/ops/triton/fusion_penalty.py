"""The loss of the fusion layer as GPU programs: two for it and its parts, one for its gradient. Needs Triton.

Tensors are contiguous and float32, but the branches H^f and H^s may be narrower. Sums are float32.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import ceil_div, jit, kernel, launch
from fossil.ops.triton.tiles import load_block

PENALTY_LAUNCH = {"ROWS": 8, "DEPTH": 128, "num_warps": 4}
TOTALS_LAUNCH = {"BLOCK": 1024, "num_warps": 4}


def penalty(
    fusion: Tensor, feature: Tensor, structure: Tensor, shortest: float, weights: tuple[float, float, float]
) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
    """Return the loss and its three parts (0-dimensional), the cosines (N) and what the gradient reads besides.

    Args:
        fusion: λ, N×1.
        feature: H^f, N×D.
        structure: H^s, N×D.
        shortest: the longest length of a vector that has no direction.
        weights: β₁, β₂ and what λ is to be on average.
    """
    count, width = feature.shape
    programs = ceil_div(count, PENALTY_LAUNCH["ROWS"])
    alike, parts, state = (fusion.new_empty(shape) for shape in ((count,), (3, programs), (2,)))
    values = tuple(fusion.new_empty(()) for _ in range(4))
    given = fusion, feature, structure, shortest, count
    launch(penalty_kernel, (programs,), alike, parts, *given, WIDTH=width, **PENALTY_LAUNCH)
    launch(totals_kernel, (1,), *values, state, parts, *weights, count, programs, **TOTALS_LAUNCH)
    return values, alike, state


def penalty_gradient(
    upstream: tuple[Tensor | None, ...], fusion: Tensor, alike: Tensor, state: Tensor, l2: float, mean: float
) -> Tensor:
    """Return the gradient of λ (N×1), given those of the loss and of its three parts."""
    gradient, count = torch.empty_like(fusion), len(fusion)
    grid = (ceil_div(count, TOTALS_LAUNCH["BLOCK"]),)
    given = *upstream, fusion, alike, state, l2, mean / count, count
    launch(penalty_gradient_kernel, grid, gradient, *given, **TOTALS_LAUNCH)
    return gradient


@jit
def _divisor(square: tl.tensor, shortest: tl.tensor) -> tl.tensor:
    """Return the length of a vector, or one if it is too short to have a direction."""
    length = tl.sqrt(square)
    return tl.where(length > shortest, length, 1.0)


@kernel("count")
def penalty_kernel(
    alike_pointer: tl.tensor,
    parts_pointer: tl.tensor,
    fusion_pointer: tl.tensor,
    feature_pointer: tl.tensor,
    structure_pointer: tl.tensor,
    shortest: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Write the cosines between the branches and the sums of block `program_id(0)` of rows.

    Args:
        alike_pointer: N cosines to write.
        parts_pointer: 3×programs sums to write, of λ times cosine, of λ² and of λ.
        fusion_pointer: λ, N.
        feature_pointer: H^f, N×WIDTH.
        structure_pointer: H^s, N×WIDTH.
        shortest: the longest length of a vector that has no direction.
        count: N.
        WIDTH: D.
        ROWS: rows of a block.
        DEPTH: columns multiplied at a time.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    products = tl.zeros((ROWS, DEPTH), tl.float32)
    of_feature = tl.zeros((ROWS, DEPTH), tl.float32)
    of_structure = tl.zeros((ROWS, DEPTH), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        columns = start + tl.arange(0, DEPTH)
        feature = load_block(feature_pointer, rows, columns, count, WIDTH)
        structure = load_block(structure_pointer, rows, columns, count, WIDTH)
        products += feature * structure
        of_feature += feature * feature
        of_structure += structure * structure
    lengths = _divisor(tl.sum(of_feature, 1), shortest) * _divisor(tl.sum(of_structure, 1), shortest)
    alike = tl.sum(products, 1) / lengths
    fusion = tl.load(fusion_pointer + rows, mask=rows < count, other=0.0)
    tl.store(alike_pointer + rows, alike, mask=rows < count)
    part, parts = parts_pointer + tl.program_id(0), tl.num_programs(0)
    tl.store(part, tl.sum(fusion * alike, 0))
    tl.store(part + parts, tl.sum(fusion * fusion, 0))
    tl.store(part + 2 * parts, tl.sum(fusion, 0))


@jit
def _total(pointer: tl.tensor, number: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, number, BLOCK):
        places = start + tl.arange(0, BLOCK)
        sums += tl.load(pointer + places, mask=places < number, other=0.0)
    return tl.sum(sums, 0)


@kernel("count", "parts")
def totals_kernel(
    loss_pointer: tl.tensor,
    similarity_pointer: tl.tensor,
    length_pointer: tl.tensor,
    average_pointer: tl.tensor,
    state_pointer: tl.tensor,
    parts_pointer: tl.tensor,
    l2: tl.tensor,
    mean: tl.tensor,
    wanted: tl.tensor,
    count: tl.tensor,
    parts: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Write the loss, its three parts, and what its gradient needs: 1/||λ|| (zero for zero), sign(mean(λ) - wanted).

    Args:
        loss_pointer: the loss to write.
        similarity_pointer: Σ λ cos(H^f, H^s) to write.
        length_pointer: l2·||λ|| to write.
        average_pointer: mean·|mean(λ) - wanted| to write.
        state_pointer: the two numbers for the gradient, to write.
        parts_pointer: 3×parts sums that `penalty_kernel` wrote.
        l2: β₁.
        mean: β₂.
        wanted: what λ is to be on average.
        count: N.
        parts: number of sums.
        BLOCK: sums added at a time.
    """
    similarity = _total(parts_pointer, parts, BLOCK)
    norm = tl.sqrt(_total(parts_pointer + parts, parts, BLOCK))
    excess = _total(parts_pointer + 2 * parts, parts, BLOCK) / count - wanted
    length, average = l2 * norm, mean * tl.abs(excess)
    tl.store(loss_pointer, similarity + length + average)
    tl.store(similarity_pointer, similarity)
    tl.store(length_pointer, length)
    tl.store(average_pointer, average)
    tl.store(state_pointer, tl.where(norm > 0, 1.0 / norm, 0.0))
    tl.store(state_pointer + 1, tl.where(excess > 0, 1.0, tl.where(excess < 0, -1.0, 0.0)))


@jit
def _upstream(pointer: tl.tensor) -> tl.tensor:
    gradient = 0.0
    if pointer is not None:
        gradient = tl.load(pointer)
    return gradient


@kernel("count")
def penalty_gradient_kernel(
    gradient_pointer: tl.tensor,
    loss_pointer: tl.tensor,
    similarity_pointer: tl.tensor,
    length_pointer: tl.tensor,
    average_pointer: tl.tensor,
    fusion_pointer: tl.tensor,
    alike_pointer: tl.tensor,
    state_pointer: tl.tensor,
    l2: tl.tensor,
    pull: tl.tensor,
    count: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Write the gradient of block `program_id(0)` of λ.

    Args:
        gradient_pointer: N gradients to write.
        loss_pointer: gradient of the loss, or None.
        similarity_pointer: gradient of its first part, or None.
        length_pointer: gradient of its second part, or None.
        average_pointer: gradient of its third part, or None.
        fusion_pointer: λ, N.
        alike_pointer: N cosines.
        state_pointer: 1/||λ|| and the sign of mean(λ) less what it is to be.
        l2: β₁.
        pull: β₂/N.
        count: N.
        BLOCK: numbers of a block.
    """
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    fusion = tl.load(fusion_pointer + places, mask=places < count, other=0.0)
    alike = tl.load(alike_pointer + places, mask=places < count, other=0.0)
    loss = _upstream(loss_pointer)
    of_similarity = loss + _upstream(similarity_pointer)
    of_length = (loss + _upstream(length_pointer)) * l2 * tl.load(state_pointer)
    of_average = (loss + _upstream(average_pointer)) * pull * tl.load(state_pointer + 1)
    gradient = of_similarity * alike + of_length * fusion + of_average
    tl.store(gradient_pointer + places, gradient, mask=places < count)
