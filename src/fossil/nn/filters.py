"""Chebyshev polynomials of a propagation matrix: learnt filters of a graph's frequencies.

A polynomial p of the shifted Laplacian L̃ = L - I = -D^-1/2 A D^-1/2 multiplies the part of a signal at frequency
1 + x of L, x an eigenvalue of L̃ in [-1, 1], by p(x): low-pass filters decrease in x, high-pass filters increase.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fossil.nn.convolution import project
from fossil.ops.autograd import Function
from fossil.ops.features import FeatureMatrix
from fossil.ops.precision import products_in
from fossil.ops.sparse import SparseMatrix, multiply


def chebyshev_nodes(order: int) -> Tensor:
    """Return the K+1 zeros of T_{K+1} in ascending order, x_j = cos((K - j + 1/2) π / (K + 1)), as float64."""
    places = torch.arange(order, -1, -1, dtype=torch.float64)
    return torch.cos((places + 0.5) * math.pi / (order + 1))


def interpolation_matrix(order: int) -> Tensor:
    """Return B with c = B γ the coefficients of the polynomial that takes the values γ at `chebyshev_nodes`.

    c_i = 2/(K+1) Σ_j γ_j T_i(x_j), and half of it for c_0, so that p = Σ_i c_i T_i.

    Args:
        order: K, the degree.

    Returns:
        (K+1)×(K+1), float64.
    """
    angle = torch.acos(chebyshev_nodes(order))
    degrees = torch.arange(order + 1, dtype=torch.float64)
    matrix = 2 / (order + 1) * torch.cos(degrees[:, None] * angle)  # T_i(cos a) = cos(i a)
    matrix[0] /= 2
    return matrix


@dataclass(frozen=True, eq=False)
class ChebyshevRecurrence:
    """A matrix M (N×N) and what `chebyshev_filters` multiplies by, on a device.

    Attributes:
        matrix: M, with eigenvalues in [-1, 1].
        transpose: Mᵀ.
        step: [-I 2M] (N×2N). Its product with T_{i-1} above T_i is T_{i+1} = 2 M T_i - T_{i-1}, without another pass
            over N×D numbers.
    """

    matrix: SparseMatrix
    transpose: SparseMatrix
    step: SparseMatrix

    @classmethod
    def from_scipy(cls, matrix: sp.csr_array, device: torch.device | str = "cpu") -> ChebyshevRecurrence:
        """Copy a square SciPy CSR matrix to `device`, values as float32."""
        step = sp.hstack([-sp.eye_array(matrix.shape[0], dtype=np.float32), 2 * matrix])
        parts = (sp.csr_array(each) for each in (matrix, matrix.T, step))
        return cls(*(SparseMatrix.from_scipy(part, device) for part in parts))


def chebyshev_filters(recurrence: ChebyshevRecurrence, signal: Tensor, coefficients: Tensor) -> Tensor:
    """Return Σ_i c_fi T_i(M) X for each filter f, in K sparse products and as many for the gradient of X.

    The terms are kept for the backward pass only if the coefficients need a gradient. It can be differentiated once.
    The result is float32 inside `torch.autocast` too, and float64 where X or c is.

    Args:
        recurrence: of M, N×N with eigenvalues in [-1, 1].
        signal: X, N×D.
        coefficients: c, one row of K+1 for each of V filters, K at least 1.

    Returns:
        V×N×D.
    """
    filtered: Tensor = _ChebyshevFilters.apply(signal, coefficients, recurrence)
    return filtered


class _ChebyshevFilters(Function):
    @staticmethod
    def forward(ctx: Any, signal: Tensor, coefficients: Tensor, recurrence: ChebyshevRecurrence) -> Tensor:
        kind = torch.promote_types(torch.promote_types(signal.dtype, coefficients.dtype), torch.float32)
        weights = coefficients.to(kind)
        terms = _terms(recurrence, signal, weights.shape[1], kind)
        ctx.recurrence, ctx.kinds = recurrence, (signal.dtype, coefficients.dtype)
        ctx.save_for_backward(weights, terms if ctx.needs_input_grad[1] else None)
        with _full_precision(signal.device):
            return (weights @ terms.flatten(1)).view(-1, *signal.shape)  # one pass over the terms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        weights, terms = ctx.saved_tensors
        gradients = upstream[0].to(weights.dtype)
        for_signal = for_coefficients = None
        with _full_precision(gradients.device):
            if ctx.needs_input_grad[0]:
                for_signal = _clenshaw(ctx.recurrence.transpose, weights, gradients).to(ctx.kinds[0])
            if ctx.needs_input_grad[1]:
                # <G_f, T_i> node by node: many small products, because one long sum would keep few processors busy.
                products = gradients.contiguous().transpose(0, 1) @ terms.permute(1, 2, 0)
                for_coefficients = products.sum(0).to(ctx.kinds[1])
        return for_signal, for_coefficients, None


def _terms(recurrence: ChebyshevRecurrence, signal: Tensor, count: int, kind: torch.dtype) -> Tensor:
    """Return T_0(M) X, T_1(M) X and so on: `count`×N×D of a type."""
    terms = signal.new_empty(count, *signal.shape, dtype=kind)
    terms[0] = signal
    multiply(recurrence.matrix, recurrence.matrix.values.to(kind), terms[0], out=terms[1])
    step = recurrence.step.values.to(kind)
    for degree in range(2, count):
        multiply(recurrence.step, step, terms[degree - 2 : degree].flatten(0, 1), out=terms[degree])
    return terms


def _clenshaw(matrix: SparseMatrix, coefficients: Tensor, signals: Tensor) -> Tensor:
    """Return Σ_i T_i(M) Σ_f c_fi G_f by Clenshaw's recurrence, with S_i = Σ_f c_fi G_f made when it is needed.

    B_i = S_i + 2 M B_{i+1} - B_{i+2} from the highest degree down; the sum is S_0 + M B_1 - B_2.

    Args:
        matrix: M, N×N.
        coefficients: c, V×(K+1).
        signals: G_1 to G_V, V×N×D, of the type of the coefficients.

    Returns:
        N×D.
    """
    values = matrix.values.to(signals.dtype)
    *lower, highest = coefficients.T
    current = _mixed(torch.zeros_like(signals[0]), signals, highest)
    before = torch.zeros_like(current)
    for degree in range(len(lower) - 1, -1, -1):
        product = multiply(matrix, values, current)
        # before + 2 (product - before) in one pass, and at the end half as much of the product
        following = product.sub_(before) if degree == 0 else torch.lerp(before, product, 2.0)
        current, before = _mixed(following, signals, lower[degree]), current
    return current


def _mixed(total: Tensor, signals: Tensor, weights: Tensor) -> Tensor:
    """Add Σ_f w_f G_f to `total` (N×D), in place."""
    for signal, weight in zip(signals, weights, strict=True):
        total.addcmul_(signal, weight)
    return total


@contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    """Forbid narrow types and TF32: large terms cancel in a sum, and its time goes into memory, not arithmetic."""
    with torch.autocast(device.type, enabled=False), products_in("float32", device):
        yield


def chebyshev_series(matrix: SparseMatrix, signals: Sequence[Tensor]) -> Tensor:
    """Return Σ_i T_i(M) X_i, a signal of its own for each degree, by Clenshaw's recurrence.

    B_i = X_i + 2 M B_{i+1} - B_{i+2} from the highest degree down; the sum is X_0 + M B_1 - B_2.

    Args:
        matrix: M, N×N with eigenvalues in [-1, 1].
        signals: X_0 to X_K, N×D each.
    """
    first, *higher = signals
    current: Tensor | None = None
    before: Tensor | None = None
    for signal in reversed(higher):
        following = signal if current is None else signal + 2 * matrix.matmul(current)
        current, before = (following if before is None else following - before), current
    if current is None:
        return first
    total = first + matrix.matmul(current)
    return total if before is None else total - before


class MonotoneFilter(nn.Module):
    """A polynomial that is monotone at the Chebyshev nodes: a learnt low-pass or high-pass filter.

    Its value starts at 2 (low) or 0 (high) at the lowest frequency and falls or rises from node to node by a learnt,
    non-negative step relu(a_j). At first all steps are 2/K: low runs from 2 to 0, high from 0 to 2. A step that has
    become negative has no gradient and stays flat.

    Args:
        order: K, the degree.
        band: which frequencies pass.
    """

    interpolation: Tensor

    def __init__(self, order: int, band: Literal["low", "high"]) -> None:
        super().__init__()
        self.steps = nn.Parameter(torch.full((order,), 2 / order))
        self.start, self.sign = (2.0, -1.0) if band == "low" else (0.0, 1.0)
        self.register_buffer("interpolation", interpolation_matrix(order).float(), persistent=False)

    def values(self) -> Tensor:
        """Return γ, the K+1 values at the Chebyshev nodes, the lowest frequency first."""
        travelled = torch.relu(self.steps).cumsum(0)
        return self.start + self.sign * nn.functional.pad(travelled, (1, 0))

    def coefficients(self) -> Tensor:
        """Return c, the K+1 coefficients of p = Σ_i c_i T_i."""
        return self.interpolation @ self.values()


class ChebyshevConvolution(nn.Module):
    """Σ_i T_i(M) X W_i + b (Defferrard et al., NeurIPS 2016), Glorot-uniform W_i and b = 0.

    X W_i is computed first, all i in one product, so that neighbours are summed over D columns.

    Args:
        in_features: F, width of the input.
        out_features: D, width of the output.
        terms: how many T_i, the identity T_0 included.
    """

    def __init__(self, in_features: int, out_features: int, terms: int) -> None:
        super().__init__()
        weights = [nn.init.xavier_uniform_(torch.empty(in_features, out_features)) for _ in range(terms)]
        self.weight = nn.Parameter(torch.cat(weights, 1))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor | FeatureMatrix, propagation: SparseMatrix) -> Tensor:
        """Return the convolution of `x` (N×F) with `propagation` M (N×N): N×D."""
        signals = torch.split(project(x, self.weight), len(self.bias), 1)
        return chebyshev_series(propagation, signals) + self.bias
