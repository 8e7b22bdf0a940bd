"""The loss of the fusion layer (Section 4.6.3, Eq. 15).

On a GPU the loss of constant branches takes two launches and its gradient one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.ops.autograd import Function
from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.unit import SHORTEST, cosine

_KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class FusionPenalty(NamedTuple):
    """L_θ and what it is the sum of, scalars.

    Attributes:
        total: L_θ.
        similarity: Σ λ cos(H^f, H^s).
        l2: β₁ ||λ||₂.
        mean: β₂ |mean(λ) - (1 - α)|.
    """

    total: Tensor
    similarity: Tensor
    l2: Tensor
    mean: Tensor

    def parts(self) -> dict[str, Tensor]:
        """Return the three parts by the names they have in a history."""
        return {"fusion_similarity": self.similarity, "fusion_l2": self.l2, "fusion_mean": self.mean}


def fusion_penalty(
    fusion: Tensor,
    feature: Tensor,
    structure: Tensor,
    *,
    alpha: float,
    l2: float,
    mean: float,
    population: int | None = None,
) -> FusionPenalty:
    """Return the embedding fusion loss L_θ and its three parts.

    Of M nodes drawn uniformly from N it is what they say of the loss of all: the sum is N/M times theirs, the length of
    λ the root of N/M times theirs, the mean their mean.

    Args:
        fusion: λ, N×1.
        feature: H^f, N×D.
        structure: H^s, N×D.
        alpha: weight of the features in the transport cost; λ is drawn towards 1 - alpha on average.
        l2: β₁, weight of ||λ||₂.
        mean: β₂, weight of |mean(λ) - (1 - alpha)|.
        population: N, where the rows are a sample of it; these rows are all when None.
    """
    if population is not None:
        times = population / max(1, len(fusion))
        weights = {"l2": l2 / times**0.5, "mean": mean / times}
        found = fusion_penalty(fusion, feature, structure, alpha=alpha, **weights)
        return FusionPenalty(*(times * part for part in found))
    if supports(fusion, feature, structure):
        return FusionPenalty(*_LaunchedPenalty.apply(fusion, feature, structure, (float(l2), float(mean), 1.0 - alpha)))
    parts = (
        (fusion.squeeze(1) * cosine(feature, structure)).sum(),
        l2 * fusion.norm(),
        mean * (fusion.mean() - (1 - alpha)).abs(),
    )
    return FusionPenalty(torch.stack(parts).sum(), *parts)


def supports(fusion: Tensor, feature: Tensor, structure: Tensor) -> bool:
    """Tell whether the kernels take λ and the branches, which they hold constant."""
    constant = not torch.is_grad_enabled() or not (feature.requires_grad or structure.requires_grad)
    known = all(each.dtype in _KERNEL_DTYPES and each.numel() for each in (feature, structure))
    return fusion.dtype == torch.float32 and constant and known and triton_runs_on(fusion.device)


class _LaunchedPenalty(Function):
    """The loss and its three parts, differentiated in λ alone."""

    @staticmethod
    def forward(
        ctx: Any, fusion: Tensor, feature: Tensor, structure: Tensor, weights: tuple[float, float, float]
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.weights, fusion = weights[:2], fusion.contiguous()
        values, alike, state = triton("fusion_penalty").penalty(
            fusion, feature.contiguous(), structure.contiguous(), SHORTEST, weights
        )
        ctx.save_for_backward(fusion, alike, state)
        result: tuple[Tensor, ...] = values
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor, None, None, None]:
        gradient: Tensor = triton("fusion_penalty").penalty_gradient(upstream, *ctx.saved_tensors, *ctx.weights)
        return gradient, None, None, None
