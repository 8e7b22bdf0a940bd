"""A small directed graph, in which some nodes have one neighbour."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Graph

NODES, FEATURES = 25, 6


def make_graph(*, sparse: bool = False) -> Graph:
    random = np.random.default_rng(0)
    edges = random.random((NODES, NODES)) < 0.15
    np.fill_diagonal(edges, False)
    features = random.normal(size=(NODES, FEATURES)).astype(np.float32)
    features[features < 0] = 0
    return Graph(
        "town", sp.csr_array(edges.astype(np.float32)), sp.csr_array(features) if sparse else features, np.arange(NODES)
    )
