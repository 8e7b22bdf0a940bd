"""Sparse times dense, differentiable in both, without ever making an E×D tensor.

PyTorch multiplies CSR matrices fast but offers no gradient for the stored values on every device. The one function
here serves adjacency sums, sparse feature matrices and attention alike: the backward pass multiplies by the
transpose, whose pattern is worked out once per graph.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

# Rows of the E×D products that the gradient of the values needs at once: 2^24 floats are 64 MiB.
_CHUNK_ELEMENTS = 1 << 24


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A CSR pattern on a device with default values.

    Attributes:
        crow: R+1 row offsets.
        col: E column of each entry, sorted within its row.
        values: E values used when `matmul` is given no others.
        shape: (R, C).
    """

    crow: Tensor
    col: Tensor
    values: Tensor
    shape: tuple[int, int]

    @classmethod
    def from_scipy(cls, matrix: sp.csr_array, device: torch.device | str = "cpu") -> SparseMatrix:
        """Copy a SciPy CSR matrix to `device`, values as float32."""
        sorted_matrix = matrix.sorted_indices()
        rows, columns = sorted_matrix.shape
        return cls(
            crow=torch.from_numpy(sorted_matrix.indptr.astype(np.int64)).to(device),
            col=torch.from_numpy(sorted_matrix.indices.astype(np.int64)).to(device),
            values=torch.from_numpy(sorted_matrix.data.astype(np.float32)).to(device),
            shape=(int(rows), int(columns)),
        )

    @property
    def num_entries(self) -> int:
        """E."""
        return int(self.col.shape[0])

    @cached_property
    def row(self) -> Tensor:
        """E row of each entry."""
        counts = self.crow[1:] - self.crow[:-1]
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.crow.device), counts)

    @cached_property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Offsets and columns of the transpose, and for each of its entries the position here."""
        order = torch.argsort(self.col, stable=True)
        counts = torch.bincount(self.col, minlength=self.shape[1])
        crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return crow, self.row[order], order

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Return the same pattern with other default values, keeping what was worked out about the pattern."""
        other = SparseMatrix(self.crow, self.col, values, self.shape)
        other.__dict__.update(row=self.row, transposed=self.transposed)
        return other

    def matmul(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the product with `dense` (C×D), with `values` in place of the stored ones if given: R×D."""
        product: Tensor = _Product.apply(self.values if values is None else values, dense, self)  # type: ignore[no-untyped-call]
        return product

    def row_softmax(self, scores: Tensor) -> Tensor:
        """Return `scores` (E) turned into weights that sum to one within each row."""
        highest = scores.new_full((self.shape[0],), -torch.inf)
        highest = highest.scatter_reduce(0, self.row, scores.detach(), "amax")
        weights = torch.exp(scores - highest.index_select(0, self.row))
        totals = weights.new_zeros(self.shape[0]).index_add(0, self.row, weights)
        return weights / totals.index_select(0, self.row)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, dense)
        return _multiply(matrix.crow, matrix.col, values, matrix.shape, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (gradient,) = gradients
        values, dense = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        rows, columns = matrix.shape
        for_values = for_dense = None
        if ctx.needs_input_grad[0]:
            chunk = max(1, _CHUNK_ELEMENTS // dense.shape[1])
            pieces = [
                (gradient[row] * dense[col]).sum(1)
                for row, col in zip(torch.split(matrix.row, chunk), torch.split(matrix.col, chunk), strict=True)
            ]
            for_values = torch.cat(pieces) if pieces else torch.zeros_like(values)
        if ctx.needs_input_grad[1]:
            crow, col, order = matrix.transposed
            for_dense = _multiply(crow, col, values[order], (columns, rows), gradient)
        return for_values, for_dense, None


def _multiply(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int], dense: Tensor) -> Tensor:
    with warnings.catch_warnings():
        # Said once per process, of PyTorch's own CSR support and defaults: nothing a user could act on.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        matrix = torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)
    product: Tensor = matrix @ dense.contiguous()
    return product


class FeatureMatrix:
    """The input features X (N×F) on a device, dense or sparse, with dropout that keeps zeros free."""

    def __init__(self, data: Tensor | SparseMatrix) -> None:
        self.data = data

    @classmethod
    def from_host(cls, features: Any, device: torch.device | str = "cpu") -> FeatureMatrix:
        """Copy NumPy or SciPy features to `device`, keeping their layout."""
        if sp.issparse(features):
            return cls(SparseMatrix.from_scipy(sp.csr_array(features), device))
        return cls(torch.tensor(features, dtype=torch.float32, device=device))

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


def rows_of(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]`; its gradient adds up repeated rows without sorting them first, as that of `[]` does."""
    return values.index_select(0, index.flatten()).unflatten(0, index.shape)


def dropout(values: Tensor, probability: float, random: torch.Generator | None) -> Tensor:
    """Zero each entry with `probability` and rescale the rest, drawing from `random`; identity when it is None."""
    if random is None or probability == 0:
        return values
    kept = torch.rand(values.shape, generator=random, device=values.device) >= probability
    return values * kept / (1 - probability)
