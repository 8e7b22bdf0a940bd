"""A run to explore: directed edges, hostile ids, labels that are missing here and there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Graph
from fossil.readers.read import LoadedGraph
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.runs.run import Run

NODES = 120
HOSTILE = ["<script>alert(1)</script>", "</script><!--", "\u202eevil", "a\x00\nb", "quote\"'", "javascript:alert(1)"]


def hostile_run(folder: Path, method: str = "features") -> Run:
    """Make a run on a sparse random graph, whose last node has no edge."""
    random = np.random.default_rng(0)
    adjacency = sp.random_array((NODES, NODES), density=0.03, rng=random, format="csr")
    adjacency.setdiag(0)
    kept = np.ones(NODES)
    kept[-1] = 0
    adjacency = sp.csr_array(sp.diags_array(kept) @ (adjacency > 0).astype(np.float32) @ sp.diags_array(kept))
    adjacency.eliminate_zeros()
    ids = np.array([*HOSTILE, *(f"node {i}" for i in range(len(HOSTILE), NODES))])
    labels = random.integers(-1, 3, size=NODES)
    features = random.normal(size=(NODES, 6)).astype(np.float32)
    names = ("red", "<b>green</b>", "blue")
    graph = Graph("<i>town</i>", adjacency, features, ids, labels, label_names=names)
    fit(plan_run(LoadedGraph(graph), method=method, out=folder))
    return Run.open(folder)
