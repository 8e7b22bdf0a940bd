"""Costs between and within subgraphs (Section 4.6.1): from embeddings to the matrices of a transport problem."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fossil.ops.precision import full_float32

Similarity = Literal["cosine", "inner_product"]

_HIGHEST_EXPONENT = 43.0
"""The solver squares costs, and exp(2 · 43) is about the most that float32 holds. Cosines stay far below it."""


def exponential_cost(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return exp(-x·y/τ) for all pairs of nodes of paired subgraphs; of cosines, if the vectors have unit length.

    Args:
        first: B×K×D.
        second: B×K×D.
        temperature: τ.

    Returns:
        B×K×K costs, at most exp(43).
    """
    with full_float32():
        products = first @ second.transpose(1, 2)
    return exponential(products, temperature)


def exponential(products: Tensor, temperature: float) -> Tensor:
    """Return exp(-p/τ) of inner products p, at most exp(43)."""
    return torch.exp((products / -temperature).clamp(max=_HIGHEST_EXPONENT))


def thresholded(costs: Tensor, share: float) -> Tensor:
    """Lower each cost matrix (B×K×K) by a point `share` of the way from its least to its greatest entry, cut at zero.

    The released code does this to all costs with a share of 0.1, so that pairs of near neighbours move for free. A
    share of zero leaves the costs as they are, as in the paper.
    """
    if share == 0:
        return costs
    low, high = costs.amin((1, 2), keepdim=True), costs.amax((1, 2), keepdim=True)
    return torch.relu(costs - (low + share * (high - low)))
