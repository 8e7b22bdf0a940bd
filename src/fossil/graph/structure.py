"""Normalised adjacency matrices, normalised features and node centralities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Array, Features

Centrality = Literal["none", "degree", "degree_by_nodes", "degree_by_sum", "pagerank", "eigenvector"]


def symmetric_normalized(adjacency: sp.csr_array, *, self_loops: bool) -> sp.csr_array:
    """Return D^-1/2 A D^-1/2 with D the row sums, or the same of A + I; rows without edges stay zero."""
    matrix = adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr") if self_loops else adjacency
    degree = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
    scale = sp.diags_array(np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0))
    return sp.csr_array(scale @ matrix @ scale).astype(np.float32)


def row_means(adjacency: sp.csr_array) -> sp.csr_array:
    """Return D^-1 A with D the row sums: means over the nodes that a node points to; rows without edges stay zero."""
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)
    return sp.csr_array(sp.diags_array(inverse) @ adjacency).astype(np.float32)


def undirected(adjacency: sp.csr_array) -> sp.csr_array:
    """Return the zeros and ones of A or Aᵀ (N×N) without self-loops."""
    edges = sp.csr_array(adjacency + adjacency.T)
    edges.setdiag(0)
    edges.eliminate_zeros()
    edges.data = np.ones_like(edges.data)
    return edges


def row_normalized(features: Features) -> Features:
    """Return `features` (N×F, dense or SciPy sparse) with each row divided by the sum of its absolute values.

    For counts and other non-negative features that is the sum of the row. A plain sum of signed features may be near
    zero and would blow the row up. Rows of zeros stay.
    """
    totals = np.asarray(abs(features).sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1, totals, out=np.zeros_like(totals), where=totals > 0)
    if sp.issparse(features):
        return sp.csr_array(sp.diags_array(inverse) @ features).astype(np.float32)
    return (features * inverse[:, None]).astype(np.float32)


def centrality(adjacency: sp.csr_array, kind: Centrality) -> Array | None:
    """Return one number per node for the fusion layer (N, float32), or None for `none` (Table 6 of the paper).

    `degree` counts the edges that leave a node; `degree_by_nodes` divides it by N-1, `degree_by_sum` by the sum of all
    degrees; `pagerank` and `eigenvector` are the usual global measures.
    """
    if kind == "none":
        return None
    return _MEASURES[kind](adjacency).astype(np.float32)


def _degree(adjacency: sp.csr_array) -> Array:
    return np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()


def _degree_by_nodes(adjacency: sp.csr_array) -> Array:
    degree = _degree(adjacency)
    return degree / max(1, len(degree) - 1)


def _degree_by_sum(adjacency: sp.csr_array) -> Array:
    degree = _degree(adjacency)
    return degree / max(1.0, float(degree.sum()))


def _pagerank(adjacency: sp.csr_array, damping: float = 0.85) -> Array:
    """Stationary distribution of a surfer who follows a random edge, or jumps anywhere with probability 0.15."""
    nodes = adjacency.shape[0]
    degree = _degree(adjacency)
    inverse = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)
    step = sp.csr_array(sp.diags_array(inverse) @ adjacency).T.tocsr()
    rank: Array = np.full(nodes, 1 / nodes)
    for _ in range(200):
        stranded = rank[degree == 0].sum()
        following: Array = damping * (step @ rank + stranded / nodes) + (1 - damping) / nodes
        if np.abs(following - rank).sum() < 1e-10:
            return following
        rank = following
    return rank


def _eigenvector(adjacency: sp.csr_array) -> Array:
    """Leading eigenvector of the transposed adjacency (a node is central if central nodes point to it), unit length."""
    towards = adjacency.T.tocsr().astype(np.float64)
    nodes = int(adjacency.shape[0])
    vector: Array = np.full(nodes, nodes**-0.5)
    for _ in range(2000):
        # A + I has the same eigenvectors and, unlike A of a bipartite graph, one eigenvalue of greatest modulus.
        following: Array = towards @ vector + vector
        following /= np.linalg.norm(following)
        if np.abs(following - vector).sum() < 1e-9 * nodes:
            return following
        vector = following
    return vector


_MEASURES: dict[str, Callable[[sp.csr_array], Array]] = {
    "degree": _degree,
    "degree_by_nodes": _degree_by_nodes,
    "degree_by_sum": _degree_by_sum,
    "pagerank": _pagerank,
    "eigenvector": _eigenvector,
}

assert set(_MEASURES) | {"none"} == set(get_args(Centrality))
