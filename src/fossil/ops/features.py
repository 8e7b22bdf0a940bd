"""The input features X on a device, dense or sparse, and dropout that draws from a given generator."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.ops.sparse import SparseMatrix, multiply_transposed

# A GPU multiplies features of this density faster as a dense matrix, which may take so many bytes.
_DENSE_FROM, _DENSE_BYTES = 0.05, 512 << 20
_BLOCK = 1 << 26  # numbers of an N×B product at a time: 256 MiB of float32


class FeatureMatrix:
    """The input features X (N×F) on a device, dense or sparse, with dropout that keeps zeros free."""

    def __init__(self, data: Tensor | SparseMatrix) -> None:
        self.data = data

    @classmethod
    def from_host(cls, features: Any, device: torch.device | str = "cpu") -> FeatureMatrix:
        """Copy NumPy or SciPy features to `device`, keeping their layout unless a GPU is faster with dense ones."""
        if not sp.issparse(features):
            return cls(torch.tensor(features, dtype=torch.float32, device=device))
        if dense_is_faster(features, torch.device(device)):
            return cls(torch.tensor(features.toarray(), dtype=torch.float32, device=device))
        return cls(SparseMatrix.from_scipy(sp.csr_array(features), device))

    def dropout(self, probability: float, random: torch.Generator | None) -> FeatureMatrix:
        """Return X with each entry dropped with `probability`; X itself when `random` is None."""
        if random is None or probability == 0:
            return self
        if isinstance(self.data, Tensor):
            return FeatureMatrix(dropout(self.data, probability, random))
        return FeatureMatrix(self.data.with_values(dropout(self.data.values, probability, random)))

    def project(self, weight: Tensor) -> Tensor:
        """Return X W for `weight` (F×D): N×D."""
        return self.data @ weight if isinstance(self.data, Tensor) else self.data.matmul(weight)

    def project_back(self, dense: Tensor) -> Tensor:
        """Return Xᵀ times `dense` (N×D), without a gradient where X is sparse: F×D."""
        if isinstance(self.data, Tensor):
            return self.data.T @ dense
        return multiply_transposed(self.data, self.data.values, dense)

    def gram_product(self, dense: Tensor) -> Tensor:
        """Return Xᵀ X times `dense` (F×B), without a gradient, in blocks of columns: F×B."""
        step = max(1, _BLOCK // max(1, self.shape[0]))
        return torch.cat([self.project_back(self.project(block)) for block in dense.split(step, dim=1)], dim=1)

    def leading(self, rows: int) -> FeatureMatrix:
        """Return the features of the first nodes."""
        if rows == self.shape[0]:
            return self
        data = self.data
        return FeatureMatrix(data[:rows] if isinstance(data, Tensor) else data.leading(rows, data.shape[1]))

    def take(self, rows: Tensor) -> FeatureMatrix:
        """Return the features of some nodes."""
        data = self.data
        return FeatureMatrix(data.index_select(0, rows) if isinstance(data, Tensor) else data.take(rows))

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        rows, columns = self.data.shape
        return rows, columns


class FeatureShare(FeatureMatrix):
    """Some rows of X, which lose under dropout what they lose as rows of X.

    Args:
        whole: X.
        rows: which of it.
    """

    def __init__(self, whole: FeatureMatrix, rows: Tensor) -> None:
        super().__init__(whole.take(rows).data)
        self.whole, self.rows = whole, rows

    def dropout(self, probability: float, random: torch.Generator | None) -> FeatureMatrix:
        """Return the rows of X after dropout."""
        if random is None or probability == 0:
            return self
        return self.whole.dropout(probability, random).take(self.rows)


def dense_is_faster(features: Any, device: torch.device) -> bool:
    """Tell whether sparse features (N×F, SciPy) are better multiplied as a dense matrix, and small enough for it."""
    rows, columns = features.shape
    return device.type == "cuda" and _DENSE_FROM * rows * columns <= features.nnz and 4 * rows * columns <= _DENSE_BYTES


def dropout(values: Tensor, probability: float, random: torch.Generator | None) -> Tensor:
    """Zero each entry with `probability` and rescale the rest, drawing from `random`; identity when it is None."""
    if random is None or probability == 0:
        return values
    kept = torch.empty_like(values).bernoulli_(1 - probability, generator=random)
    return values * kept.div_(1 - probability)
