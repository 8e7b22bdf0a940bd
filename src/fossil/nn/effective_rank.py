"""How many directions embeddings use: what a collapse is told by."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.ops.unit import unit_vectors

_RANKED_ROWS = 4096
_NUMBERS_AT_ONCE = 1 << 25  # of the rows whose rank is found: 128 MiB of float32


def effective_rank(embeddings: Tensor) -> Tensor:
    """Return how many directions the embeddings (N×D) use: (tr C)² / ||C||² of the covariance C of their unit vectors.

    One means that all nodes lie on a line, D that all directions matter alike. Lengths are left out, because the losses
    see angles alone and a few long vectors would hide the rest.
    """
    nodes, width = embeddings.shape
    wide = width > nodes  # products of rows have the same trace and length, and are fewer
    if not wide and embeddings.numel() > _NUMBERS_AT_ONCE:  # two passes over rows that may take most of the memory
        parts = embeddings.split(max(1, _NUMBERS_AT_ONCE // width))
        centre = torch.stack([unit_vectors(part).sum(0) for part in parts]).sum(0) / nodes
        products = embeddings.new_zeros(width, width)
        for part in parts:
            centred = unit_vectors(part) - centre
            products = products + centred.T @ centred
    else:
        unit = unit_vectors(embeddings)
        centred = unit - unit.mean(0)
        products = centred @ centred.T if wide else centred.T @ centred
    return products.trace().square() / products.square().sum().clamp_min(torch.finfo(products.dtype).tiny)


def sampled_rank(embeddings: Tensor) -> Tensor:
    """Return the `effective_rank` of at most 4,096 rows, evenly spaced, which every step can afford.

    Of r directions that matter alike, n rows show about r / (1 + r/n).
    """
    return effective_rank(embeddings[:: max(1, -(-len(embeddings) // _RANKED_ROWS))])
