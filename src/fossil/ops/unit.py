"""Directions of vectors, safe for nodes that have none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.ops.autograd import Function
from fossil.ops.chunks import row_chunks
from fossil.ops.dispatch import triton, triton_runs_on

SHORTEST = 1e-6
"""Vectors no longer than this have no direction."""


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return each vector (last dimension) divided by its length; one shorter than 1e-6 stays as it is.

    A node without features and edges has a zero embedding. Dividing by a tiny constant in place of its length would
    give it a gradient of 1e12 and drown all others. It can be differentiated once.
    """
    unit: Tensor = _UnitVectors.apply(vectors)
    return unit


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine between paired vectors, along the last dimension."""
    return (unit_vectors(first) * unit_vectors(second)).sum(-1)


def supports(vectors: Tensor) -> bool:
    """Tell whether the kernels take vectors."""
    return vectors.dtype == torch.float32 and vectors.numel() > 0 and triton_runs_on(vectors.device)


class _UnitVectors(Function):
    """Lengths are kept as -1 for vectors that are too short."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        ctx.launched = supports(vectors)
        if ctx.launched:
            unit, length = triton("unit").unit_vectors(vectors.contiguous(), SHORTEST)
        else:
            wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
            measured = torch.linalg.vector_norm(wide, dim=-1)
            length = torch.where(measured > SHORTEST, measured, -1)
            unit = wide / torch.where(measured > SHORTEST, measured, 1)[..., None]
        ctx.save_for_backward(unit, length)
        result: Tensor = unit
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        unit, length = ctx.saved_tensors
        outer = gradients[0].contiguous()
        if ctx.launched and outer.dtype == unit.dtype:
            gradient: Tensor = triton("unit").gradient(unit, length, outer)
            return gradient
        plain: Tensor = unit.new_empty(unit.shape)
        lengths = length.flatten()
        flat = [each.reshape(-1, unit.shape[-1]) for each in (plain, unit, outer)]
        for rows in row_chunks(*flat[0].shape):
            target, direction, upstream = (each[rows] for each in flat)
            along = torch.where(lengths[rows] > 0, (direction * upstream).sum(1), 0)
            torch.addcmul(upstream, direction, along[:, None], value=-1, out=target).div_(lengths[rows].abs()[:, None])
        return plain
