"""Cosines of pairs of vectors."""

from __future__ import annotations

import numpy as np

from fossil.graph.graph import Array

_PAIRS = 2**17  # pairs of vectors at once


def cosines_between(vectors: Array, first: Array, second: Array) -> Array:
    """Return the cosines of pairs of rows; zero where one of them is zero."""
    lengths = np.linalg.norm(vectors, axis=1)
    found = np.zeros(len(first), np.float32)
    for start in range(0, len(first), _PAIRS):
        a, b = first[start : start + _PAIRS], second[start : start + _PAIRS]
        scale = lengths[a] * lengths[b]
        found[start : start + _PAIRS] = np.einsum("ij,ij->i", vectors[a], vectors[b]) / np.where(scale > 0, scale, 1)
    return found
