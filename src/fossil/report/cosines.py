"""Cosines of pairs of vectors."""

from __future__ import annotations

import numpy as np

from fossil.graph.graph import Array
from fossil.neighbours.base import unit_rows

_PAIRS = 2**14  # pairs of vectors at once


def cosines_between(vectors: Array, first: Array, second: Array) -> Array:
    """Return the cosines of pairs of rows; zero where one of them is zero."""
    found = np.zeros(len(first), np.float32)
    for start in range(0, len(first), _PAIRS):
        a, b = (unit_rows(vectors[ends[start : start + _PAIRS]]) for ends in (first, second))
        found[start : start + _PAIRS] = np.einsum("ij,ij->i", a, b)
    return found
