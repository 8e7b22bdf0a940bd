"""A graph whose arrays lie where there is room for them: on the card, in the host's memory, or on disk.

Nothing here is as large as the graph but the arrays themselves; what is read of them at a time is asked for by node.
"""

from __future__ import annotations

import warnings
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
from fossil.ops.features import FeatureMatrix
from fossil.ops.memory import free_memory
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.neighbourhoods import Pattern

EdgeDirection = Literal["out", "in", "both"]
"""Which nodes are neighbours of a node: those it points to, those that point to it, or either, itself left out."""


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """X (N×F), of which rows are asked for.

    Attributes:
        data: dense, of any floating dtype; or sparse, on the host or on a device.
        scale: what every number is multiplied by.
        by_row: whether each row is divided by the sum of its absolute values, as `graph.structure.row_normalized` does,
            when it is read.
    """

    data: Tensor | SparseMatrix
    scale: float = 1.0
    by_row: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        rows, columns = self.data.shape
        return rows, columns

    @property
    def bytes(self) -> int:
        """What they take."""
        data = self.data
        parts = (data,) if isinstance(data, Tensor) else (data.crow, data.col, data.values)
        return sum(part.nbytes for part in parts)

    def to(self, device: torch.device) -> FeatureRows:
        """Return them on a device."""
        data = self.data
        if isinstance(data, Tensor):
            return replace(self, data=data.to(device))
        crow, col, values = (part.to(device) for part in (data.crow, data.col, data.values))
        return replace(self, data=SparseMatrix(crow, col, values, data.shape))

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        return self.data.device if isinstance(self.data, Tensor) else self.data.crow.device

    def largest(self) -> float:
        """Return the largest magnitude of any feature, found in blocks of rows."""
        data = self.data if isinstance(self.data, Tensor) else self.data.values
        return max((float(part.abs().max()) for part in data.split(_BLOCK) if part.numel()), default=0.0)

    def gram_product(self, dense: Tensor) -> Tensor:
        """Return Xᵀ X times `dense` (F×B), in blocks of rows: F×B."""
        rows = max(1, _NUMBERS // max(1, self.shape[1]))
        total = torch.zeros_like(dense)
        for first in range(0, self.shape[0], rows):
            nodes = torch.arange(first, min(first + rows, self.shape[0]), device=self.device)
            part = self.take(nodes, dense.device)
            total += part.project_back(part.project(dense))
        return total

    def take(self, nodes: Tensor, device: torch.device, dtype: torch.dtype = torch.float32) -> FeatureMatrix:
        """Return the features of some nodes on a device."""
        if isinstance(self.data, Tensor):
            rows = take_rows(self.data, nodes, device)
            if self.by_row:
                rows = (rows.double() * _inverse(rows.double().abs().sum(1))[:, None]).float()
            rows = rows.to(dtype)
            return FeatureMatrix(rows if self.scale == 1 else rows * self.scale)
        found = self.data.take(nodes.to(self.device))
        values = found.values
        if self.by_row:
            totals = torch.zeros(len(nodes), dtype=torch.float64, device=values.device)
            totals.index_add_(0, found.row, values.double().abs())
            values = (values.double() * _inverse(totals)[found.row]).float()
        crow, col, values = (part.to(device) for part in (found.crow, found.col, (values * self.scale).to(dtype)))
        return FeatureMatrix(SparseMatrix(crow, col, values, found.shape))


@dataclass(frozen=True, eq=False)
class GraphStore:
    """The arrays of a graph, wherever they lie.

    Attributes:
        patterns: edges by their direction; an undirected graph without self-loops has one pattern for all three.
        features: X.
    """

    patterns: Mapping[EdgeDirection, Pattern]
    features: FeatureRows

    @classmethod
    def undirected(cls, pattern: Pattern, features: FeatureRows) -> GraphStore:
        """Return the store of a graph whose every edge has its reverse, and none joins a node to itself."""
        return cls({"out": pattern, "in": pattern, "both": pattern}, features)

    @classmethod
    def of(cls, graph: Graph, directions: Sequence[EdgeDirection] = ("out", "in", "both")) -> GraphStore:
        """Return a graph's arrays on the host, sharing its memory, or its files where they are mapped.

        Args:
            graph: in memory, or on disk.
            directions: those that are needed; of a directed graph, `both` is made in memory.
        """
        features = graph.features
        rows = FeatureRows(SparseMatrix.from_scipy(features) if sp.issparse(features) else _shared(features))
        if isinstance(graph, DiskGraph):
            patterns = {"out": _mapped(graph.out_indptr, graph.out_indices)}
            if graph.is_directed and "in" in directions:
                patterns["in"] = _mapped(graph.in_indptr, graph.in_indices)
        else:
            patterns = {"out": _pattern(graph.adjacency)}
            if graph.is_directed and "in" in directions:
                patterns["in"] = _pattern(sp.csr_array(graph.adjacency.T))
        if not graph.is_directed and not ("both" in directions and _has_loops(patterns["out"])):
            return cls.undirected(patterns["out"], rows)
        if "in" in directions and not graph.is_directed:
            patterns["in"] = patterns["out"]
        if "both" in directions:
            if isinstance(graph, DiskGraph):
                patterns["both"] = _union(graph)
            else:
                patterns["both"] = _pattern(undirected(graph.adjacency))
        return cls({direction: patterns[direction] for direction in directions}, rows)

    @property
    def edge_bytes(self) -> int:
        """What all patterns take, each counted once."""
        parts = {part.data_ptr(): part for pattern in self.patterns.values() for part in pattern}
        return sum(part.nbytes for part in parts.values())

    def moved(self, name: str, device: torch.device) -> GraphStore:
        """Return the store with its `edges` or its `features` on a device."""
        if name == "features":
            return replace(self, features=self.features.to(device))
        return self.with_patterns(lambda pattern: Pattern(pattern.crow.to(device), pattern.col.to(device)))

    def with_patterns(self, convert: Callable[[Pattern], Pattern]) -> GraphStore:
        """Return the store with its patterns converted, a pattern of several directions once."""
        converted: dict[int, Pattern] = {}
        for pattern in self.patterns.values():
            address = pattern.crow.data_ptr()
            if address not in converted:
                converted[address] = convert(pattern)
        patterns = {direction: converted[pattern.crow.data_ptr()] for direction, pattern in self.patterns.items()}
        return replace(self, patterns=patterns)

    def pinned(self) -> GraphStore:
        """Return the store with its features in memory that a card reads directly."""
        data = self.features.data
        if not isinstance(data, Tensor):
            return self
        return replace(self, features=replace(self.features, data=data.pin_memory()))

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.patterns["out"].num_nodes

    @property
    def device(self) -> torch.device:
        """Where the edges lie, and where neighbours are drawn."""
        return self.patterns["out"].crow.device

    def scaled(self, factor: float) -> GraphStore:
        """Return the same with all features multiplied by a number."""
        return replace(self, features=replace(self.features, scale=self.features.scale * factor))

    def normalized_by_row(self) -> GraphStore:
        """Return the same with each node's features divided by the sum of their absolute values, when they are read."""
        return replace(self, features=replace(self.features, by_row=True))


_BLOCK = 1 << 20  # rows at a time
_MOST = 0.8  # of the free memory that one array may take
_NUMBERS = 1 << 26  # features at a time: 256 MiB of float32


def take_rows(data: Tensor, nodes: Tensor, device: torch.device) -> Tensor:
    """Return rows of a tensor on a device, wherever the tensor lies."""
    if data.device == nodes.device:
        return data.index_select(0, nodes).to(device)
    # The gathered rows alone cross to the device; through pinned memory, without waiting.
    rows = data.index_select(0, nodes.to(data.device))
    if device.type == "cuda" and rows.device.type == "cpu":
        rows = rows.pin_memory()
    return rows.to(device, non_blocking=True)


def allocate(nodes: int, width: int, device: torch.device, like: Tensor | None = None) -> Tensor:
    """Return an empty tensor for what all nodes have, N×D: on the device, or where that is full, on the host.

    It is float32; beside something of half the size (`like`), or where memory is short, bfloat16, which holds sums over
    hubs that float16 does not.

    Raises:
        GraphError: neither has room for it.
    """
    narrow, short = 2 * nodes * width, like is not None and like.element_size() == 2
    free = free_memory(device)
    if not short and (free is None or 2 * narrow <= _MOST * free):
        return torch.empty(nodes, width, dtype=torch.float32, device=device)
    full = []
    for place in dict.fromkeys((device, torch.device("cpu"))):
        free = free_memory(place)
        if free is None or narrow <= _MOST * free:
            return torch.empty(nodes, width, dtype=torch.bfloat16, device=place)
        full.append(f"{in_bytes(free)} on {'the host' if place.type == 'cpu' else place}")
    raise GraphError(
        f"To embed {nodes:,} nodes, {width:,} numbers of each are kept at once, which takes {in_bytes(narrow)} in half "
        f"precision; free are {' and '.join(full)}.",
        remedy="Choose a smaller width, or use a machine with more memory. A training that is over is kept in its run "
        "folder: --resume embeds without training again.",
    )


def _inverse(totals: Tensor) -> Tensor:
    """Return one by each number, and zero where that is zero."""
    return torch.where(totals > 0, 1 / totals, 0)


def _pattern(matrix: sp.csr_array) -> Pattern:
    ordered = matrix.sorted_indices()
    return _mapped(ordered.indptr, ordered.indices)


def _union(graph: DiskGraph) -> Pattern:
    """Return whom each node sees either way, itself left out; nothing but this is made in memory."""
    ways = Csr(graph.out_indptr, graph.out_indices), Csr(graph.in_indptr, graph.in_indices)
    # What is not written to of an empty array takes no memory.
    col, degrees = np.empty(2 * graph.num_edges, index_dtype(graph.num_nodes)), np.zeros(graph.num_nodes + 1, np.int64)
    filled = 0
    for row, listed in union(*ways, loops=False):
        col[filled : filled + len(listed)] = listed
        filled += len(listed)
        if len(row):
            degrees[row[0] + 1 : row[-1] + 2] += np.bincount(row - row[0])
    return Pattern(torch.from_numpy(degrees.cumsum()), torch.from_numpy(col[:filled]))


def _has_loops(pattern: Pattern) -> bool:
    """Tell whether a node is its own neighbour, in blocks of rows."""
    for first in range(0, pattern.num_nodes, _BLOCK):
        offsets = pattern.crow[first : first + _BLOCK + 1]
        row = torch.repeat_interleave(torch.arange(first, first + len(offsets) - 1), offsets.diff())
        if bool((pattern.col[int(offsets[0]) : int(offsets[-1])] == row).any()):
            return True
    return False


def _mapped(indptr: Array, indices: Array) -> Pattern:
    """Return a pattern that shares the memory of its arrays, where offsets have 64 bits."""
    return Pattern(_shared(indptr).long(), _shared(indices))


def _shared(array: Array) -> Tensor:
    """Return a tensor over the same memory, which nobody writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
