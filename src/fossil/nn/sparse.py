"""Sparse times dense, differentiable in both, without ever making an E×D tensor.

PyTorch multiplies CSR matrices fast but offers no gradient for the stored values on every device. The one function
here serves adjacency sums, sparse feature matrices and attention alike: the backward pass multiplies by the
transpose, whose pattern is worked out once per graph. Sparse products and attention are float32 inside `torch.autocast`
too, and float64 where they are given float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.accelerate import kernels, serves

if TYPE_CHECKING:
    from fossil.nn._sparse_kernel import Plan

_KERNELS = "fossil.nn._edge_kernel"
_PRODUCT_KERNELS = "fossil.nn._sparse_kernel"
# Of the leaky ReLU of attention, for what is not positive.
_SLOPE = 0.2
# A GPU multiplies features of this density faster as a dense matrix, which may take so many bytes.
_DENSE_FROM, _DENSE_BYTES = 0.05, 512 << 20


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

    @cached_property
    def _product_indices(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Offsets and columns of this matrix and of its transpose, and `row`: in 32 bits where a GPU gains by it."""
        crow, col, _ = self.transposed
        short = self.col.device.type == "cuda" and max(self.num_entries, *self.shape) < 1 << 31
        kind = torch.int32 if short else torch.int64
        return self.crow.to(kind), self.col.to(kind), crow.to(kind), col.to(kind), self.row.to(kind)

    @cached_property
    def _plans(self) -> tuple[Plan, Plan]:
        """How the kernel takes this matrix and its transpose apart."""
        crow, col, transposed_crow, transposed_col, _ = self._product_indices
        make = kernels(_PRODUCT_KERNELS).make_plan
        return make(crow, col), make(transposed_crow, transposed_col, self.transposed[2].to(col.dtype))

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Return the same pattern with other default values, keeping what was worked out about the pattern."""
        other = SparseMatrix(self.crow, self.col, values, self.shape)
        other.__dict__.update(row=self.row, transposed=self.transposed, _product_indices=self._product_indices)
        if self.num_entries and serves(self.col.device):
            other.__dict__.update(_plans=self._plans)
        return other

    def matmul(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the product with `dense` (C×D), with `values` in place of the stored ones if given: R×D."""
        return self._product(None, dense, values)

    def matmul_below(self, above: Tensor, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return `above` (M×D) and below it the product with `dense` (C×D): one tensor, (M+R)×D.

        Written side by side, so that the next layer takes both at once.
        """
        return self._product(above, dense, values)

    def _product(self, above: Tensor | None, dense: Tensor, values: Tensor | None) -> Tensor:
        values = self.values if values is None else values
        twice = above is dense
        if not _is_product_served(values, dense):
            values, dense = _at_least_float32(values, dense)
        # One input twice is one input: its two gradients are then added while they are computed.
        product: Tensor = _Product.apply(None if twice else above, values, dense, self, twice)  # type: ignore[no-untyped-call]
        return product

    def constant_product(self, values: Tensor, dense: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the product with `dense` (C×D) for `values` (E) without a gradient, written to `out` if given: R×D."""
        return _multiply(self, values, dense, out)

    def edge_products(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the dot product of `first[i]` and `second[j]` for each entry (i, j): E.

        Args:
            first: R×D.
            second: C×D.
        """
        first, second = _at_least_float32(first, second)
        products: Tensor = _EdgeProducts.apply(first, second, self)  # type: ignore[no-untyped-call]
        return products

    def attention(self, centre: Tensor, neighbour: Tensor) -> Tensor:
        """Return for each entry (i, j) the softmax over row i of LeakyReLU(`centre[i]` + `neighbour[j]`): E.

        Args:
            centre: R.
            neighbour: C.
        """
        centre, neighbour = _at_least_float32(centre, neighbour)
        if self.num_entries and _are_served(centre, neighbour):
            weights: Tensor = _Attention.apply(centre, neighbour, self)  # type: ignore[no-untyped-call]
            return weights
        scores = rows_of(centre, self.row) + rows_of(neighbour, self.col)
        scores = torch.nn.functional.leaky_relu(scores, _SLOPE)
        highest = scores.new_full((self.shape[0],), -torch.inf)
        highest = highest.scatter_reduce(0, self.row, scores.detach(), "amax")
        weights = torch.exp(scores - highest.index_select(0, self.row))
        totals = weights.new_zeros(self.shape[0]).index_add(0, self.row, weights)
        return weights / totals.index_select(0, self.row)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, above: Tensor | None, values: Tensor, dense: Tensor, matrix: SparseMatrix, twice: bool
    ) -> Tensor:
        needs_values = ctx.needs_input_grad[1]
        above = dense if twice else above
        ctx.matrix, ctx.above, ctx.twice = matrix, 0 if above is None else len(above), twice
        ctx.save_for_backward(values, dense if needs_values else None)
        if above is None:
            return _multiply(matrix, values, dense)
        result = values.new_empty(ctx.above + matrix.shape[0], dense.shape[1])
        result[: ctx.above] = above
        _multiply(matrix, values, dense, out=result[ctx.above :])
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        values, dense = ctx.saved_tensors
        needs_above, needs_values, needs_dense, *_ = ctx.needs_input_grad
        for_above, for_product = gradients[0][: ctx.above], gradients[0][ctx.above :]
        for_values = _edge_products(ctx.matrix, for_product, dense.to(values.dtype)) if needs_values else None
        for_dense = None
        if needs_dense:
            for_dense = _multiply_transposed(ctx.matrix, values, for_product, for_above if ctx.twice else None)
        return for_above if needs_above else None, for_values, for_dense, None, None


class _EdgeProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(first, second)
        return _edge_products(matrix, first, second)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        first, second = ctx.saved_tensors
        needs_first, needs_second, _ = ctx.needs_input_grad
        for_first = _multiply(ctx.matrix, gradients[0], second) if needs_first else None
        for_second = _multiply_transposed(ctx.matrix, gradients[0], first) if needs_second else None
        return for_first, for_second, None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, centre: Tensor, neighbour: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix, col = matrix, matrix._product_indices[1]
        weights: Tensor = kernels(_KERNELS).attention(matrix.crow, col, centre, neighbour, _SLOPE)
        ctx.save_for_backward(centre, neighbour, weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        crow, col, upstream = ctx.matrix.crow, ctx.matrix._product_indices[1], gradients[0].contiguous()
        return *kernels(_KERNELS).attention_gradient(crow, col, *ctx.saved_tensors, upstream, _SLOPE), None


def _multiply(matrix: SparseMatrix, values: Tensor, dense: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the product, written to `out` if that is given: R×D, contiguous."""
    if _is_product_served(values, dense):
        return _planned_product(matrix._plans[0], values, dense, out)
    crow, col, _, _, _ = matrix._product_indices
    return _csr_product(crow, col, values, matrix.shape, dense, out)


def _multiply_transposed(matrix: SparseMatrix, values: Tensor, dense: Tensor, plus: Tensor | None = None) -> Tensor:
    """Return the product of the transpose, and `plus` (C×D) if that is given: C×D, contiguous."""
    if _is_product_served(values, dense):
        return _planned_product(matrix._plans[1], values, dense, plus=plus)
    _, _, crow, col, _ = matrix._product_indices
    rows, columns = matrix.shape
    out = None if plus is None else plus.clone(memory_format=torch.contiguous_format)
    beta = 0 if plus is None else 1
    return _csr_product(crow, col, values.index_select(0, matrix.transposed[2]), (columns, rows), dense, out, beta)


def _planned_product(
    plan: Plan, values: Tensor, dense: Tensor, out: Tensor | None = None, plus: Tensor | None = None
) -> Tensor:
    plus = None if plus is None else plus.contiguous()
    product: Tensor = kernels(_PRODUCT_KERNELS).product(plan, values.contiguous(), dense.contiguous(), out, plus)
    return product


def _csr_product(
    crow: Tensor,
    col: Tensor,
    values: Tensor,
    shape: tuple[int, int],
    dense: Tensor,
    out: Tensor | None = None,
    beta: int = 0,
) -> Tensor:
    with _plain_csr(dense.device):
        matrix = torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)
        if out is None:
            out = dense.new_empty(shape[0], dense.shape[1])
        return out.addmm_(matrix, dense.contiguous(), beta=beta)  # twice as fast as a product, which is first filled


@contextmanager
def _plain_csr(device: torch.device) -> Iterator[None]:
    # Autocast would hand a narrow type to sparse products, which not every device has.
    with warnings.catch_warnings(), torch.autocast(device.type, enabled=False):
        # Said once per process, of PyTorch's own CSR support and defaults: nothing a user could act on.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        yield


def _edge_products(matrix: SparseMatrix, first: Tensor, second: Tensor) -> Tensor:
    if not matrix.num_entries:
        return first.new_zeros(0)
    if _are_served(first, second):
        _, col, _, _, row = matrix._product_indices
        products: Tensor = kernels(_KERNELS).edge_products(row, col, first.contiguous(), second.contiguous())
        return products
    crow, col, _, _, _ = matrix._product_indices
    with _plain_csr(first.device):
        pattern = torch.sparse_csr_tensor(crow, col, first.new_zeros(len(col)), matrix.shape, check_invariants=False)
        sampled: Tensor = torch.sparse.sampled_addmm(pattern, first.contiguous(), second.T, beta=0)
    return sampled.values()


def _at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the widest of their types and float32."""
    kind = torch.float32
    for tensor in tensors:
        kind = torch.promote_types(kind, tensor.dtype)
    return tuple(tensor.to(kind) for tensor in tensors)


def _are_served(*tensors: Tensor) -> bool:
    return all(each.dtype == torch.float32 and each.numel() for each in tensors) and serves(tensors[0].device)


def _is_product_served(values: Tensor, dense: Tensor) -> bool:
    """Tell whether the kernel multiplies these. It takes bfloat16 as it is, and sums in float32 all the same."""
    return _are_served(values) and ((dense.dtype == torch.bfloat16 and dense.numel() > 0) or _are_served(dense))


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


def dense_is_faster(features: Any, device: torch.device) -> bool:
    """Tell whether sparse features (N×F, SciPy) are better multiplied as a dense matrix, and small enough for it."""
    rows, columns = features.shape
    return device.type == "cuda" and _DENSE_FROM * rows * columns <= features.nnz and 4 * rows * columns <= _DENSE_BYTES


def rows_of(values: Tensor, index: Tensor) -> Tensor:
    """Return `values[index]`; its gradient adds up repeated rows without sorting them first, as that of `[]` does."""
    return values.index_select(0, index.flatten()).view(*index.shape, *values.shape[1:])


def dropout(values: Tensor, probability: float, random: torch.Generator | None) -> Tensor:
    """Zero each entry with `probability` and rescale the rest, drawing from `random`; identity when it is None."""
    if random is None or probability == 0:
        return values
    kept = torch.empty_like(values).bernoulli_(1 - probability, generator=random)
    return values * kept.div_(1 - probability)
