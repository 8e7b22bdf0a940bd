"""Dot products over the edges of a graph and attention within its rows as GPU programs. Needs Triton.

Tensors are contiguous, but for the two vectors that attention reads; offsets are int64, indices int32 or int64.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.triton.jit import ceil_div, kernel, launch

# Edges of a program and columns multiplied at a time: 16 numbers of either row for each of 128 threads.
PRODUCT_LAUNCH = {"EDGES": 16, "DEPTH": 128, "num_warps": 4}
# Entries of a row at a time. Most rows are shorter, and a hub of ten thousand still takes only 40 turns.
ATTENTION_LAUNCH = {"ENTRIES": 256, "num_warps": 2}

_LOWEST = tl.constexpr(-3.4028234e38)  # finite, because the difference of two infinities is not a number


def edge_products(row: Tensor, col: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the dot product of `first[row]` and `second[col]` for each edge (E), float32."""
    products = torch.empty(len(col), device=col.device)
    grid = (ceil_div(len(col), PRODUCT_LAUNCH["EDGES"]),)
    constants = {"WIDTH": first.shape[1], **PRODUCT_LAUNCH}
    launch(edge_products_kernel, grid, products, row, col, first, second, len(col), **constants)
    return products


def attention(crow: Tensor, col: Tensor, centre: Tensor, neighbour: Tensor, slope: float) -> Tensor:
    """Return the softmax over each row of LeakyReLU(`centre[row]` + `neighbour[col]`) for each edge (E), float32."""
    weights = centre.new_empty(len(col))
    strides = centre.stride(0), neighbour.stride(0)
    given = crow, col, centre, neighbour, *strides
    launch(attention_kernel, (len(crow) - 1,), weights, *given, SLOPE=slope, **ATTENTION_LAUNCH)
    return weights


