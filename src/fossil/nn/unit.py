"""Directions of vectors, safe for nodes that have none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.accelerate import kernels, power_of_two, serves
from fossil.nn._stretches import stretches

SHORTEST = 1e-6
"""Vectors no longer than this have no direction."""

_KERNELS = "fossil.nn._row_kernel"


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return each vector (last dimension) divided by its length; one shorter than 1e-6 stays as it is.

    A node without features and edges has a zero embedding. Dividing by a tiny constant in place of its length would
    give it a gradient of 1e12 and drown all others. It can be differentiated once.
    """
    unit: Tensor = _UnitVectors.apply(vectors)  # type: ignore[no-untyped-call]
    return unit


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine between paired vectors, along the last dimension."""
    return (unit_vectors(first) * unit_vectors(second)).sum(-1)


class _UnitVectors(torch.autograd.Function):
    """Lengths are kept as -1 for vectors that are too short."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        if _is_fused(vectors):
            rows = vectors.contiguous()
            unit, length = torch.empty_like(rows), rows.new_empty(rows.shape[:-1])
            width = rows.shape[-1]
            kernels(_KERNELS).unit_kernel[(length.numel(),)](
                unit, length, rows, SHORTEST, width, BLOCK=power_of_two(width)
            )
        else:
            wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
            measured = torch.linalg.vector_norm(wide, dim=-1)
            length = torch.where(measured > SHORTEST, measured, -1)
            unit = wide / torch.where(measured > SHORTEST, measured, 1)[..., None]
        ctx.save_for_backward(unit, length)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        unit, length = ctx.saved_tensors
        outer = gradients[0].contiguous()
        if _is_fused(unit) and outer.dtype == unit.dtype:
            gradient, width = torch.empty_like(unit), unit.shape[-1]
            kernels(_KERNELS).unit_gradient_kernel[(length.numel(),)](
                gradient, unit, length, outer, width, BLOCK=power_of_two(width)
            )
            return gradient
        plain: Tensor = unit.new_empty(unit.shape)
        lengths = length.flatten()
        flat = [each.reshape(-1, unit.shape[-1]) for each in (plain, unit, outer)]
        for rows in stretches(*flat[0].shape):
            target, direction, upstream = (each[rows] for each in flat)
            along = torch.where(lengths[rows] > 0, (direction * upstream).sum(1), 0)
            torch.addcmul(upstream, direction, along[:, None], value=-1, out=target).div_(lengths[rows].abs()[:, None])
        return plain


def _is_fused(vectors: Tensor) -> bool:
    return vectors.dtype == torch.float32 and vectors.numel() > 0 and serves(vectors.device)
