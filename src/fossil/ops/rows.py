"""Rows of a matrix: gathered by index, or multiplied with two vectors, as attention scores nodes.

A matrix product of so few columns is bound by memory, but PyTorch's own on a GPU takes several times as long as reading
its input once does, and so does its gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.ops.autograd import Function
from fossil.ops.dispatch import triton, triton_runs_on

_KERNEL_DTYPES = (torch.float32, torch.bfloat16)


def rows_of(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]`; its gradient adds up repeated rows without sorting them first, as that of `[]` does."""
    return values.index_select(0, index.flatten()).view(*index.shape, *values.shape[1:])


def row_products(values: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the dot products of each row with either vector, N each.

    On a GPU the products are one launch that reads the values once, and float32 in full whatever precision PyTorch's
    own have; the backward pass is another, with a small sum. That can be differentiated once.

    Args:
        values: N×D.
        first: 1×D.
        second: 1×D.
    """
    if supports(values, first, second):
        products: Tensor = _RowProducts.apply(values, first, second)
    else:
        products = (values @ torch.cat([first, second]).T).T
    of_first, of_second = products.unbind()
    return of_first, of_second


def supports(values: Tensor, first: Tensor, second: Tensor) -> bool:
    """Tell whether the kernels take values and vectors."""
    known = values.dtype in _KERNEL_DTYPES and first.dtype == second.dtype == torch.float32
    laid_out = all(each.is_contiguous() and each.numel() > 0 for each in (values, first, second))
    return known and laid_out and triton_runs_on(values.device)


class _RowProducts(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, first: Tensor, second: Tensor) -> Tensor:
        ctx.save_for_backward(values, first, second)
        products: Tensor = triton("rows").row_products(values, first, second)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        for_values, for_vectors = triton("rows").gradients(upstream[0].contiguous(), *ctx.saved_tensors)
        return for_values, *for_vectors.split(1)
