"""Costs of a pair of subgraphs from their inner products, one GPU program per pair. Needs Triton."""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

_FAR = tl.constexpr(3.4e38)


@triton.jit  # type: ignore[untyped-decorator]
def _load(pointer: tl.tensor, pair: tl.tensor, size: tl.tensor, WIDTH: tl.constexpr) -> tl.tensor:
    """Load the K×K matrix of a pair, zeros beyond it; return it with its places and which of them exist."""
    lanes = tl.arange(0, WIDTH)
    inside = (lanes < size)[:, None] & (lanes < size)[None, :]
    places = pair * size * size + lanes[:, None] * size + lanes[None, :]
    return tl.load(pointer + places, mask=inside, other=0.0), places, inside


@triton.jit  # type: ignore[untyped-decorator]
def _least(values: tl.tensor, inside: tl.tensor) -> tl.tensor:
    return tl.min(tl.min(tl.where(inside, values, _FAR), 1), 0)


@triton.jit  # type: ignore[untyped-decorator]
def _greatest(values: tl.tensor, inside: tl.tensor) -> tl.tensor:
    return tl.max(tl.max(tl.where(inside, values, -_FAR), 1), 0)


@triton.jit  # type: ignore[untyped-decorator]
def _total(values: tl.tensor) -> tl.tensor:
    return tl.sum(tl.sum(values, 1), 0)


@triton.jit  # type: ignore[untyped-decorator]
def cost_kernel(
    cost_pointer: tl.tensor,
    product_pointer: tl.tensor,
    size: tl.tensor,
    rate: tl.tensor,
    share: tl.tensor,
    WIDTH: tl.constexpr,
) -> None:
    """Write exp(-s/τ), lowered by a point `share` of the way from the pair's least to its greatest, and cut at zero.

    Args:
        cost_pointer: B×K×K costs to write.
        product_pointer: B×K×K inner products (s).
        size: K.
        rate: 1/τ.
        share: of the range.
        WIDTH: a power of two, at least K.
    """
    pair = tl.program_id(0).to(tl.int64)
    product, places, inside = _load(product_pointer, pair, size, WIDTH)
    value = tl.exp(-product * rate)
    low = _least(value, inside)
    point = low + share * (_greatest(value, inside) - low)
    tl.store(cost_pointer + places, tl.maximum(value - point, 0.0), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def cost_gradient_kernel(
    gradient_pointer: tl.tensor,
    product_pointer: tl.tensor,
    outer_pointer: tl.tensor,
    size: tl.tensor,
    rate: tl.tensor,
    share: tl.tensor,
    WIDTH: tl.constexpr,
) -> None:
    """Write the gradient in the inner products; equal extremes share theirs, as in PyTorch.

    Args:
        gradient_pointer: B×K×K gradients to write.
        product_pointer: B×K×K inner products.
        outer_pointer: B×K×K gradients in the costs.
        size: K.
        rate: 1/τ.
        share: of the range.
        WIDTH: a power of two, at least K.
    """
    pair = tl.program_id(0).to(tl.int64)
    product, places, inside = _load(product_pointer, pair, size, WIDTH)
    outer, _, _ = _load(outer_pointer, pair, size, WIDTH)
    value = tl.exp(-product * rate)
    low = _least(value, inside)
    high = _greatest(value, inside)
    outer = tl.where(inside & (value > low + share * (high - low)), outer, 0.0)
    total = _total(outer)
    lowest = (inside & (value == low)).to(tl.float32)
    highest = (inside & (value == high)).to(tl.float32)
    outer -= total * ((1 - share) * lowest / _total(lowest) + share * highest / _total(highest))
    tl.store(gradient_pointer + places, -rate * value * outer, mask=inside)
