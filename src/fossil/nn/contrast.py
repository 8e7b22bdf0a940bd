"""The two contrastive losses (Section 4.6)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fossil.nn.unit import unit_vectors

# Rows of a tile of similarities. Two such tiles live at once: 8 MiB on a CPU, 512 MiB on a GPU.
_TILE_ROWS = {"cpu": 1024, "cuda": 8192}


def node_contrast(first: Tensor, second: Tensor, temperature: float, *, tile_rows: int | None = None) -> Tensor:
    """Symmetric InfoNCE between two views of the same nodes, own-view negatives included (Eq. 12 and 13).

    Exact, in O(N·D) memory: both directions are row sums of one symmetric 2N×2N matrix of cosines with its diagonal
    left out, so tiles above the diagonal suffice; the backward pass computes each tile again.

    Args:
        first: H, N×D.
        second: Ĥ, N×D.
        temperature: τ; from 0.05 on, float32 sums cannot underflow.
        tile_rows: rows of a tile; the device decides when None.

    Returns:
        The mean over nodes and both directions, a scalar.
    """
    stacked = unit_vectors(torch.cat([first, second]))
    rows = tile_rows or _TILE_ROWS.get(stacked.device.type, 1024)
    loss: Tensor = _StreamingInfoNCE.apply(stacked, temperature, rows)  # type: ignore[no-untyped-call]
    return loss


class _StreamingInfoNCE(torch.autograd.Function):
    """Mean over the rows r of Z = [U; V] of log Σ_{c≠r} exp(z_r·z_c/τ) - z_r·z_pair(r)/τ."""

    @staticmethod
    def forward(ctx: Any, stacked: Tensor, temperature: float, rows: int) -> Tensor:
        totals = stacked.new_zeros(len(stacked))
        for top, left, weights in _tiles(stacked, temperature, rows):
            totals[top] += weights.sum(1)
            if top != left:
                totals[left] += weights.sum(0)
        ctx.save_for_backward(stacked, totals)
        ctx.temperature, ctx.rows = temperature, rows
        first, second = stacked.chunk(2)
        # Every exponent was lowered by 1/τ, the largest it can be.
        positive = (first * second).sum(1).mean() / temperature
        return totals.log().mean() + 1 / temperature - positive

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        stacked, totals = ctx.saved_tensors
        share = totals.reciprocal()
        result = torch.zeros_like(stacked)
        for top, left, weights in _tiles(stacked, ctx.temperature, ctx.rows):
            weights *= share[top, None] + share[None, left]
            result[top] += weights @ stacked[left]
            if top != left:
                result[left] += weights.T @ stacked[top]
        result -= 2 * stacked.roll(len(stacked) // 2, 0)
        return result * (gradients[0] / (ctx.temperature * len(stacked))), None, None


def _tiles(stacked: Tensor, temperature: float, rows: int) -> Any:
    """Yield (rows, columns, exp((z_r·z_c - 1)/τ)) for tiles on and above the diagonal, the diagonal itself zero."""
    slices = [slice(start, min(start + rows, len(stacked))) for start in range(0, len(stacked), rows)]
    for i, top in enumerate(slices):
        for left in slices[i:]:
            weights = stacked[top] @ stacked[left].T
            weights.sub_(1).div_(temperature).exp_()
            if top == left:
                weights.fill_diagonal_(0)
            yield top, left, weights


def subgraph_contrast(scores: Tensor, positives: int) -> Tensor:
    """Binary cross-entropy on subgraph similarities (Eq. 11): the first `positives` scores are of equal pairs.

    Args:
        scores: similarity of each pair, for example exp(-D/τ), used as logits.
        positives: how many of them come first and should be high.

    Returns:
        The mean over all pairs, a scalar.
    """
    labels = torch.zeros_like(scores)
    labels[:positives] = 1
    return nn.functional.binary_cross_entropy_with_logits(scores, labels)


def effective_rank(embeddings: Tensor) -> Tensor:
    """Return how many directions the embeddings (N×D) use: (tr C)² / ||C||² of the covariance C of their unit vectors.

    One means that all nodes lie on a line, D that all directions matter alike. Lengths are left out, because the losses
    see angles alone and a few long vectors would hide the rest.
    """
    unit = unit_vectors(embeddings)
    centred = unit - unit.mean(0)
    covariance = centred.T @ centred
    return covariance.trace().square() / covariance.square().sum().clamp_min(torch.finfo(covariance.dtype).tiny)
