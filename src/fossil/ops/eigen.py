"""Eigenvalues of symmetric matrices, also of those that a GPU gives up on."""

from __future__ import annotations

import torch
from torch import Tensor


def eigh(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues in rising order (…×D) and eigenvectors in columns (…×D×D) of symmetric matrices (…×D×D).

    In float32 a GPU now and then does not converge where many eigenvalues are all but equal, as those of vectors of low
    rank are. Such matrices are solved on the host in float64.

    >>> eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))[0]
    tensor([1., 2.])
    """
    try:
        values, vectors = torch.linalg.eigh(matrices)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        exact = torch.linalg.eigh(matrices.cpu().double())
        values, vectors = (each.to(matrices) for each in exact)
    return values, vectors
