"""The nearest vectors of every node, by cosine."""

from __future__ import annotations

import numpy as np

from fossil.graph.graph import Array

_CHUNK = 2**24  # cosines at once
_PAIRS = 2**17  # pairs of vectors at once


def nearest_rows(vectors: Array, count: int) -> tuple[Array, Array]:
    """Return for each row the `count` others of the greatest cosine, nearest first, and these cosines: N×count each.

    Exact, in O(N²·D) time and O(N) memory. Where there are fewer others, rows are as long as there are.
    """
    nodes = len(vectors)
    count = min(count, nodes - 1)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    rows, cosines = np.empty((nodes, count), np.int64), np.empty((nodes, count), np.float32)
    size = max(1, _CHUNK // max(nodes, 1))
    for start in range(0, nodes if count else 0, size):
        chunk = unit[start : start + size] @ unit.T
        own = np.arange(len(chunk))
        chunk[own, start + own] = -np.inf
        some = np.argpartition(chunk, -count, axis=1)[:, -count:]
        order = np.argsort(-np.take_along_axis(chunk, some, 1), axis=1, kind="stable")
        rows[start : start + size] = np.take_along_axis(some, order, 1)
        cosines[start : start + size] = np.take_along_axis(chunk, rows[start : start + size], 1)
    return rows, cosines


def cosines_between(vectors: Array, first: Array, second: Array) -> Array:
    """Return the cosines of pairs of rows; zero where one of them is zero."""
    lengths = np.linalg.norm(vectors, axis=1)
    found = np.zeros(len(first), np.float32)
    for start in range(0, len(first), _PAIRS):
        a, b = first[start : start + _PAIRS], second[start : start + _PAIRS]
        scale = lengths[a] * lengths[b]
        found[start : start + _PAIRS] = np.einsum("ij,ij->i", vectors[a], vectors[b]) / np.where(scale > 0, scale, 1)
    return found