def attention_gradient(
    crow: Tensor, col: Tensor, centre: Tensor, neighbour: Tensor, weights: Tensor, upstream: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `centre` (R) and `neighbour` (C), given the weights and their gradient."""
    gradients = centre.new_empty(len(centre)), neighbour.new_zeros(len(neighbour))
    given = crow, col, centre, neighbour, weights, upstream, centre.stride(0), neighbour.stride(0)
    launch(attention_gradient_kernel, (len(crow) - 1,), *gradients, *given, SLOPE=slope, **ATTENTION_LAUNCH)
    return gradients


@kernel("count")
def edge_products_kernel(
    products_pointer: tl.tensor,
    row_pointer: tl.tensor,
    col_pointer: tl.tensor,
    first_pointer: tl.tensor,
    second_pointer: tl.tensor,
    count: tl.tensor,
    WIDTH: tl.constexpr,
    EDGES: tl.constexpr,
    DEPTH: tl.constexpr,
) -> None:
    """Write the dot products of block `program_id(0)` of edges.

    Args:
        products_pointer: E float32 products to write.
        row_pointer: E rows of `first`.
        col_pointer: E rows of `second`.
        first_pointer: R×WIDTH float32.
        second_pointer: C×WIDTH float32.
        count: E.
        WIDTH: D.
        EDGES: edges of a block.
        DEPTH: columns multiplied at a time.
    """
    edges = tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES)
    inside = edges < count
    left = first_pointer + tl.load(row_pointer + edges, mask=inside, other=0).to(tl.int64)[:, None] * WIDTH
    right = second_pointer + tl.load(col_pointer + edges, mask=inside, other=0).to(tl.int64)[:, None] * WIDTH
    sums = tl.zeros((EDGES, DEPTH), tl.float32)  # added up across threads only once, at the end
    for start in range(0, WIDTH, DEPTH):
        part = (start + tl.arange(0, DEPTH))[None, :]
        wanted = inside[:, None] & (part < WIDTH)
        sums += tl.load(left + part, mask=wanted, other=0.0) * tl.load(right + part, mask=wanted, other=0.0)
    tl.store(products_pointer + edges, tl.sum(sums, 1), mask=inside)


@kernel("centre_stride", "neighbour_stride")
def attention_kernel(
    weights_pointer: tl.tensor,
    crow_pointer: tl.tensor,
    col_pointer: tl.tensor,
    centre_pointer: tl.tensor,
    neighbour_pointer: tl.tensor,
    centre_stride: tl.tensor,
    neighbour_stride: tl.tensor,
    SLOPE: tl.constexpr,
    ENTRIES: tl.constexpr,
) -> None:
    """Write the weights of row number `program_id(0)`.

    Each lane keeps the highest score it has seen and its sum of exponentials below that, so that one pass over the
    scores gives both, and lanes meet only once. The scores are worked out again for the weights, not stored.

    Args:
        weights_pointer: E float32 weights to write.
        crow_pointer: R+1 offsets.
        col_pointer: E columns.
        centre_pointer: R float32.
        neighbour_pointer: C float32.
        centre_stride: numbers from one of `centre` to the next.
        neighbour_stride: numbers from one of `neighbour` to the next.
        SLOPE: of the leaky ReLU, for what is not positive.
        ENTRIES: entries read at a time.
    """
    row = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(crow_pointer + row), tl.load(crow_pointer + row + 1)
    centre = tl.load(centre_pointer + row * centre_stride)
    lanes = tl.arange(0, ENTRIES)
    highest = tl.full((ENTRIES,), _LOWEST, tl.float32)
    totals = tl.zeros((ENTRIES,), tl.float32)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        col = tl.load(col_pointer + start + lanes, mask=inside, other=0).to(tl.int64)
        sums = centre + tl.load(neighbour_pointer + col * neighbour_stride, mask=inside, other=-float("inf"))
        scores = tl.where(sums > 0, sums, SLOPE * sums)
        raised = tl.maximum(highest, scores)
        totals = totals * tl.exp(highest - raised) + tl.exp(scores - raised)
        highest = raised
    top = tl.max(highest, 0)
    total = tl.sum(totals * tl.exp(highest - top), 0)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        col = tl.load(col_pointer + start + lanes, mask=inside, other=0).to(tl.int64)
        sums = centre + tl.load(neighbour_pointer + col * neighbour_stride, mask=inside, other=0.0)
        scores = tl.where(sums > 0, sums, SLOPE * sums)
        tl.store(weights_pointer + start + lanes, tl.exp(scores - top) / total, mask=inside)


@kernel("centre_stride", "neighbour_stride")
def attention_gradient_kernel(
    centre_gradient_pointer: tl.tensor,
    neighbour_gradient_pointer: tl.tensor,
    crow_pointer: tl.tensor,
    col_pointer: tl.tensor,
    centre_pointer: tl.tensor,
    neighbour_pointer: tl.tensor,
    weights_pointer: tl.tensor,
    upstream_pointer: tl.tensor,
    centre_stride: tl.tensor,
    neighbour_stride: tl.tensor,
    SLOPE: tl.constexpr,
    ENTRIES: tl.constexpr,
) -> None:
    """Treat row number `program_id(0)`: the gradient of its centre, and its share of those of its neighbours.

    An entry's sum of centre and neighbour has the gradient w (u - Σ w u) l', w the weights of the row, u their
    gradient and l' the slope of the leaky ReLU, which at zero is the one for negative numbers.

    Args:
        centre_gradient_pointer: R float32 gradient of `centre` to write.
        neighbour_gradient_pointer: C float32 gradient of `neighbour` to add to.
        crow_pointer: R+1 offsets.
        col_pointer: E columns.
        centre_pointer: R float32.
        neighbour_pointer: C float32.
        weights_pointer: E float32 weights.
        upstream_pointer: E float32 gradient of the weights.
        centre_stride: numbers from one of `centre` to the next.
        neighbour_stride: numbers from one of `neighbour` to the next.
        SLOPE: of the leaky ReLU, for what is not positive.
        ENTRIES: entries read at a time.
    """
    row = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(crow_pointer + row), tl.load(crow_pointer + row + 1)
    centre = tl.load(centre_pointer + row * centre_stride)
    lanes = tl.arange(0, ENTRIES)
    products = tl.zeros((ENTRIES,), tl.float32)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        weights = tl.load(weights_pointer + start + lanes, mask=inside, other=0.0)
        products += weights * tl.load(upstream_pointer + start + lanes, mask=inside, other=0.0)
    mean = tl.sum(products, 0)
    gradients = tl.zeros((ENTRIES,), tl.float32)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        col = tl.load(col_pointer + start + lanes, mask=inside, other=0).to(tl.int64)
        sums = centre + tl.load(neighbour_pointer + col * neighbour_stride, mask=inside, other=0.0)
        weights = tl.load(weights_pointer + start + lanes, mask=inside, other=0.0)
        upstream = tl.load(upstream_pointer + start + lanes, mask=inside, other=0.0)
        gradient = weights * (upstream - mean) * tl.where(sums > 0, 1.0, SLOPE)
        tl.atomic_add(neighbour_gradient_pointer + col, gradient, mask=inside, sem="relaxed")
        gradients += gradient
    tl.store(centre_gradient_pointer + row, tl.sum(gradients, 0))
