"""Node features made of nothing but the edges, for graphs that have no columns of their own.

Edges are read in ranges of rows, so that they may lie on disk; in memory are a few numbers a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from fossil.graph.csr import Csr, ranges
from fossil.graph.graph import Array
from fossil.graph.structure import undirected
from fossil.readers.column import ColumnPlan, fit_scale

STRUCTURAL_NAMES = ("log_out_degree", "log_in_degree", "clustering", "core_number", "pagerank")
_WEDGES_AT_ONCE = 1 << 22


class Ways(NamedTuple):
    """The edges of a graph as they go, as they come, and both together without self loops."""

    out: Csr
    into: Csr
    both: Csr

    @classmethod
    def of(cls, adjacency: sp.csr_array) -> Ways:
        """Return those of N×N CSR."""
        return cls(*map(_pattern, (adjacency, sp.csr_array(adjacency.T), undirected(adjacency))))


def _pattern(matrix: sp.csr_array) -> Csr:
    matrix = matrix.sorted_indices()
    return Csr(matrix.indptr, matrix.indices)


def structural_matrix(
    adjacency: sp.csr_array, plan: tuple[ColumnPlan, ...] = ()
) -> tuple[Array, tuple[ColumnPlan, ...]]:
    """Return N×5 standardised structural features and the scaling used.

    Args:
        adjacency: N×N CSR; directions count for degrees and PageRank, not for clustering and core number.
        plan: the scaling of an earlier graph, to describe new nodes in the same units; fitted when empty.
    """
    columns = list(structural_columns(Ways.of(adjacency)))
    plan = plan or tuple(fit_scale(name, column) for name, column in zip(STRUCTURAL_NAMES, columns, strict=True))
    scaled = [scaling.standardise(column) for scaling, column in zip(plan, columns, strict=True)]
    return np.stack(scaled, axis=1).astype(np.float32), plan


def structural_columns(ways: Ways) -> Iterator[Array]:
    """Yield N raw values each of: log(1 + degree), out and in, clustering, core number, and N times PageRank."""
    yield np.log1p(ways.out.degrees)
    yield np.log1p(ways.into.degrees)
    yield clustering(ways.both)
    yield core_numbers(ways.both).astype(np.float64)
    # N times the probability: 1 is average in a graph of any size.
    yield pagerank(ways.out, ways.into) * (len(ways.out.indptr) - 1)


def clustering(edges: Csr) -> Array:
    """Return the share of each node's pairs of neighbours that are linked, for a symmetric graph without loops."""
    degree = edges.degrees
    return np.asarray(_triangles(edges, degree) / np.maximum(degree * (degree - 1) / 2, 1.0))


def _triangles(edges: Csr, degree: Array) -> Array:
    """Count the triangles at every node.

    Edges are pointed from low to high degree, so that hubs have few outgoing edges, and every triangle is met once: at
    its lowest node, as a pair of outgoing edges whose ends are linked.
    """
    counts = np.zeros(len(degree), np.int64)
    for first, last in edges.ranges():
        row, listed = edges.rows(first, last)
        higher = (degree[listed] > degree[row]) | ((degree[listed] == degree[row]) & (listed > row))
        row, listed = row[higher], listed[higher].astype(np.int64)
        for one, other in _pairs_within(row):
            b, c = listed[one], listed[other]
            from_b = degree[b] <= degree[c]  # the shorter list is searched
            linked = edges.lists(np.where(from_b, b, c), np.where(from_b, c, b))
            for corner in (row[one], b, c):
                np.add.at(counts, corner[linked], 1)
    return counts


def _pairs_within(row: Array) -> Iterator[tuple[Array, Array]]:
    """Yield all pairs of positions that are in the same row, of rows in order, many at a time."""
    place = np.arange(len(row))
    later = np.searchsorted(row, row, side="right") - place - 1  # in the same row
    before = np.concatenate([[0], np.cumsum(later)])
    for first, last in ranges(before, _WEDGES_AT_ONCE):
        one = np.repeat(place[first:last], later[first:last])
        yield one, one + 1 + np.arange(before[first], before[last]) - before[one]


def core_numbers(edges: Csr) -> Array:
    """Return the largest k such that the node survives in the k-core, for a symmetric graph without loops."""
    degree = edges.degrees
    core = np.zeros(len(degree), np.int64)
    alive = np.ones(len(degree), bool)
    level = 0
    leaving: Array = np.flatnonzero(degree <= level)
    remaining = len(degree)
    while remaining:
        if len(leaving) == 0:
            level = int(degree[alive].min())
            leaving = np.flatnonzero(alive & (degree <= level))
        core[leaving] = level
        alive[leaving] = False
        remaining -= len(leaving)
        fallen = [np.empty(0, np.int64)]
        for listed in edges.neighbours(leaving):
            met, times = np.unique(listed, return_counts=True)
            degree[met] -= times
            fallen.append(met[alive[met] & (degree[met] <= level)])
        leaving = np.unique(np.concatenate(fallen))
    return core


def pagerank(out: Csr, into: Csr, damping: float = 0.85, tolerance: float = 1e-12, rounds: int = 500) -> Array:
    """Return the stationary probabilities of a walk that follows edges, or starts anew with chance 1 - damping."""
    degree = out.degrees
    nodes, ends = len(degree), degree == 0
    rank = np.full(nodes, 1.0 / nodes)
    for _ in range(rounds):
        share = rank / np.maximum(degree, 1.0)
        updated = damping * (into.sums(share) + rank[ends].sum() / nodes) + (1 - damping) / nodes
        moved = np.abs(updated - rank).sum()
        rank = updated
        if moved < tolerance:
            break
    return rank
