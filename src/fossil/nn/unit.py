"""Directions of vectors, safe for nodes that have none."""

from __future__ import annotations

import torch
from torch import Tensor

_SHORTEST = 1e-6


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return each vector (last dimension) divided by its length; one shorter than 1e-6 stays as it is.

    A node without features and edges has a zero embedding. Dividing by a tiny constant in place of its length would
    give it a gradient of 1e12 and drown all others.
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > _SHORTEST, length, torch.ones_like(length))


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Return the cosine between paired vectors, along the last dimension."""
    return (unit_vectors(first) * unit_vectors(second)).sum(-1)
