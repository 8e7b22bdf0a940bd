"""What is computed for each edge of a graph: dot products of its ends, and attention within the neighbours of a node.

Both are float32 inside `torch.autocast` too, and float64 where they are given float64.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.ops import sparse
from fossil.ops.autograd import Function
from fossil.ops.dispatch import triton
from fossil.ops.precision import at_least_float32
from fossil.ops.rows import rows_of
from fossil.ops.sparse import SparseMatrix

_SLOPE = 0.2  # of the leaky ReLU of attention, for what is not positive


def edge_products(matrix: SparseMatrix, first: Tensor, second: Tensor) -> Tensor:
    """Return the dot product of `first[i]` and `second[j]` for each entry (i, j): E, differentiable in both.

    Args:
        matrix: R×C, whose pattern counts and whose values do not.
        first: R×D.
        second: C×D.
    """
    first, second = at_least_float32(first, second)
    products: Tensor = _EdgeProducts.apply(first, second, matrix)
    return products


def edge_attention(matrix: SparseMatrix, centre: Tensor, neighbour: Tensor) -> Tensor:
    """Return for each entry (i, j) the softmax over row i of LeakyReLU(`centre[i]` + `neighbour[j]`): E.

    Args:
        matrix: R×C, whose pattern counts and whose values do not.
        centre: R.
        neighbour: C.
    """
    centre, neighbour = at_least_float32(centre, neighbour)
    if supports(matrix, centre, neighbour):
        weights: Tensor = _Attention.apply(centre, neighbour, matrix)
        return weights
    scores = rows_of(centre, matrix.row) + rows_of(neighbour, matrix.col)
    scores = torch.nn.functional.leaky_relu(scores, _SLOPE)
    highest = scores.new_full((matrix.shape[0],), -torch.inf)
    highest = highest.scatter_reduce(0, matrix.row, scores.detach(), "amax")
    weights = torch.exp(scores - highest.index_select(0, matrix.row))
    totals = weights.new_zeros(matrix.shape[0]).index_add(0, matrix.row, weights)
    return weights / totals.index_select(0, matrix.row)


def supports(matrix: SparseMatrix, centre: Tensor, neighbour: Tensor) -> bool:
    """Tell whether the kernels attend to these."""
    return matrix.has_kernels and all(each.dtype == torch.float32 and each.numel() for each in (centre, neighbour))


class _EdgeProducts(Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(first, second)
        return sparse.sampled_products(matrix, first, second)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        first, second = ctx.saved_tensors
        needs_first, needs_second, _ = ctx.needs_input_grad
        for_first = sparse.multiply(ctx.matrix, gradients[0], second) if needs_first else None
        for_second = sparse.multiply_transposed(ctx.matrix, gradients[0], first) if needs_second else None
        return for_first, for_second, None


class _Attention(Function):
    @staticmethod
    def forward(ctx: Any, centre: Tensor, neighbour: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        weights: Tensor = triton("edges").attention(matrix.crow, matrix.indices.col, centre, neighbour, _SLOPE)
        ctx.save_for_backward(centre, neighbour, weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        crow, col, upstream = ctx.matrix.crow, ctx.matrix.indices.col, gradients[0].contiguous()
        return *triton("edges").attention_gradient(crow, col, *ctx.saved_tensors, upstream, _SLOPE), None
