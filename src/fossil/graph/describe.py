"""A graph in a few lines of words."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.sparse.csgraph import connected_components

from fossil.errors import GraphError
from fossil.graph.graph import Array, Graph
from fossil.graph.homophily import edge_homophily
from fossil.graph.published import sizes


def describe_graph(graph: Graph) -> dict[str, str]:
    """Return what there is to know about a graph beside its size, by topic."""
    degree = np.diff(graph.adjacency.indptr)
    _, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component)
    stored = graph.features.nnz if graph.has_sparse_features else np.count_nonzero(graph.features)
    lines = {
        "edges": "directed" if graph.is_directed else "undirected",
        "degree": f"median {np.median(degree):g}, mean {degree.mean():.1f}, greatest {degree.max():,}",
        "components": f"{len(sizes):,}, the largest with {sizes.max():,} nodes",
        "features": f"{'sparse' if graph.has_sparse_features else 'dense'}, "
        f"{100 * stored / max(1, graph.num_nodes * graph.num_features):.1f} % not zero",
        "fingerprint": graph.fingerprint,
    }
    if graph.published_splits:
        lines["splits"] = "; ".join(_splits(name, parts) for name, parts in graph.published_splits.items())
    if graph.labels is not None and graph.labels.ndim == 1 and (graph.labels >= 0).any():
        counts = np.bincount(graph.labels[graph.labels >= 0], minlength=graph.num_classes)
        lines["classes"] = (
            f"{graph.num_classes}, the smallest with {counts.min():,} nodes, the largest {counts.max():,}"
        )
        with suppress(GraphError):  # no edge joins two nodes of known class
            lines["homophily"] = f"{edge_homophily(graph):.3f} of the edges join equal labels"
    return lines


def _splits(name: str, parts: Array) -> str:
    shown = "{:,} training, {:,} validation and {:,} test nodes".format(*sizes(parts))
    return f"{name}, {f'{len(parts)} of them, the first with ' if len(parts) > 1 else ''}{shown}"
