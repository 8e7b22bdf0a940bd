"""The node loss: symmetric InfoNCE between two views, exact and in O(N·D) memory (Section 4.6.2)."""

from __future__ import annotations

import time
from typing import Any, get_args

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.errors import SettingError
from fossil.ops.affinities import Affinities, can_be_kept, kept_bytes, taking_part
from fossil.ops.autograd import Function
from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.precision import Products, ambient_products, products_in
from fossil.ops.ranks import ranks
from fossil.ops.unit import SHORTEST, unit_vectors

_TIMED_NODES = 2048


def node_contrast(
    first: Tensor,
    second: Tensor,
    temperature: float,
    *,
    count: Tensor | None = None,
    products: Products | None = None,
    tile_rows: int | None = None,
) -> Tensor:
    """Symmetric InfoNCE between two views of the same nodes, own-view negatives included (Eq. 12 and 13).

    Exact, without an N×N matrix: both directions are row sums of one symmetric 2N×2N matrix of cosines with its
    diagonal left out, so what is on and above the diagonal suffices, a tile or a strip of it at a time; the backward
    pass computes it again, but for small graphs, up to 5,792 nodes on a CPU and 8,192 on a GPU, where it is kept. On a
    GPU the host never waits, and all shapes are fixed, so that a CUDA graph can capture it. It can be
    differentiated once. Among several ranks (`fossil.ops.ranks`) the tiles are divided where PyTorch computes them, and
    their row sums added up; the kernels of a GPU are not.

    Args:
        first: H, N×D.
        second: Ĥ, N×D.
        temperature: τ; from 0.05 on, float32 sums cannot underflow.
        count: 0-dimensional, int64, on the same device: only that many rows of either view take part, and the mean is
            over them. The others can hold anything and get a gradient of exactly zero. Below 1 the loss is zero.
        products: precision of the products of vectors, forward and backward; sums, exponentials, logarithms and the
            gradient are float32 in any case. On a GPU `tf32` and `bfloat16` are the same where Triton is installed:
            cosines of float16 numbers, which hold a unit vector as exactly as TF32 would, and in the gradient sums of
            bfloat16 numbers, whose errors average out: from a hundred nodes on they are less than 1e-3 of it. On a CPU
            `tf32` means `float32`, and `bfloat16` saves time where the processor has instructions for it. None means
            `bfloat16` inside `torch.autocast` to it, else `tf32` on a GPU where PyTorch is allowed to use it, else
            `float32`. Float64 vectors are multiplied in float64, whatever is said here.
        tile_rows: rows of a tile, and the most of a strip; the device and N decide when None.

    Returns:
        The mean over nodes and both directions, a scalar.

    Raises:
        SettingError: the views are not two matrices of one shape, or `products` is unknown.

    >>> nodes = torch.eye(4)
    >>> round(node_contrast(nodes, nodes, temperature=0.5).item(), 4)  # log(e² + 6) - 2
    0.5944
    """
    if first.dim() != 2 or first.shape != second.shape:
        raise SettingError(
            f"Views of shapes {tuple(first.shape)} and {tuple(second.shape)} cannot be contrasted.",
            remedy="Give two matrices with a row for each node.",
        )
    if products is None:
        products = ambient_products(first.device)
    elif products not in get_args(Products):
        raise SettingError(f"products={products!r} is not accepted.", remedy=f"Use one of {get_args(Products)}.")
    with torch.autocast(first.device.type, enabled=False):
        if supports(first, second):
            loss: Tensor = _LaunchedInfoNCE.apply(first, second, count, temperature, products, tile_rows)
            return loss
        exact = torch.float64 in (first.dtype, second.dtype)
        return _plain_contrast(first, second, count, temperature, "float32" if exact else products, tile_rows)


def supports(first: Tensor, second: Tensor) -> bool:
    """Tell whether the kernels take two views."""
    return torch.float64 not in (first.dtype, second.dtype) and first.numel() > 0 and triton_runs_on(first.device)


def node_contrast_memory(nodes: int, device: torch.device) -> int:
    """Return about how many bytes `node_contrast` keeps of the similarities for its backward pass."""
    return kept_bytes(2 * nodes, device)


