"""Eigenvectors of symmetric matrices, also where the solver of the device gives up."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fossil.ops.eigen import eigh


def gram(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return two symmetric matrices of low rank: most eigenvalues are zero."""
    rows = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (rows.mT @ rows).to(dtype)


@pytest.mark.parametrize("gives_up", [False, True])
def test_matrices_are_made_of_their_eigenvectors_also_where_float32_gives_up(
    gives_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved = torch.linalg.eigh

    def solver(matrices: Tensor) -> tuple[Tensor, Tensor]:
        if gives_up and matrices.dtype == torch.float32:
            raise torch.linalg.LinAlgError("linalg.eigh: (Batch element 0): The algorithm failed to converge")
        return solved(matrices)

    monkeypatch.setattr(torch.linalg, "eigh", solver)
    values, vectors = eigh(gram())
    assert values.dtype == vectors.dtype == torch.float32
    torch.testing.assert_close(values.double(), solved(gram(torch.float64))[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(vectors * values[:, None] @ vectors.mT, gram(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(8).expand(2, 8, 8), atol=1e-5, rtol=1e-5)
