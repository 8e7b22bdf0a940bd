from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.ops.features import FeatureMatrix
from fossil.ops.svd import right_singular_vectors


def found(matrix: np.ndarray | sp.csr_array, rank: int, seed: int = 0, **options: int) -> np.ndarray:
    features = FeatureMatrix.from_host(matrix)
    return right_singular_vectors(features, rank, torch.Generator().manual_seed(seed), **options).double().numpy()


def with_spectrum(values: np.ndarray, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    left, _ = np.linalg.qr(random.normal(size=(rows, len(values))))
    right, _ = np.linalg.qr(random.normal(size=(columns, len(values))))
    return (left * values @ right.T).astype(np.float32)


def residual(matrix: np.ndarray, vectors: np.ndarray) -> float:
    wide = matrix.astype(np.float64)
    return float(np.linalg.norm(wide - wide @ vectors @ vectors.T))


@pytest.mark.parametrize("decay", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("rank", [1, 8, 30])
def test_what_is_left_out_is_hardly_more_than_the_exact_svd_leaves_out(rank: int, decay: float) -> None:
    matrix = with_spectrum(np.arange(1, 81.0) ** -decay, 300, 120)
    exact = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
    vectors = found(matrix, rank)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(rank), atol=1e-5)
    least = np.sqrt((exact[rank:] ** 2).sum())
    assert least * (1 - 1e-6) <= residual(matrix, vectors) <= 1.02 * least
    # Halko, Martinsson and Tropp, Theorem 10.5, which holds without any further iteration and so all the more here.
    assert residual(matrix, found(matrix, rank, iterations=1)) <= np.sqrt(1 + rank / 9) * least


def test_separated_directions_are_those_of_the_exact_svd_in_order() -> None:
    matrix = with_spectrum(np.array([8.0, 5.0, 3.0, 2.0, 1.0, 0.5, 0.1]), 200, 60)
    _, values, exact = np.linalg.svd(matrix.astype(np.float64))
    vectors = found(matrix, 5)
    np.testing.assert_allclose(np.abs((vectors * exact[:5].T).sum(axis=0)), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(matrix @ vectors, axis=0), values[:5], rtol=1e-5)
    assert (vectors[np.abs(vectors).argmax(axis=0), range(5)] > 0).all()


def test_sparse_and_dense_features_have_the_same_vectors_and_any_seed_the_same_subspace() -> None:
    matrix = sp.random_array((400, 150), density=0.05, rng=np.random.default_rng(3), dtype=np.float32).tocsr()
    dense, sparse = found(matrix.toarray(), 20), found(matrix, 20)
    np.testing.assert_allclose(dense, sparse, atol=2e-4)
    np.testing.assert_array_equal(sparse, found(matrix, 20))
    assert residual(matrix.toarray(), found(matrix, 20, seed=1)) == pytest.approx(
        residual(matrix.toarray(), sparse), rel=1e-3
    )


def test_blocks_of_columns_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = with_spectrum(np.arange(20, 0, -1.0), 90, 40)
    whole = found(matrix, 6)
    monkeypatch.setattr("fossil.ops.features._BLOCK", 3 * 90)
    np.testing.assert_allclose(found(matrix, 6), whole, atol=1e-5)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_directions_that_are_not_there_are_zero(size: float) -> None:
    few = found(with_spectrum(size * np.array([3.0, 2.0]), 50, 20), 6)
    np.testing.assert_allclose(np.linalg.norm(few, axis=0), [1, 1, 0, 0, 0, 0], atol=1e-5)
    fewer_rows = found((size * np.random.default_rng(0).normal(size=(3, 20))).astype(np.float32), 6)
    np.testing.assert_allclose(np.linalg.norm(fewer_rows, axis=0), [1, 1, 1, 0, 0, 0], atol=1e-5)
    np.testing.assert_array_equal(found(np.zeros((5, 9), np.float32), 4), np.zeros((9, 4)))


def test_the_whole_space_is_found_exactly() -> None:
    matrix = with_spectrum(np.array([4.0, 3.0, 2.0, 1.0]), 30, 4)
    exact = np.linalg.svd(matrix.astype(np.float64))[2]
    np.testing.assert_allclose(np.abs(exact @ found(matrix, 4)), np.eye(4), atol=1e-5)


def test_products_are_as_wide_as_the_directions_that_are_followed_or_as_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    widths: list[int] = []
    matrix, project = with_spectrum(np.arange(20, 0, -1.0), 90, 40), FeatureMatrix.project

    def spy(self: FeatureMatrix, weight: torch.Tensor) -> torch.Tensor:
        widths.append(weight.shape[1])
        return project(self, weight)

    monkeypatch.setattr(FeatureMatrix, "project", spy)
    found(matrix, 6, oversampling=3, iterations=2)
    assert widths == [9, 9, 9]
    found(matrix, 35, oversampling=10, iterations=2)
    assert widths[3:] == [40]  # all there are
    monkeypatch.setattr("fossil.ops.features._BLOCK", 4 * 90)
    found(matrix, 6, oversampling=3, iterations=0)
    assert widths[4:] == [4, 4, 1]
