"""Dot products of all rows of a matrix with two vectors, as attention scores nodes with.

A matrix product of so few columns is bound by memory, but PyTorch's own on a GPU takes several times as long as reading
its input once does, and so does its gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.accelerate import kernels, serves

_KERNELS = "fossil.nn._score_kernel"
_KERNEL_TYPES = (torch.float32, torch.bfloat16)


def row_products(values: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the dot products of each row with either vector, N each.

    On a GPU the products are one launch that reads the values once, and float32 in full whatever precision PyTorch's
    own have; the backward pass is another, with a small sum. That can be differentiated once.

    Args:
        values: N×D.
        first: 1×D.
        second: 1×D.
    """
    if _are_served(values, first, second):
        products: Tensor = _RowProducts.apply(values, first, second)  # type: ignore[no-untyped-call]
    else:
        products = (values @ torch.cat([first, second]).T).T
    of_first, of_second = products.unbind()
    return of_first, of_second


class _RowProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, first: Tensor, second: Tensor) -> Tensor:
        ctx.save_for_backward(values, first, second)
        products: Tensor = kernels(_KERNELS).row_products(values, first, second)
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        for_values, for_vectors = kernels(_KERNELS).gradients(upstream[0].contiguous(), *ctx.saved_tensors)
        return for_values, *for_vectors.split(1)


def _are_served(values: Tensor, first: Tensor, second: Tensor) -> bool:
    """Tell whether the kernels take them."""
    known = values.dtype in _KERNEL_TYPES and first.dtype == second.dtype == torch.float32
    laid_out = all(each.is_contiguous() and each.numel() > 0 for each in (values, first, second))
    return known and laid_out and serves(values.device)
