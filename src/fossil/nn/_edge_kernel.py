"""Dot products over the edges of a graph and softmax within its rows as GPU programs. Needs Triton.

Tensors are contiguous; offsets are int64, indices int32 or int64.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

# Edges of a program and columns multiplied at a time: 16 numbers of either row for each of 128 threads.
PRODUCT_LAUNCH = {"EDGES": 16, "DEPTH": 128, "num_warps": 4, "enable_fp_fusion": True}
# Entries of a row at a time. Most rows are shorter, and a hub of ten thousand still takes only 40 turns.
SOFTMAX_LAUNCH = {"ENTRIES": 256, "num_warps": 2, "enable_fp_fusion": True}

_LOWEST = tl.constexpr(-3.4028234e38)  # finite, because the difference of two infinities is not a number


def edge_products(row: Tensor, col: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the dot product of `first[row]` and `second[col]` for each edge (E), float32."""
    products = torch.empty(len(col), device=col.device)
    with torch.cuda.device_of(col):  # type: ignore[no-untyped-call]
        edge_products_kernel[(triton.cdiv(len(col), PRODUCT_LAUNCH["EDGES"]),)](
            products, row, col, first, second, len(col), WIDTH=first.shape[1], **PRODUCT_LAUNCH
        )
    return products


def row_softmax(crow: Tensor, scores: Tensor) -> Tensor:
    """Return weights (E) that sum to one within each row, float32."""
    weights = torch.empty_like(scores)
    with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]
        row_softmax_kernel[(len(crow) - 1,)](weights, crow, scores, **SOFTMAX_LAUNCH)
    return weights


def row_softmax_gradient(crow: Tensor, weights: Tensor, upstream: Tensor) -> Tensor:
    """Return the gradient of the scores (E), given the weights and their gradient."""
    gradient = torch.empty_like(weights)
    with torch.cuda.device_of(weights):  # type: ignore[no-untyped-call]
        row_softmax_gradient_kernel[(len(crow) - 1,)](gradient, crow, weights, upstream, **SOFTMAX_LAUNCH)
    return gradient


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
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


@triton.jit  # type: ignore[untyped-decorator]
def row_softmax_kernel(
    weights_pointer: tl.tensor, crow_pointer: tl.tensor, scores_pointer: tl.tensor, ENTRIES: tl.constexpr
) -> None:
    """Write the softmax of row number `program_id(0)`.

    Each lane keeps the highest score it has seen and its sum of exponentials below that, so that one pass over the
    scores gives both, and lanes meet only once.

    Args:
        weights_pointer: E float32 weights to write.
        crow_pointer: R+1 offsets.
        scores_pointer: E float32 scores.
        ENTRIES: entries read at a time.
    """
    begin = tl.load(crow_pointer + tl.program_id(0))
    end = tl.load(crow_pointer + tl.program_id(0) + 1)
    lanes = tl.arange(0, ENTRIES)
    highest = tl.full((ENTRIES,), _LOWEST, tl.float32)
    totals = tl.zeros((ENTRIES,), tl.float32)
    for start in range(begin, end, ENTRIES):
        scores = tl.load(scores_pointer + start + lanes, mask=start + lanes < end, other=-float("inf"))
        raised = tl.maximum(highest, scores)
        totals = totals * tl.exp(highest - raised) + tl.exp(scores - raised)
        highest = raised
    top = tl.max(highest, 0)
    total = tl.sum(totals * tl.exp(highest - top), 0)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        scores = tl.load(scores_pointer + start + lanes, mask=inside, other=0.0)
        tl.store(weights_pointer + start + lanes, tl.exp(scores - top) / total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def row_softmax_gradient_kernel(
    gradient_pointer: tl.tensor,
    crow_pointer: tl.tensor,
    weights_pointer: tl.tensor,
    upstream_pointer: tl.tensor,
    ENTRIES: tl.constexpr,
) -> None:
    """Write w (u - Σ w u) for row number `program_id(0)`, w its weights and u their gradient.

    Args:
        gradient_pointer: E float32 gradient of the scores to write.
        crow_pointer: R+1 offsets.
        weights_pointer: E float32 weights.
        upstream_pointer: E float32 gradient of the weights.
        ENTRIES: entries read at a time.
    """
    begin = tl.load(crow_pointer + tl.program_id(0))
    end = tl.load(crow_pointer + tl.program_id(0) + 1)
    lanes = tl.arange(0, ENTRIES)
    sums = tl.zeros((ENTRIES,), tl.float32)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        weights = tl.load(weights_pointer + start + lanes, mask=inside, other=0.0)
        sums += weights * tl.load(upstream_pointer + start + lanes, mask=inside, other=0.0)
    mean = tl.sum(sums, 0)
    for start in range(begin, end, ENTRIES):
        inside = start + lanes < end
        weights = tl.load(weights_pointer + start + lanes, mask=inside, other=0.0)
        upstream = tl.load(upstream_pointer + start + lanes, mask=inside, other=0.0)
        tl.store(gradient_pointer + start + lanes, weights * (upstream - mean), mask=inside)
