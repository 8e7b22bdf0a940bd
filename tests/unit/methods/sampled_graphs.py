"""Graphs on which a sampled step is held to the full one: hubs, isolated nodes, directions, self-loops."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Graph


def hub_graph(*, directed: bool, nodes: int = 90, features: int = 7, sparse: bool = False) -> Graph:
    """Return a graph in which node 0 is joined to half of the others and the last five to nobody."""
    draw = np.random.default_rng(3)
    edges = draw.random((nodes, nodes)) < 0.06
    edges[0, : nodes // 2] = True
    edges[nodes // 3 : nodes // 2, 0] = True
    edges[nodes - 5 :] = edges[:, nodes - 5 :] = False
    np.fill_diagonal(edges, False)
    matrix = edges if directed else edges | edges.T
    values = draw.standard_normal((nodes, features)).astype(np.float32)
    given = sp.csr_array(np.where(values > 0.3, values, 0)) if sparse else values
    return Graph("hubs", sp.csr_array(matrix.astype(np.float32)), given, np.arange(nodes))
