"""Features of which some rows are read at a time, wherever all of them lie."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.graph.graph import Array, Features
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

_ROWS = 1 << 20  # whose largest feature is looked for at a time
_ELEMENTS = 1 << 26  # that are multiplied at a time: 256 MiB of float32


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """X (N×F) as it is stored, and what is done to the rows that are read.

    Attributes:
        data: dense, of any floating dtype; or sparse, on the host or on a device.
        scale: what every number is multiplied by.
        row_normalized: whether each row is divided by the sum of its absolute values, as
            `graph.structure.row_normalized` does.
    """

    data: Tensor | SparseMatrix
    scale: float = 1.0
    row_normalized: bool = False

    @classmethod
    def of(cls, features: Features) -> FeatureRows:
        """Return features on the host; dense ones share the memory of their array, or its file where it is mapped."""
        return cls(SparseMatrix.from_scipy(features) if sp.issparse(features) else shared_tensor(features))

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
        """Return the largest magnitude of any stored feature."""
        data = self.data if isinstance(self.data, Tensor) else self.data.values
        return max((float(chunk.abs().max()) for chunk in data.split(_ROWS) if chunk.numel()), default=0.0)

    def gram_product(self, dense: Tensor) -> Tensor:
        """Return Xᵀ X times `dense` (F×B), a chunk of rows at a time: F×B."""
        num_rows, num_features = self.shape
        at_once = max(1, _ELEMENTS // max(1, num_features))
        total = torch.zeros_like(dense)
        for first in range(0, num_rows, at_once):
            nodes = torch.arange(first, min(first + at_once, num_rows), device=self.device)
            chunk = self.take(nodes, dense.device)
            total += chunk.project_back(chunk.project(dense))
        return total

    def take(self, nodes: Tensor, device: torch.device, dtype: torch.dtype = torch.float32) -> FeatureMatrix:
        """Return the features of some nodes on a device, scaled, and normalised where that is asked for."""
        if isinstance(self.data, Tensor):
            rows = take_rows(self.data, nodes, device)
            if self.row_normalized:
                rows = (rows.double() * _reciprocal(rows.double().abs().sum(1))[:, None]).float()
            rows = rows.to(dtype)
            return FeatureMatrix(rows if self.scale == 1 else rows * self.scale)
        taken = self.data.take(nodes.to(self.device))
        values = taken.values
        if self.row_normalized:
            totals = torch.zeros(len(nodes), dtype=torch.float64, device=values.device)
            totals.index_add_(0, taken.row, values.double().abs())
            values = (values.double() * _reciprocal(totals)[taken.row]).float()
        crow, col, values = (part.to(device) for part in (taken.crow, taken.col, (values * self.scale).to(dtype)))
        return FeatureMatrix(SparseMatrix(crow, col, values, taken.shape))


def take_rows(data: Tensor, nodes: Tensor, device: torch.device) -> Tensor:
    """Return rows of a tensor on a device, wherever the tensor lies."""
    if data.device == nodes.device:
        return data.index_select(0, nodes).to(device)
    # The gathered rows alone cross to the device; through pinned memory, without waiting.
    rows = data.index_select(0, nodes.to(data.device))
    if device.type == "cuda" and rows.device.type == "cpu":
        rows = rows.pin_memory()
    return rows.to(device, non_blocking=True)


def shared_tensor(array: Array) -> Tensor:
    """Return a tensor over the same memory, which nobody writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _reciprocal(totals: Tensor) -> Tensor:
    """Return one by each number, and zero where that is zero."""
    return torch.where(totals > 0, 1 / totals, 0)
