"""A run of which next to nothing is in memory, for functions that look at a few nodes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Array, Graph
from fossil.runs.run import Run


@dataclass(frozen=True, eq=False)
class LightRun(Run):
    """A finished run whose vectors stay in their file, and whose graph has ids and labels alone.

    Attributes:
        graph: without edges and features.
        arrays: `ids`, `vectors`, and `fusion` or `channel_NAME` where the method has it.
    """

    graph: Graph
    arrays: dict[str, Array]

    @classmethod
    def of(cls, run: Run) -> LightRun:
        """Return the light part of a run."""
        nodes = run.graph.num_nodes
        bare = replace(
            run.graph,
            adjacency=sp.csr_array((nodes, nodes), dtype=np.float32),
            features=np.empty((nodes, 0), np.float32),
            feature_names=(),
            published_splits={},
        )
        return cls(run.path, bare, run.arrays | {"vectors": run.mapped_vectors})