def node_contrast_seconds(nodes: int, width: int) -> float:
    """Return about how long `node_contrast` of so many nodes takes a CPU with its gradient, measured on a few of them.

    The time grows with the square of the number, so that a moment tells of hours.
    """
    random = torch.Generator().manual_seed(0)
    first, second = (torch.randn(_TIMED_NODES, width, generator=random).requires_grad_() for _ in range(2))
    with torch.enable_grad():
        began = time.perf_counter()
        loss = node_contrast(first, second, temperature=0.5, tile_rows=_TIMED_NODES // 2)  # so that nothing is kept
        torch.autograd.grad(loss, (first, second))
    return (time.perf_counter() - began) * (nodes / _TIMED_NODES) ** 2


def _plain_contrast(
    first: Tensor,
    second: Tensor,
    count: Tensor | None,
    temperature: float,
    products: Products,
    tile_rows: int | None,
) -> Tensor:
    """Return the loss as PyTorch computes it on any device."""
    if count is not None and first.device.type == "cpu":
        number = max(int(count), 0)
        first, second, count = first[:number], second[:number], None
    stacked = torch.cat([first, second])
    stacked = stacked.to(torch.promote_types(stacked.dtype, torch.float32))
    if not len(stacked):
        return stacked.sum()
    if count is not None:
        # Before they become unit vectors: what padding holds must not reach the gradient even as 0 times NaN.
        stacked = torch.where(taking_part(stacked, count)[:, None], stacked, 0)
    loss: Tensor = _PlainInfoNCE.apply(unit_vectors(stacked), count, temperature, products, tile_rows)
    return loss


class _PlainInfoNCE(Function):
    """Mean over the rows r of Z = [U; V], unit vectors, of log Σ_{c≠r} exp(z_r·z_c/τ) - z_r·z_pair(r)/τ."""

    @staticmethod
    def forward(
        ctx: Any,
        unit: Tensor,
        count: Tensor | None,
        temperature: float,
        products: Products,
        tile_rows: int | None,
    ) -> Tensor:
        kept: list[Tensor] | None = [] if ctx.needs_input_grad[0] and can_be_kept(unit, tile_rows) else None
        ctx.settings = temperature, products, tile_rows, kept, ranks()
        with products_in(products, unit.device):
            totals = ranks().all_reduce(Affinities(unit, count, *ctx.settings).row_sums())
        # Every exponent was lowered by 1/τ.
        logarithms, share = totals.log() + 1 / temperature, totals.reciprocal()
        if count is not None:
            active = taking_part(unit, count)
            logarithms, share = torch.where(active, logarithms, 0), torch.where(active, share, 0)
        ctx.save_for_backward(unit, share, count)
        first, second = unit.chunk(2)
        loss: Tensor = (logarithms.sum() / 2 - (first * second).sum() / temperature) / _number(unit, count)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        unit, share, count = ctx.saved_tensors
        with torch.autocast(unit.device.type, enabled=False), products_in(ctx.settings[1], unit.device):
            scale = gradients[0] / (2 * ctx.settings[0] * _number(unit, count))
            # A rank's own tiles count as often as there are ranks, because gradients are averaged over them.
            result = Affinities(unit, count, *ctx.settings).pull(share * (scale * ctx.settings[-1].world_size))
            for mine, other in zip(result.chunk(2), reversed(unit.chunk(2)), strict=True):
                mine.addcmul_(other, scale, value=-2)
        return result, None, None, None, None


class _LaunchedInfoNCE(Function):
    """The same by kernels, from the vectors themselves."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        count: Tensor | None,
        temperature: float,
        products: Products,
        tile_rows: int | None,
    ) -> Tensor:
        ctx.settings, ctx.kind = (temperature, products, tile_rows), torch.promote_types(first.dtype, second.dtype)
        keep = any(ctx.needs_input_grad[:2])
        loss, state = triton("infonce").node_contrast((first, second), count, *ctx.settings, SHORTEST, keep=keep)
        ctx.kept = state.kept
        ctx.save_for_backward(*state.pairs, state.share, count)
        result: Tensor = loss
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        version = triton("infonce")
        *pairs, share, count = ctx.saved_tensors
        # What was kept is used up, so that another backward pass has to compute it again.
        state, ctx.kept = version.State(version.UnitPairs(*pairs), share, count, ctx.kept), None
        return *version.gradients(gradients[0], state, *ctx.settings, ctx.kind), None, None, None, None


def _number(unit: Tensor, count: Tensor | None) -> int | Tensor:
    """Return how many nodes the mean is over, at least one."""
    nodes = len(unit) // 2
    return nodes if count is None else count.clamp(1, nodes)
