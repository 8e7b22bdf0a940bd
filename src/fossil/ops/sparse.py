"""Sparse times dense, differentiable in both, without ever making an E×D tensor.

PyTorch multiplies CSR matrices fast but offers no gradient for the stored values on every device. The one function
here serves adjacency sums, sparse feature matrices and attention alike: the backward pass multiplies by the
transpose, whose pattern is worked out once per graph. Sparse products are float32 inside `torch.autocast` too, and
float64 where they are given float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.ops.autograd import Function
from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.precision import at_least_float32

if TYPE_CHECKING:
    from fossil.ops.triton.sparse import Plan


class Transposed(NamedTuple):
    """The CSR pattern of a transpose.

    Attributes:
        crow: C+1 row offsets.
        col: E columns.
        order: place of each of its entries in the matrix itself, E.
    """

    crow: Tensor
    col: Tensor
    order: Tensor


class Indices(NamedTuple):
    """A CSR pattern and its transpose, in 32 bits where a GPU gains by it.

    Attributes:
        crow: R+1 row offsets.
        col: E columns.
        row: E rows.
        transposed_crow: C+1 offsets of the transpose.
        transposed_col: E columns of the transpose.
    """

    crow: Tensor
    col: Tensor
    row: Tensor
    transposed_crow: Tensor
    transposed_col: Tensor


def entries_of(crow: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places of the entries of some rows of a CSR pattern, one row after the other, and their offsets."""
    start, counts = crow[rows], crow[rows + 1] - crow[rows]
    ends = counts.cumsum(0)
    owner = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
    entries = torch.arange(len(owner), device=rows.device) + (start - ends + counts)[owner]
    return entries, torch.cat([ends.new_zeros(1), ends])


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """A CSR pattern on a device with default values.

    Attributes:
        crow: R+1 row offsets.
        col: E column of each entry, sorted within its row.
        values: E values used when `matmul` is given no others.
        shape: (R, C).
        inner: the upper left corner that the next layer of an encoder multiplies with, on a block of a graph, where
            each hop leaves fewer rows; None where it is the whole matrix.
    """

    crow: Tensor
    col: Tensor
    values: Tensor
    shape: tuple[int, int]
    inner: SparseMatrix | None = None

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
    def transposed(self) -> Transposed:
        """The pattern of the transpose."""
        order = torch.argsort(self.col, stable=True)
        counts = torch.bincount(self.col, minlength=self.shape[1])
        crow = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return Transposed(crow, self.row[order], order)

    @cached_property
    def indices(self) -> Indices:
        """What products read of the pattern."""
        fits_int32 = self.col.device.type == "cuda" and max(self.num_entries, *self.shape) < 1 << 31
        dtype = torch.int32 if fits_int32 else torch.int64
        arrays = (self.crow, self.col, self.row, self.transposed.crow, self.transposed.col)
        return Indices(*(array.to(dtype) for array in arrays))

    @cached_property
    def has_kernels(self) -> bool:
        """Whether kernels multiply this pattern."""
        return self.num_entries > 0 and triton_runs_on(self.col.device)

    @cached_property
    def plans(self) -> tuple[Plan, Plan]:
        """How the kernel divides this matrix and its transpose among its programs."""
        indices, make = self.indices, triton("sparse").make_plan
        order = self.transposed.order.to(indices.col.dtype)
        return make(indices.crow, indices.col), make(indices.transposed_crow, indices.transposed_col, order)

    @property
    def next(self) -> SparseMatrix:
        """What the next layer multiplies with: the same, unless there is less to do."""
        return self if self.inner is None else self.inner

    def leading(self, rows: int, columns: int) -> SparseMatrix:
        """Return the first rows, which have entries in the first columns alone: a view of the same arrays."""
        entries = int(self.crow[rows])
        return SparseMatrix(self.crow[: rows + 1], self.col[:entries], self.values[:entries], (rows, columns))

    def take(self, rows: Tensor) -> SparseMatrix:
        """Return some rows."""
        entries, crow = entries_of(self.crow, rows)
        return SparseMatrix(crow, self.col[entries], self.values[entries], (len(rows), self.shape[1]))

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Return the same pattern with other default values, keeping what was worked out about the pattern.

        The matrix of an inner hop has the first of them, because its rows are the first rows.
        """
        inner = None if self.inner is None else self.inner.with_values(values[: self.inner.num_entries])
        other = SparseMatrix(self.crow, self.col, values, self.shape, inner)
        cached = {"row": self.row, "transposed": self.transposed, "indices": self.indices}
        other.__dict__.update(cached, has_kernels=self.has_kernels)
        if self.has_kernels:
            other.__dict__.update(plans=self.plans)
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
        above_is_dense = above is dense
        if not supports(self, values, dense):
            values, dense = at_least_float32(values, dense)
        # A tensor given as both is one input: its two gradients are then added while they are computed.
        product: Tensor = _Product.apply(None if above_is_dense else above, values, dense, self, above_is_dense)
        return product


def supports(matrix: SparseMatrix, values: Tensor, dense: Tensor) -> bool:
    """Tell whether the kernel multiplies these. It takes bfloat16 as it is, and sums in float32 all the same."""
    known = values.dtype == torch.float32 and dense.dtype in (torch.float32, torch.bfloat16)
    return matrix.has_kernels and known and dense.numel() > 0


def leading(values: Tensor, rows: int) -> Tensor:
    """Return the first rows of a tensor; the tensor itself where these are all."""
    return values if len(values) == rows else values[:rows]


def gathered_sum(crow: Tensor, col: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """Return the product of a CSR matrix, used once, and `dense` (C×D, of any floating dtype): R×D in float32.

    There is no gradient, and nothing is worked out about the transpose. Sums are float32.
    """
    rows = len(crow) - 1
    if len(col) and dense.numel() and triton_runs_on(dense.device):
        index_dtype = torch.int32 if max(len(col), len(dense)) < 1 << 31 else torch.int64
        plan = triton("sparse").make_plan(crow.to(index_dtype), col.to(index_dtype))
        return _planned_product(plan, values, dense)
    dtype = torch.promote_types(dense.dtype, torch.float32)
    if dense.dtype != dtype:  # only the rows that are read become wider: all of them may be those of a whole graph
        read, col = torch.unique(col, return_inverse=True)
        dense = dense.index_select(0, read)
    wide = dense.to(dtype)
    return _csr_product(crow, col.to(crow.dtype), values.to(dtype), (rows, len(wide)), wide)


def multiply(matrix: SparseMatrix, values: Tensor, dense: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the product of `values` (E) on a pattern with `dense` (C×D), without a gradient: R×D, contiguous.

    It is written to `out` if that is given.
    """
    if supports(matrix, values, dense):
        return _planned_product(matrix.plans[0], values, dense, out)
    return _csr_product(matrix.indices.crow, matrix.indices.col, values, matrix.shape, dense, out)


