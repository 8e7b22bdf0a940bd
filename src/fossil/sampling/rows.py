"""Products S Y of a graph's operator with a tensor that has a row for each node, a chunk of rows at a time.

A chunk is the nodes from `first` to `last`, without the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.ops.sparse import gathered_sum
from fossil.progress import Progress
from fossil.sampling.feature_rows import FeatureRows, take_rows
from fossil.sampling.neighbourhoods import Adjacency, Scaling

CHUNK_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 27}
"""Elements of the widest tensor that has a row for each node of a chunk."""
CHUNK_NEIGHBOURS = {"cpu": 1 << 19, "cuda": 1 << 25}
"""Neighbours of all nodes of a chunk."""
_GATHERED_ELEMENTS = {"cpu": 1 << 28, "cuda": 1 << 31}  # of the widest tensor that has a row for each neighbour


def with_progress(chunks: Iterable[tuple[int, int]], nodes: int, progress: Progress) -> Iterator[tuple[int, int]]:
    """Yield chunks of so many nodes, and tell after each which share is done."""
    for first, last in chunks:
        yield first, last
        progress(last / nodes)


def chunks_in_memory(
    adjacency: Adjacency,
    features: FeatureRows,
    first: int,
    last: int,
    device: torch.device,
    *,
    width: int,
    gathered_width: int | None = None,
) -> list[tuple[int, int]]:
    """Return the nodes from `first` to `last` in chunks for which the device has room.

    Args:
        adjacency: the edges.
        features: X, which is read of all neighbours.
        first: of the nodes.
        last: the node after them.
        device: where chunks are computed.
        width: columns of the widest tensor that has a row for each node of a chunk.
        gathered_width: columns of what is made of each neighbour's features; `width` when None.
    """
    neighbours = neighbours_at_once(features, width if gathered_width is None else gathered_width, device)
    return list(chunks(adjacency, first, last, max(1, CHUNK_ELEMENTS[device.type] // width), neighbours))


def neighbours_at_once(features: FeatureRows, width: int, device: torch.device) -> int:
    """Return how many neighbours a chunk may have where their features are read, and made `width` columns wide."""
    columns = max(width, features.shape[1] if isinstance(features.data, Tensor) else 1)
    return max(1, min(CHUNK_NEIGHBOURS[device.type], _GATHERED_ELEMENTS[device.type] // columns))


def chunks(adjacency: Adjacency, first: int, last: int, rows: int, entries: int) -> Iterator[tuple[int, int]]:
    """Yield the nodes from `first` to `last` in chunks of so many rows and entries at most; a hub is one alone."""
    while first < last:
        end = int(torch.searchsorted(adjacency.crow, adjacency.crow[first] + entries, right=True)) - 1
        end = max(first + 1, min(end, first + rows, last))
        yield first, end
        first = end


@dataclass(frozen=True, eq=False)
class RowOperator:
    """An operator S (N×N), of which a chunk of rows is multiplied at a time.

    Attributes:
        adjacency: the edges.
        scaling: what its entries are.
        loops: whether each node is its own neighbour too.
        device: where products are computed.
    """

    adjacency: Adjacency
    scaling: Scaling
    loops: bool
    device: torch.device

    def times(self, first: int, last: int, dense: Tensor) -> Tensor:
        """Return rows `first` to `last` of S Y for `dense` Y (N×D, wherever it lies): float32, on the device."""
        crow, col, values = self._rows(first, last)
        if dense.device.type == self.device.type:
            product = gathered_sum(crow, col.to(self.device), values, dense)
            own = dense[first:last]
        else:
            neighbours, place = torch.unique(col, return_inverse=True)
            product = gathered_sum(crow, place.to(self.device), values, take_rows(dense, neighbours, self.device))
            own = dense[first:last].to(self.device)
        return product + self._diagonal(first, last)[:, None] * own if self.loops else product

    def times_features(self, first: int, last: int, features: FeatureRows, weight: Tensor) -> Tensor:
        """Return rows of S X W for `weight` (F×H): as (S X) W where X is dense, narrower than that, and used as stored.

        Sums of features that are yet to be scaled may leave float32.
        """
        as_stored = features.scale == 1 and not features.row_normalized
        if isinstance(features.data, Tensor) and as_stored and features.shape[1] < weight.shape[1]:
            return self.times(first, last, features.data) @ weight
        crow, col, values = self._rows(first, last)
        neighbours, place = torch.unique(col, return_inverse=True)
        product = gathered_sum(
            crow, place.to(self.device), values, features.take(neighbours, self.device).project(weight)
        )
        if self.loops:
            own = features.take(torch.arange(first, last, device=col.device), self.device).project(weight)
            product = product + self._diagonal(first, last)[:, None] * own
        return product

    def _rows(self, first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return offsets and values on the device, and columns where they lie, of a chunk without self-loops."""
        offsets = self.adjacency.crow[first : last + 1]
        col = self.adjacency.col[int(offsets[0]) : int(offsets[-1])]
        crow, degree = (offsets - offsets[0]).to(self.device), offsets.diff()
        if self.scaling == "sum":
            return crow, col, torch.ones(len(col), device=self.device)
        values = torch.repeat_interleave(self._inverse(degree), degree, output_size=len(col))
        if self.scaling == "symmetric":
            values = values * self._inverse(self.adjacency.degree(col.long()))
        return crow, col, values.float().to(self.device)

    def _diagonal(self, first: int, last: int) -> Tensor:
        """Return the entries of some nodes with themselves."""
        inverse = self._inverse(self.adjacency.crow[first : last + 1].diff())
        return (inverse.square() if self.scaling == "symmetric" else inverse).float().to(self.device)

    def _inverse(self, degree: Tensor) -> Tensor:
        """Return d⁻¹, or d^(-1/2) for symmetric scaling, with the self-loop counted; zero for a node without edges."""
        counted = (degree + int(self.loops)).double()
        return torch.where(counted > 0, 1 / (counted.sqrt() if self.scaling == "symmetric" else counted), 0)
