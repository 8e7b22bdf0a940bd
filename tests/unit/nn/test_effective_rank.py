import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.nn.effective_rank import effective_rank, sampled_rank
from fossil.ops.unit import unit_vectors


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_effective_rank_of_a_line_is_one() -> None:
    line = torch.linspace(-2, 3, 10)[:, None] * torch.tensor([[1.0, 2.0, -1.0]])
    assert effective_rank(line).item() == pytest.approx(1, rel=1e-5)


def test_effective_rank_of_an_isotropic_cloud_is_its_dimension() -> None:
    assert effective_rank(draw(50_000, 8)).item() == pytest.approx(8, rel=0.01)
    corners = torch.cat([torch.eye(5), -torch.eye(5)])
    assert effective_rank(corners).item() == pytest.approx(5, rel=1e-5)


@pytest.mark.parametrize("nodes", [0, 1, 4096, 4097, 50_000])
def test_sampled_rank_is_that_of_evenly_spaced_rows(nodes: int) -> None:
    embeddings = draw(nodes, 8)
    rows = [i for i in range(nodes) if i % max(1, math.ceil(nodes / 4096)) == 0]
    assert len(rows) <= 4096
    assert sampled_rank(embeddings).item() == pytest.approx(effective_rank(embeddings[rows]).item(), nan_ok=True)
    if nodes == 50_000:
        assert sampled_rank(embeddings).item() == pytest.approx(8, rel=0.01)


def test_rows_that_are_wider_than_many_need_no_square_of_their_width() -> None:
    rows = draw(12, 300_000)  # a covariance of 360 GB
    squares = np.linalg.svd(_centred(rows), compute_uv=False) ** 2
    assert effective_rank(rows).item() == pytest.approx(squares.sum() ** 2 / (squares**2).sum(), rel=1e-4)


def _centred(rows: torch.Tensor) -> np.ndarray:
    unit = (rows / rows.norm(dim=1, keepdim=True)).double().numpy()
    return unit - unit.mean(0)


def test_effective_rank_is_the_participation_of_the_singular_values() -> None:
    embeddings = draw(40, 6) * torch.tensor([5.0, 3, 1, 1, 0.1, 0])
    unit = embeddings.numpy() / np.linalg.norm(embeddings.numpy(), axis=1, keepdims=True)
    squares = np.linalg.svd(unit - unit.mean(0), compute_uv=False) ** 2
    assert effective_rank(embeddings).item() == pytest.approx(squares.sum() ** 2 / (squares**2).sum(), rel=1e-10)
    assert effective_rank(embeddings * torch.rand(40, 1).add(0.1)).item() == pytest.approx(
        effective_rank(embeddings).item(), rel=1e-10
    )


def test_effective_rank_of_nothing_but_zeros_is_finite() -> None:
    assert math.isfinite(effective_rank(torch.zeros(5, 3)).item())


def test_the_rank_of_many_rows_is_found_in_blocks_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randn(70, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.3
    whole = effective_rank(rows)
    asked = []

    def unit(part: torch.Tensor) -> torch.Tensor:
        asked.append(part.numel())
        return unit_vectors(part)

    monkeypatch.setattr("fossil.nn.effective_rank.unit_vectors", unit)
    monkeypatch.setattr("fossil.nn.effective_rank._NUMBERS_AT_ONCE", 80)
    torch.testing.assert_close(effective_rank(rows), whole, rtol=1e-12, atol=0)
    assert max(asked) == 80 and sum(asked) == 2 * rows.numel()
    wide = rows.T.contiguous()  # whose covariance is not made, however many numbers there are
    monkeypatch.setattr("fossil.nn.effective_rank._NUMBERS_AT_ONCE", 1)
    assert effective_rank(wide).item() <= 4 and asked[-1] == wide.numel()
