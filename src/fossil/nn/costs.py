"""Costs between and within subgraphs (Section 4.6.1): from embeddings to the matrices of a transport problem."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.accelerate import kernels, serves
from fossil.transport.precision import full_float32

Similarity = Literal["cosine", "inner_product"]

_KERNELS = "fossil.nn._cost_kernel"
_LARGEST = 64  # nodes of a subgraph whose costs a GPU program holds


def exponential_cost(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return exp(-x·y/τ) for all pairs of nodes of paired subgraphs; of cosines, if the vectors have unit length.

    Args:
        first: B×K×D.
        second: B×K×D.
        temperature: τ.

    Returns:
        B×K×K costs.
    """
    with full_float32():
        return torch.exp(-(first @ second.transpose(1, 2)) / temperature)


def thresholded(costs: Tensor, share: float) -> Tensor:
    """Lower each cost matrix (B×K×K) by a point `share` of the way from its least to its greatest entry, cut at zero.

    The released code does this to all costs with a share of 0.1, so that pairs of near neighbours move for free. A
    share of zero leaves the costs as they are, as in the paper.
    """
    if share == 0:
        return costs
    low, high = costs.amin((1, 2), keepdim=True), costs.amax((1, 2), keepdim=True)
    return torch.relu(costs - (low + share * (high - low)))


def thresholded_cost(first: Tensor, second: Tensor, temperature: float, share: float) -> Tensor:
    """Return `thresholded(exponential_cost(first, second, temperature), share)`, on a GPU in a few launches: B×K×K."""
    size = first.shape[1]
    fused = first.dtype == torch.float32 and 0 < size <= _LARGEST and len(first) > 0 and serves(first.device)
    if share == 0 or not fused or second.shape[1] != size:
        return thresholded(exponential_cost(first, second, temperature), share)
    with full_float32():
        products = first @ second.transpose(1, 2)
    costs: Tensor = _ThresholdedExponential.apply(products, 1 / temperature, share)  # type: ignore[no-untyped-call]
    return costs


class _ThresholdedExponential(torch.autograd.Function):
    """Costs from inner products, by GPU kernels."""

    @staticmethod
    def forward(ctx: Any, products: Tensor, rate: float, share: float) -> Tensor:
        ctx.save_for_backward(products)
        ctx.settings = rate, share
        costs = torch.empty_like(products)
        _launch(kernels(_KERNELS).cost_kernel, costs, (products,), rate, share)
        return costs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (products,) = ctx.saved_tensors
        gradient = torch.empty_like(products)
        _launch(kernels(_KERNELS).cost_gradient_kernel, gradient, (products, gradients[0].contiguous()), *ctx.settings)
        return gradient, None, None


def _launch(kernel: Any, out: Tensor, inputs: tuple[Tensor, ...], rate: float, share: float) -> None:
    count, size, _ = out.shape
    width = max(16, 1 << (size - 1).bit_length())
    kernel[(count,)](out, *inputs, size, rate, share, WIDTH=width, num_warps=1 if width == 16 else 4)
