"""The leading right singular vectors of a tall matrix, by randomised subspace iteration.

Halko, Martinsson and Tropp, SIAM Review 2011. Only products with X and its transpose are needed, so that sparse
features stay sparse. All that is kept has F rows: products with X, which have N, pass through in blocks.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from fossil.ops.eigen import eigh
from fossil.ops.precision import full_float32


class HasGram(Protocol):
    """Features that can be multiplied by Xᵀ X, wherever they lie."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""

    def gram_product(self, dense: Tensor) -> Tensor:
        """Return Xᵀ X times `dense` (F×B), without a gradient: F×B."""


@full_float32()
def right_singular_vectors(
    features: HasGram, rank: int, random: torch.Generator, *, oversampling: int = 10, iterations: int = 4
) -> Tensor:
    """Return the leading right singular vectors of X as columns (F×`rank`), in falling order of singular values.

    The largest entry of each is positive. Where X has fewer singular values that float32 can tell from zero, the
    columns that are left are zero.

    Args:
        features: X (N×F), with F at least `rank`.
        rank: how many.
        random: what the first subspace is drawn from.
        oversampling: further directions that are followed and then dropped.
        iterations: multiplications by Xᵀ X, each followed by a QR factorisation.
    """
    columns = features.shape[1]
    followed = min(columns, rank + oversampling)
    start = torch.randn(columns, followed, generator=random, device=random.device)
    basis: Tensor = torch.linalg.qr(start)[0]
    for _ in range(iterations if followed < columns else 0):  # the whole space is found already
        basis = torch.linalg.qr(features.gram_product(basis))[0]
    # The small problem is solved in float64: its eigenvalues are squares of singular values.
    small = basis.double().T @ features.gram_product(basis).double()
    squares, turn = eigh((small + small.T) / 2)
    squares, turn = squares.flip(0)[:rank], turn.flip(1)[:, :rank]
    vectors: Tensor = basis @ turn.float()
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    told_from_zero = squares > torch.finfo(torch.float32).eps * squares[0]
    return vectors.mul_(torch.where(largest < 0, -1.0, 1.0) * told_from_zero)
