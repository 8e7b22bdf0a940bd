"""How often neighbours carry the same label: H(G) of the paper's Table 1, and its per-node variant."""

from __future__ import annotations

import numpy as np

from fossil.errors import GraphError
from fossil.graph.graph import Array, Graph


def edge_homophily(graph: Graph) -> float:
    """Return the share of directed edges that join two nodes of the same class.

    Edges at a node of unknown class are left out.

    Raises:
        GraphError: the graph has no single class per node, or no edge between nodes of known class.
    """
    _, _, same = _labelled_edges(graph)
    return float(same.mean())


def node_homophily(graph: Graph) -> float:
    """Return the mean, over nodes of known class, of the share of their incoming edges that come from the same class.

    A node without incoming edges counts as zero, as in PyTorch Geometric: directed graphs score low for that reason.

    Raises:
        GraphError: as for `edge_homophily`.
    """
    labels, target, same = _labelled_edges(graph)
    incoming = np.bincount(target, minlength=graph.num_nodes)
    agreeing = np.bincount(target[same], minlength=graph.num_nodes)
    share = agreeing / np.maximum(incoming, 1)
    return float(share[labels >= 0].mean())


def _labelled_edges(graph: Graph) -> tuple[Array, Array, Array]:
    """Return the labels, and for each edge between nodes of known class its target and whether both ends agree."""
    labels = graph.labels
    if labels is None or labels.ndim != 1:
        kind = "no labels" if labels is None else f"{labels.shape[1]} binary tasks"
        raise GraphError(f"{graph.name} has {kind}.", remedy="Homophily needs one class per node.")
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.adjacency.indptr))
    target = graph.adjacency.indices
    known = (labels[source] >= 0) & (labels[target] >= 0)
    if not known.any():
        raise GraphError(
            f"{graph.name} has no edge between two nodes of known class.", remedy="Homophily is not defined for it."
        )
    source, target = source[known], target[known]
    return labels, target, labels[source] == labels[target]
