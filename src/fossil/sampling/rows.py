"""Products of a graph's operator with what all nodes have, a chunk of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.ops.sparse import gathered_sum
from fossil.progress import Progress
from fossil.sampling.neighbourhoods import Pattern, Scaling
from fossil.sampling.store import FeatureRows, take_rows

CHUNK_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 27}
"""Elements of the widest tensor that has a row for each node of a chunk."""
CHUNK_NEIGHBOURS = {"cpu": 1 << 19, "cuda": 1 << 25}
"""Neighbours of all nodes of a chunk."""
_GATHERED_ELEMENTS = {"cpu": 1 << 28, "cuda": 1 << 31}  # of the widest tensor that has a row for each neighbour


def with_progress(parts: Iterable[tuple[int, int]], nodes: int, progress: Progress) -> Iterator[tuple[int, int]]:
    """Yield chunks of so many nodes, and tell after each which share is done."""
    for first, last in parts:
        yield first, last
        progress(last / nodes)


def chunks_in_memory(
    pattern: Pattern,
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
        pattern: the edges.
        features: X, which is read of all neighbours.
        first: of the nodes.
        last: the node after them.
        device: where chunks are computed.
        width: columns of the widest tensor that has a row for each node of a chunk.
        gathered_width: columns of what is made of each neighbour's features; `width` when None.
    """
    neighbours = neighbours_at_once(features, width if gathered_width is None else gathered_width, device)
    return list(chunks(pattern, first, last, max(1, CHUNK_ELEMENTS[device.type] // width), neighbours))


def neighbours_at_once(features: FeatureRows, width: int, device: torch.device) -> int:
    """Return how many neighbours a chunk may have where their features are read, and made `width` columns wide."""
    columns = max(width, features.shape[1] if isinstance(features.data, Tensor) else 1)
    return max(1, min(CHUNK_NEIGHBOURS[device.type], _GATHERED_ELEMENTS[device.type] // columns))


@dataclass(frozen=True, eq=False)
class RowOperator:
    """S, of which some rows are multiplied at a time.

    Attributes:
        pattern: the edges.
        scaling: what its entries are.
        loops: whether each node is its own neighbour too.
        device: where products are computed.
    """

    pattern: Pattern
    scaling: Scaling
    loops: bool
    device: torch.device

    def times(self, first: int, last: int, dense: Tensor) -> Tensor:
        """Return rows `first` to `last` of S Y for `dense` Y (N×D, wherever it lies): float32, on the device."""
        crow, col, values = self._rows(first, last)
        if dense.device.type == self.device.type:
            found = gathered_sum(crow, col.to(self.device), values, dense)
            own = dense[first:last]
        else:
            asked, place = torch.unique(col, return_inverse=True)
            found = gathered_sum(crow, place.to(self.device), values, take_rows(dense, asked, self.device))
            own = dense[first:last].to(self.device)
        return found + self._own(first, last)[:, None] * own if self.loops else found

    def times_features(self, first: int, last: int, features: FeatureRows, weight: Tensor) -> Tensor:
        """Return rows of S X W for `weight` (F×H), with S X first where X is narrower, dense, and taken as it is."""
        as_it_is = features.scale == 1 and not features.by_row  # sums of what is yet to be scaled may leave float32
        if isinstance(features.data, Tensor) and as_it_is and features.shape[1] < weight.shape[1]:
            return self.times(first, last, features.data) @ weight
        crow, col, values = self._rows(first, last)
        asked, place = torch.unique(col, return_inverse=True)
        found = gathered_sum(crow, place.to(self.device), values, features.take(asked, self.device).project(weight))
        if self.loops:
            own = features.take(torch.arange(first, last, device=col.device), self.device).project(weight)
            found = found + self._own(first, last)[:, None] * own
        return found

    def _rows(self, first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return offsets and values on the device, and columns where they lie, of some rows, self-loops left out."""
        offsets = self.pattern.crow[first : last + 1]
        col = self.pattern.col[int(offsets[0]) : int(offsets[-1])]
        crow, degree = (offsets - offsets[0]).to(self.device), offsets.diff()
        if self.scaling == "sum":
            return crow, col, torch.ones(len(col), device=self.device)
        values = torch.repeat_interleave(self._inverse(degree), degree, output_size=len(col))
        if self.scaling == "symmetric":
            values = values * self._inverse(self.pattern.degree(col.long()))
        return crow, col, values.float().to(self.device)

    def _own(self, first: int, last: int) -> Tensor:
        """Return the diagonal of some rows."""
        inverse = self._inverse(self.pattern.crow[first : last + 1].diff())
        return (inverse.square() if self.scaling == "symmetric" else inverse).float().to(self.device)

    def _inverse(self, degree: Tensor) -> Tensor:
        counted = (degree + int(self.loops)).double()
        return torch.where(counted > 0, 1 / (counted.sqrt() if self.scaling == "symmetric" else counted), 0)


def chunks(pattern: Pattern, first: int, last: int, rows: int, entries: int) -> Iterator[tuple[int, int]]:
    """Yield the nodes from `first` to `last` in chunks of so many rows and entries at most; a hub is one alone."""
    while first < last:
        end = int(torch.searchsorted(pattern.crow, pattern.crow[first] + entries, right=True)) - 1
        end = max(first + 1, min(end, first + rows, last))
        yield first, end
        first = end
