"""A graph without some of its edges and features, and what was taken out, to ask vectors about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.graph import Array, Graph
from fossil.graph.structure import undirected
from fossil.seeding import numpy_generator


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A graph to train on, and what it was not told.

    Attributes:
        graph: without these edges and columns.
        edges: pairs of nodes that were joined, in either direction or both, and no longer are (2×M).
        non_edges: as many pairs of nodes that never were (2×M).
        columns: numbers of the feature columns that were taken out (C), in rising order.
        values: what stood in them (N×C, float32).
    """

    graph: Graph
    edges: Array
    non_edges: Array
    columns: Array
    values: Array


def hold_out(graph: Graph, *, edges: float = 0.05, columns: float = 0.1, seed: int = 0) -> HeldOut:
    """Take a share of the edges and of the feature columns out of a graph, at random; at least one of each.

    An edge goes in both directions, because one of them would tell the other. Nodes, labels and self-loops stay.

    Args:
        graph: it stays as it is.
        edges: share of the pairs of joined nodes.
        columns: share of the feature columns.
        seed: of the draw.

    Raises:
        GraphError: no edge, no column or nothing else would be left, or too few pairs of nodes are not joined.
    """
    random, joined = numpy_generator(seed, "held out"), _joined(graph)
    pairs, width = max(1, round(edges * len(joined))), max(1, round(columns * graph.num_features))
    if pairs >= len(joined) or width >= graph.num_features:
        raise GraphError(
            f"{graph.name} has {len(joined):,} pairs of joined nodes and {graph.num_features:,} features, of which "
            f"{pairs:,} and {width:,} cannot be held out.",
            remedy="Hold out a smaller share, of a graph that has at least two of each.",
        )
    chosen = np.sort(random.choice(joined, pairs, replace=False))
    taken = np.sort(random.choice(graph.num_features, width, replace=False))
    values = graph.features[:, taken]
    remaining = np.delete(np.arange(graph.num_features), taken)
    smaller = replace(
        graph,
        adjacency=_without(graph.adjacency, chosen),
        features=graph.features[:, remaining],
        feature_names=tuple(graph.feature_names[i] for i in remaining) if graph.feature_names else (),
    )
    return HeldOut(
        graph=smaller,
        edges=_ends(chosen, graph.num_nodes),
        non_edges=_ends(_never_joined(graph, joined, pairs, random), graph.num_nodes),
        columns=taken,
        values=np.asarray(values.toarray() if sp.issparse(values) else values, np.float32),
    )


# A pair of nodes i < j is the number i N + j.


def _joined(graph: Graph) -> Array:
    """Return every pair of joined nodes once, in rising order."""
    found = sp.triu(undirected(graph.adjacency), k=1).tocoo()
    return np.sort(_numbers(found.row, found.col, graph.num_nodes))


def _numbers(first: Array, second: Array, nodes: int) -> Array:
    return np.minimum(first, second).astype(np.int64) * nodes + np.maximum(first, second)


def _ends(pairs: Array, nodes: int) -> Array:
    return np.stack(np.divmod(pairs, nodes))


def _without(adjacency: sp.csr_array, pairs: Array) -> sp.csr_array:
    """Return the matrix without the entries of these pairs, on either side of the diagonal."""
    entries = adjacency.tocoo()
    stays = ~np.isin(_numbers(entries.row, entries.col, adjacency.shape[0]), pairs)
    kept = (entries.data[stays], (entries.row[stays], entries.col[stays]))
    return sp.csr_array(kept, shape=adjacency.shape)


def _never_joined(graph: Graph, joined: Array, count: int, random: np.random.Generator) -> Array:
    """Draw distinct pairs of distinct nodes that no edge joins."""
    nodes = graph.num_nodes
    there_are = nodes * (nodes - 1) // 2 - len(joined)
    if there_are < count:
        raise GraphError(
            f"{graph.name} has {there_are:,} pairs of nodes that are not joined, and {count:,} are to be compared.",
            remedy="Hold out fewer edges.",
        )
    found = np.empty(0, np.int64)
    while len(found) < count:
        first, second = random.integers(nodes, size=(2, 2 * count))
        drawn = _numbers(first, second, nodes)[first != second]
        found = np.unique(np.concatenate([found, drawn[~np.isin(drawn, joined)]]))
    return np.sort(random.choice(found, count, replace=False))
