"""Vectors keyed by node id, and what a fit returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.graph.graph import Array, Graph
from fossil.methods.base import Method
from fossil.runs.config import RunConfig


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors of nodes.

    Attributes:
        ids: N node ids.
        vectors: N×D float32.
        fusion: λ per node (N), where the method has it.
    """

    ids: Array
    vectors: Array
    fusion: Array | None

    def __getitem__(self, key: object) -> Array:
        """Return the vector of one node, by its id.

        Raises:
            GraphError: there is no such node.
        """
        row = self._rows.get(str(key))
        if row is None:
            raise GraphError(f"Node {str(key)!r} has no vector here.", remedy="Check the spelling.")
        vector: Array = self.vectors[row]
        return vector

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {str(key): row for row, key in enumerate(self.ids.tolist())}


@dataclass(frozen=True, eq=False)
class FitResult(Embeddings):
    """The vectors of a graph's nodes, and how they came about.

    Attributes:
        graph: what was embedded.
        method: the trained method.
        config: what was asked for, every setting resolved.
        history: one record an epoch.
        path: the run folder, if there is one.
    """

    graph: Graph
    method: Method[Any]
    config: RunConfig
    history: list[dict[str, float]]
    path: Path | None = None
