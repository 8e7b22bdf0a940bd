"""Chebyshev polynomials of a propagation matrix: learnt filters of a graph's frequencies.

A polynomial p of the shifted Laplacian L̃ = L - I = -D^-1/2 A D^-1/2 multiplies the part of a signal at frequency
1 + x of L, x an eigenvalue of L̃ in [-1, 1], by p(x): low-pass filters decrease in x, high-pass filters increase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from fossil.nn.convolution import project
from fossil.nn.sparse import FeatureMatrix, SparseMatrix


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


def chebyshev_terms(matrix: SparseMatrix, signal: Tensor, order: int) -> list[Tensor]:
    """Return T_0(M) X to T_K(M) X by T_{i+1} = 2 M T_i - T_{i-1}, in K products.

    Args:
        matrix: M, N×N with eigenvalues in [-1, 1].
        signal: X, N×D.
        order: K.
    """
    terms = [signal]
    for degree in range(order):
        spread = matrix.matmul(terms[-1])
        terms.append(spread if degree == 0 else 2 * spread - terms[-2])
    return terms


def weighted_sum(terms: Sequence[Tensor], coefficients: Tensor) -> Tensor:
    """Return Σ_i c_i T_i (N×D) for terms T_i (N×D each) and coefficients c (K+1), without a stacked copy."""
    weights = coefficients.unbind()
    total = weights[0] * terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total = total + weight * term
    return total


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
        inward: F, width of the input.
        outward: D, width of the output.
        terms: how many T_i, the identity T_0 included.
    """

    def __init__(self, inward: int, outward: int, terms: int) -> None:
        super().__init__()
        weights = [nn.init.xavier_uniform_(torch.empty(inward, outward)) for _ in range(terms)]
        self.weight = nn.Parameter(torch.cat(weights, 1))
        self.bias = nn.Parameter(torch.zeros(outward))

    def forward(self, x: Tensor | FeatureMatrix, propagation: SparseMatrix) -> Tensor:
        """Return the convolution of `x` (N×F) with `propagation` M (N×N): N×D."""
        signals = torch.split(project(x, self.weight), len(self.bias), 1)
        return chebyshev_series(propagation, signals) + self.bias
