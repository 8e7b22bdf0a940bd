"""The one interface of a search for neighbours."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fossil.errors import SettingError
from fossil.graph.graph import Array


class Nearest(NamedTuple):
    """The K vectors nearest to each of Q others, the nearest first.

    Attributes:
        rows: Q×K numbers of vectors.
        similarities: Q×K cosines, float32; a vector of length zero is at a right angle to all others.
    """

    rows: Array
    similarities: Array


class Neighbours(Protocol):
    """Finds neighbours among the vectors it was made of."""

    def nearest(self, rows: Array, k: int) -> Nearest:
        """Return the k vectors nearest to each of those in `rows`, itself left out; all others where there are fewer.

        Raises:
            SettingError: k is below one.
        """


def bounded(k: int, count: int) -> int:
    """Return how many neighbours there are to be found among `count` vectors.

    Raises:
        SettingError: k is below one.
    """
    if k < 1:
        raise SettingError(f"k={k} is not accepted.", remedy="Ask for one neighbour or more.")
    return min(k, count - 1)


def unit_rows(vectors: Array) -> Array:
    """Return vectors of length one, float32; one of length zero stays as it is.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    # In float64, in which neither the square of a large number nor that of a small one is lost.
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return (wide / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def best(rows: Array, similarities: Array, k: int) -> Nearest:
    """Return the k most similar of each row's candidates (Q×C), in order; of equal ones the one that comes first."""
    if rows.shape[1] > k:
        kept = np.argpartition(-similarities, k - 1, axis=1)[:, :k]
        least = np.take_along_axis(similarities, kept, axis=1).min(axis=1, keepdims=True)
        tied = (similarities >= least).sum(axis=1) > k  # a partition takes any of those that are equal to the last
        kept[tied] = np.argsort(-similarities[tied], axis=1, kind="stable")[:, :k]
        rows, similarities = (np.take_along_axis(each, kept, axis=1) for each in (rows, similarities))
    order = np.lexsort((rows, -similarities), axis=1)
    return Nearest(np.take_along_axis(rows, order, axis=1), np.take_along_axis(similarities, order, axis=1))
