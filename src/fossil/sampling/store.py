"""A graph whose arrays lie where there is room for them: on the card, in the host's memory, or on disk.

Nothing here is as large as the graph but the arrays themselves; what is read of them at a time is asked for by node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.errors import GraphError
from fossil.graph.blocks import index_dtype
from fossil.graph.csr import Csr, union
from fossil.graph.disk import DiskGraph
from fossil.graph.graph import Array, Graph
from fossil.graph.structure import undirected
from fossil.guard.budget import in_bytes
from fossil.ops.memory import free_memory
from fossil.sampling.feature_rows import FeatureRows, shared_tensor
from fossil.sampling.neighbourhoods import Adjacency

EdgeDirection = Literal["out", "in", "both"]
"""Which nodes are neighbours of a node: those it points to, those that point to it, or either, itself left out."""

_ROWS = 1 << 20  # looked at for self-loops at a time


@dataclass(frozen=True, eq=False)
class GraphStore:
    """The arrays of a graph, wherever they lie.

    Attributes:
        adjacency: edges by their direction; an undirected graph without self-loops has one CSR for all three.
        features: X.
    """

    adjacency: Mapping[EdgeDirection, Adjacency]
    features: FeatureRows

    @classmethod
    def undirected(cls, edges: Adjacency, features: FeatureRows) -> GraphStore:
        """Return the store of a graph whose every edge has its reverse, and none joins a node to itself."""
        return cls({"out": edges, "in": edges, "both": edges}, features)

    @classmethod
    def of(cls, graph: Graph, directions: Sequence[EdgeDirection] = ("out", "in", "both")) -> GraphStore:
        """Return a graph's arrays on the host, sharing its memory, or its files where they are mapped.

        Args:
            graph: in memory, or on disk.
            directions: those that are needed; of a directed graph, `both` is made in memory.
        """
        features = FeatureRows.of(graph.features)
        if isinstance(graph, DiskGraph):
            out = _sharing(graph.out_indptr, graph.out_indices)
        else:
            out = _from_scipy(graph.adjacency)
        if not graph.is_directed and not ("both" in directions and _has_self_loops(out)):
            return cls.undirected(out, features)

        def adjacency(direction: EdgeDirection) -> Adjacency:
            if direction == "out" or (direction == "in" and not graph.is_directed):
                return out
            if isinstance(graph, DiskGraph):
                return _sharing(graph.in_indptr, graph.in_indices) if direction == "in" else _either_way(graph)
            return _from_scipy(sp.csr_array(graph.adjacency.T) if direction == "in" else undirected(graph.adjacency))

        return cls({direction: adjacency(direction) for direction in directions}, features)

    @property
    def edge_bytes(self) -> int:
        """What the edges of all directions take, each array counted once."""
        arrays = {array.data_ptr(): array for edges in self.adjacency.values() for array in edges}
        return sum(array.nbytes for array in arrays.values())

    def moved(self, name: str, device: torch.device) -> GraphStore:
        """Return the store with its `edges` or its `features` on a device."""
        if name == "features":
            return replace(self, features=self.features.to(device))
        return self.with_edges(lambda edges: Adjacency(edges.crow.to(device), edges.col.to(device)))

    def with_edges(self, convert: Callable[[Adjacency], Adjacency]) -> GraphStore:
        """Return the store with its edges converted, once what several directions share."""
        converted: dict[int, Adjacency] = {}
        for edges in self.adjacency.values():
            address = edges.crow.data_ptr()
            if address not in converted:
                converted[address] = convert(edges)
        adjacency = {direction: converted[edges.crow.data_ptr()] for direction, edges in self.adjacency.items()}
        return replace(self, adjacency=adjacency)

    def pinned(self) -> GraphStore:
        """Return the store with its features in memory that a card reads directly."""
        data = self.features.data
        if not isinstance(data, Tensor):
            return self
        return replace(self, features=replace(self.features, data=data.pin_memory()))

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.adjacency["out"].num_nodes

    @property
    def device(self) -> torch.device:
        """Where the edges lie, and where neighbours are drawn."""
        return self.adjacency["out"].crow.device

    def scaled(self, factor: float) -> GraphStore:
        """Return the same with all features multiplied by a number."""
        return replace(self, features=replace(self.features, scale=self.features.scale * factor))

    def row_normalized(self) -> GraphStore:
        """Return the same with each node's features divided by the sum of their absolute values."""
        return replace(self, features=replace(self.features, row_normalized=True))


def _from_scipy(matrix: sp.csr_array) -> Adjacency:
    ordered = matrix.sorted_indices()
    return _sharing(ordered.indptr, ordered.indices)


def _sharing(indptr: Array, indices: Array) -> Adjacency:
    """Return edges that share the memory of their arrays, where offsets have 64 bits."""
    return Adjacency(shared_tensor(indptr).long(), shared_tensor(indices))


def _either_way(graph: DiskGraph) -> Adjacency:
    """Return in- and out-neighbours of each node together, itself left out; nothing but this is made in memory.

    Raises:
        GraphError: there is no room for it, even if every edge has its reverse.
    """
    ways = Csr(graph.out_indptr, graph.out_indices), Csr(graph.in_indptr, graph.in_indices)
    dtype, least = index_dtype(graph.num_nodes), max(len(way.indices) for way in ways)
    need, free = dtype.itemsize * least + 16 * (graph.num_nodes + 1), free_memory(torch.device("cpu"))
    if free is not None and need > free:
        raise GraphError(
            f"The edges of {graph.name} are followed either way, and for both directions together {in_bytes(need)} or "
            f"more are needed in memory; {in_bytes(free)} are free.",
            remedy="Use --method fossil_v2 or bgrl, which follow edges one way, or a machine with more memory.",
        )
    # What is not written to of an empty array takes no memory.
    col, degrees = np.empty(2 * graph.num_edges, dtype), np.zeros(graph.num_nodes + 1, np.int64)
    filled = 0
    for row, neighbours in union(*ways, loops=False):
        col[filled : filled + len(neighbours)] = neighbours
        filled += len(neighbours)
        if len(row):
            degrees[row[0] + 1 : row[-1] + 2] += np.bincount(row - row[0])
    return Adjacency(torch.from_numpy(degrees.cumsum()), torch.from_numpy(col[:filled]))


def _has_self_loops(edges: Adjacency) -> bool:
    """Tell whether a node is its own neighbour, a chunk of rows at a time."""
    for first in range(0, edges.num_nodes, _ROWS):
        offsets = edges.crow[first : first + _ROWS + 1]
        row = torch.repeat_interleave(torch.arange(first, first + len(offsets) - 1), offsets.diff())
        if bool((edges.col[int(offsets[0]) : int(offsets[-1])] == row).any()):
            return True
    return False
