"""A small graph that trains in no time, and settings to match."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Graph
from fossil.readers.read import LoadedGraph
from fossil.runs.embeddings import FitResult
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.training.progress import Reporter
from fossil.training.trainer import TrainingSettings

NODES = 20
SMALL = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 6}
CPU = TrainingSettings(epochs=3, device="cpu", checkpoint_seconds=0)


def ring(name: str = "ring", labels: bool = True) -> LoadedGraph:
    forward = np.roll(np.eye(NODES, dtype=np.float32), 1, axis=1)
    features = np.random.default_rng(0).normal(size=(NODES, 5)).astype(np.float32)
    ids = np.array([f"n{i}" for i in range(NODES)])
    known = np.arange(NODES) % 2 if labels else None
    return LoadedGraph(Graph(name, sp.csr_array(forward + forward.T), features, ids, known))


def fit_ring(source: Any = None, reporter: Reporter | None = None, **asked: Any) -> FitResult:
    """Train FOSSIL on the ring, or on `source`, with small settings, unless something else is asked for."""
    given = {"method": "fossil", "settings": SMALL, "training": CPU} | asked
    return fit(plan_run(ring() if source is None else source, **given), reporter)
