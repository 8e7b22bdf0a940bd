"""Node features made of nothing but the edges, for graphs that have no columns of their own."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Array
from fossil.graph.structure import undirected
from fossil.readers.column import ColumnPlan, fit_scale

STRUCTURAL_NAMES = ("log_out_degree", "log_in_degree", "clustering", "core_number", "pagerank")
_WEDGES_AT_ONCE = 1 << 24


def structural_matrix(
    adjacency: sp.csr_array, plan: tuple[ColumnPlan, ...] = ()
) -> tuple[Array, tuple[ColumnPlan, ...]]:
    """Return N×5 standardised structural features and the scaling used.

    Args:
        adjacency: N×N CSR; directions count for degrees and PageRank, not for clustering and core number.
        plan: the scaling of an earlier graph, to describe new nodes in the same units; fitted when empty.
    """
    columns = structural_columns(adjacency).T
    plan = plan or tuple(fit_scale(name, column) for name, column in zip(STRUCTURAL_NAMES, columns, strict=True))
    scaled = [scaling.standardise(column) for scaling, column in zip(plan, columns, strict=True)]
    return np.stack(scaled, axis=1).astype(np.float32), plan


def structural_columns(adjacency: sp.csr_array) -> Array:
    """Return the N×5 raw values: log(1 + degrees), clustering, core number, and N times PageRank."""
    both_ways = undirected(adjacency).astype(np.float64)  # clustering counts triangles
    return np.stack(
        [
            np.log1p(np.diff(adjacency.indptr)),
            np.log1p(np.bincount(adjacency.indices, minlength=adjacency.shape[0])),
            clustering(both_ways),
            core_numbers(both_ways).astype(np.float64),
            # N times the probability: 1 is average in a graph of any size.
            pagerank(adjacency) * adjacency.shape[0],
        ],
        axis=1,
    )


def clustering(adjacency: sp.csr_array) -> Array:
    """Return the share of each node's pairs of neighbours that are linked, for a symmetric graph without loops."""
    degree = np.diff(adjacency.indptr).astype(np.float64)
    pairs = degree * (degree - 1) / 2
    return np.asarray(_triangles(adjacency, degree) / np.maximum(pairs, 1.0))


def _triangles(adjacency: sp.csr_array, degree: Array) -> Array:
    """Count the triangles at every node.

    Edges are pointed from low to high degree, so that hubs have few outgoing edges and every triangle a, b, c is
    met once, as a -> b -> c with a -> c.
    """
    nodes = len(degree)
    order = np.lexsort((np.arange(nodes), degree))
    place = np.empty(nodes, np.int64)
    place[order] = np.arange(nodes)
    rows, columns = adjacency.nonzero()
    upward = place[rows] < place[columns]
    onward = sp.csr_array((np.ones(int(upward.sum())), (rows[upward], columns[upward])), shape=adjacency.shape)
    backward = sp.csr_array(onward.T)
    out_degree = np.diff(onward.indptr).astype(np.float64)
    counts = np.zeros(nodes)
    # Blocks of rows bound the memory of the products.
    wedges = np.cumsum(onward @ out_degree + backward @ out_degree)
    start = 0
    while start < nodes:
        before = wedges[start - 1] if start else 0.0
        stop = max(start + 1, int(np.searchsorted(wedges, before + _WEDGES_AT_ONCE)))
        block = onward[start:stop]
        first_and_last = (block @ onward).multiply(block)
        counts[start:stop] += first_and_last.sum(axis=1) + (backward[start:stop] @ onward).multiply(block).sum(axis=1)
        counts += first_and_last.sum(axis=0)
        start = stop
    return counts


def core_numbers(adjacency: sp.csr_array) -> Array:
    """Return the largest k such that the node survives in the k-core, for a symmetric graph without loops."""
    degree = np.diff(adjacency.indptr).astype(np.int64)
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
        met, times = np.unique(adjacency[leaving].indices, return_counts=True)
        degree[met] -= times
        leaving = met[alive[met] & (degree[met] <= level)]
    return core


def pagerank(adjacency: sp.csr_array, damping: float = 0.85, tolerance: float = 1e-12, rounds: int = 500) -> Array:
    """Return the stationary probabilities of a walk that follows edges, or starts anew with chance 1 - damping."""
    nodes = adjacency.shape[0]
    degree = np.diff(adjacency.indptr).astype(np.float64)
    pattern = sp.csr_array((np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    backward = sp.csr_array(pattern.T)
    ends = degree == 0
    rank = np.full(nodes, 1.0 / nodes)
    for _ in range(rounds):
        share = rank / np.maximum(degree, 1.0)
        updated = damping * (backward @ share + rank[ends].sum() / nodes) + (1 - damping) / nodes
        moved = np.abs(updated - rank).sum()
        rank = updated
        if moved < tolerance:
            break
    return np.asarray(rank)
