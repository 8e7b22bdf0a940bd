"""One direction of a graph's edges as two arrays, in memory or on disk, worked through in ranges of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fossil.graph.blocks import mapped
from fossil.graph.graph import Array

EDGES_AT_ONCE = 1 << 21


class Csr(NamedTuple):
    """Which nodes each node lists: N+1 places where its list begins, and E nodes, every list sorted."""

    indptr: Array
    indices: Array

    @classmethod
    def of(cls, folder: Path, way: str) -> Csr:
        """Open the arrays of that name, without loading them."""
        return cls(mapped(folder / f"{way}_indptr.npy"), mapped(folder / f"{way}_indices.npy"))

    @property
    def degrees(self) -> Array:
        """N; how many nodes each one lists."""
        return np.diff(self.indptr.astype(np.int64, copy=False))

    def rows(self, first: int, last: int) -> tuple[Array, Array]:
        """Return the edges of a range of rows: the rows, and what they list."""
        degrees: Array = np.diff(self.indptr[first : last + 1].astype(np.int64))
        listed = self.indices[int(self.indptr[first]) : int(self.indptr[last])]
        return np.repeat(np.arange(first, last, dtype=np.int64), degrees), listed

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of rows that fit in memory."""
        return ranges(self.indptr, EDGES_AT_ONCE)

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        """Yield all edges as rows and what they list."""
        for first, last in self.ranges():
            yield self.rows(first, last)

    def reversed_pairs(self) -> Iterator[tuple[Array, Array]]:
        """Yield all edges the other way round."""
        for row, listed in self.pairs():
            yield listed.astype(np.int64), row

    def neighbours(self, nodes: Array) -> Iterator[Array]:
        """Yield what these nodes list, one list after the other, many of them at a time."""
        starts = self.indptr[nodes].astype(np.int64)
        before = np.concatenate([[0], np.cumsum(self.indptr[nodes + 1].astype(np.int64) - starts)])
        for first, last in ranges(before, EDGES_AT_ONCE):
            within = np.arange(before[first], before[last])
            shift = np.repeat(starts[first:last] - before[first:last], np.diff(before[first : last + 1]))
            yield self.indices[within + shift]

    def lists(self, rows: Array, nodes: Array) -> Array:
        """Tell for each pair whether the row lists the node, by binary search in all lists at once."""
        low, end = self.indptr[rows].astype(np.int64), self.indptr[rows + 1].astype(np.int64)
        high = end.copy()
        searched: Array = np.flatnonzero(low < high)
        while len(searched):
            middle = (low[searched] + high[searched]) // 2
            below = self.indices[middle] < nodes[searched]
            low[searched[below]] = middle[below] + 1
            high[searched[~below]] = middle[~below]
            searched = searched[low[searched] < high[searched]]
        found: Array = low < end
        found[found] = self.indices[low[found]] == nodes[found]
        return found

    def sums(self, values: Array) -> Array:
        """Return for each row the sum of the values (N) of the nodes that it lists."""
        total = np.empty(len(self.indptr) - 1, np.float64)
        for first, last in self.ranges():
            row, listed = self.rows(first, last)
            total[first:last] = np.bincount(row - first, weights=values[listed], minlength=last - first)
        return total


def ranges(before: Array, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that hold at most so many entries, or are a single row; `before` counts those before one.

    >>> list(ranges(np.array([0, 2, 3, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    before = before.astype(np.int64, copy=False)  # else every search below would make it so
    first, rows = 0, len(before) - 1
    while first < rows:
        last = int(np.searchsorted(before, int(before[first]) + most, side="right")) - 1
        last = min(rows, max(first + 1, last))
        yield first, last
        first = last


def both_ways(forward: Csr, backward: Csr) -> Iterator[tuple[Array, Array, int]]:
    """Yield the same rows of both directions as sorted numbers, a pair each, with N."""
    nodes = len(forward.indptr) - 1
    for start, stop in forward.ranges():
        # A range of rows that holds few pairs in one direction may hold many in the other.
        for first, last in ranges(backward.indptr[start : stop + 1], EDGES_AT_ONCE):
            rows = (each.rows(start + first, start + last) for each in (forward, backward))
            ahead, back = (row * nodes + listed for row, listed in rows)
            yield ahead, back, nodes


def union(forward: Csr, backward: Csr, *, loops: bool) -> Iterator[tuple[Array, Array]]:
    """Yield the edges of both directions together as rows and what they list, self loops among them or not."""
    for ahead, back, nodes in both_ways(forward, backward):
        row, listed = np.divmod(np.union1d(ahead, back), nodes)
        yield (row, listed) if loops else (row[row != listed], listed[row != listed])