def multiply_transposed(matrix: SparseMatrix, values: Tensor, dense: Tensor, plus: Tensor | None = None) -> Tensor:
    """Return the product of the transpose, and `plus` (C×D) if that is given, without a gradient: C×D, contiguous."""
    if supports(matrix, values, dense):
        return _planned_product(matrix.plans[1], values, dense, plus=plus)
    indices, (rows, columns) = matrix.indices, matrix.shape
    out = None if plus is None else plus.clone(memory_format=torch.contiguous_format)
    beta = 0 if plus is None else 1
    ordered = values.index_select(0, matrix.transposed.order)
    return _csr_product(indices.transposed_crow, indices.transposed_col, ordered, (columns, rows), dense, out, beta)


def sampled_products(matrix: SparseMatrix, first: Tensor, second: Tensor) -> Tensor:
    """Return the dot product of `first[i]` (R×D) and `second[j]` (C×D) for each entry (i, j), without a gradient: E."""
    if not matrix.num_entries:
        return first.new_zeros(0)
    indices = matrix.indices
    if matrix.has_kernels and first.dtype == second.dtype == torch.float32 and first.numel() and second.numel():
        products: Tensor = triton("edges").edge_products(
            indices.row, indices.col, first.contiguous(), second.contiguous()
        )
        return products
    with _plain_csr(first.device):
        nothing = first.new_zeros(matrix.num_entries)
        pattern = torch.sparse_csr_tensor(indices.crow, indices.col, nothing, matrix.shape, check_invariants=False)
        sampled: Tensor = torch.sparse.sampled_addmm(pattern, first.contiguous(), second.T, beta=0)
    return sampled.values()


class _Product(Function):
    """`above` (M×D, or nothing) and below it S Y, as a function of `above`, the values of S and `dense` Y.

    Gradients, of G above and G' below: G; G' Yᵀ at the entries of S; and Sᵀ G', to which G is added where `above` is Y.
    """

    @staticmethod
    def forward(
        ctx: Any, above: Tensor | None, values: Tensor, dense: Tensor, matrix: SparseMatrix, above_is_dense: bool
    ) -> Tensor:
        needs_values = ctx.needs_input_grad[1]
        above = dense if above_is_dense else above
        ctx.matrix, ctx.rows_above, ctx.above_is_dense = matrix, 0 if above is None else len(above), above_is_dense
        ctx.save_for_backward(values, dense if needs_values else None)
        if above is None:
            return multiply(matrix, values, dense)
        result = values.new_empty(ctx.rows_above + matrix.shape[0], dense.shape[1])
        result[: ctx.rows_above] = above
        multiply(matrix, values, dense, out=result[ctx.rows_above :])
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        values, dense = ctx.saved_tensors
        needs_above, needs_values, needs_dense, *_ = ctx.needs_input_grad
        for_above, for_product = gradients[0][: ctx.rows_above], gradients[0][ctx.rows_above :]
        for_values = sampled_products(ctx.matrix, for_product, dense.to(values.dtype)) if needs_values else None
        for_dense = None
        if needs_dense:
            for_dense = multiply_transposed(ctx.matrix, values, for_product, for_above if ctx.above_is_dense else None)
        return for_above if needs_above else None, for_values, for_dense, None, None


def _planned_product(
    plan: Plan, values: Tensor, dense: Tensor, out: Tensor | None = None, plus: Tensor | None = None
) -> Tensor:
    plus = None if plus is None else plus.contiguous()
    product: Tensor = triton("sparse").product(plan, values.contiguous(), dense.contiguous(), out, plus)
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
    # Autocast would hand a narrow dtype to sparse products, which not every device has.
    with warnings.catch_warnings(), torch.autocast(device.type, enabled=False):
        # Said once per process, of PyTorch's own CSR support and defaults: nothing a user could act on.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        yield
