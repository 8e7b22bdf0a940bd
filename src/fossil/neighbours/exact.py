"""Neighbours by comparing with every vector, in blocks."""

from __future__ import annotations

import numpy as np

from fossil.graph.graph import Array
from fossil.neighbours.base import Nearest, best, bounded, unit_rows

_QUERIES = 256  # at a time
_BLOCK = 16_384  # vectors they are compared with at a time: 16 MB of similarities


class ExactNeighbours:
    """Finds the true neighbours; the time of a search grows with the number of vectors.

    Args:
        vectors: N×D; a copy of them at length one is kept.

    >>> found = ExactNeighbours(np.array([[1.0, 0], [0, 1], [1, 1], [2, 1]])).nearest(np.array([0]), k=2)
    >>> found.rows.tolist(), found.similarities.round(3).tolist()
    ([[3, 2]], [[0.8939999938011169, 0.7070000171661377]])
    """

    def __init__(self, vectors: Array) -> None:
        self._units = np.empty(vectors.shape, np.float32)
        for start in range(0, len(vectors), _BLOCK):
            self._units[start : start + _BLOCK] = unit_rows(vectors[start : start + _BLOCK])

    def nearest(self, rows: Array, k: int) -> Nearest:
        """Return the k vectors nearest to each of those in `rows`, itself left out; all others where there are fewer.

        Raises:
            SettingError: k is below one.
        """
        rows, count = np.asarray(rows, np.int64), bounded(k, len(self._units))
        parts = [self._nearest(rows[start : start + _QUERIES], count) for start in range(0, len(rows), _QUERIES)]
        if not parts:
            return Nearest(np.empty((0, count), np.int64), np.empty((0, count), np.float32))
        return Nearest(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _nearest(self, rows: Array, k: int) -> Nearest:
        queries = self._units[rows]
        found = Nearest(np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0), np.float32))
        for start in range(0, len(self._units), _BLOCK):
            block = self._units[start : start + _BLOCK]
            places = np.broadcast_to(np.arange(start, start + len(block)), (len(rows), len(block)))
            alike = np.where(places == rows[:, None], np.float32(-np.inf), queries @ block.T)
            kept = best(places, alike, min(k + 1, len(block)))  # one more: the vector itself may be among them
            both = Nearest(*(np.concatenate(pair, axis=1) for pair in zip(found, kept, strict=True)))
            found = best(both.rows, both.similarities, k + 1)
        return Nearest(found.rows[:, :k], found.similarities[:, :k])
