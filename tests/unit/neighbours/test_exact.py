from __future__ import annotations

import numpy as np
import pytest
from some_vectors import clustered, cosines

from fossil.errors import SettingError
from fossil.neighbours.exact import ExactNeighbours


def test_neighbours_are_those_of_the_plain_formula_over_several_blocks() -> None:
    vectors = clustered(40_000, width=6)
    rows = np.array([0, 1, 16_383, 16_384, 39_999, *range(7, 900, 3)])  # more than a block of queries
    found = ExactNeighbours(vectors).nearest(rows, 10)
    expected = np.sort(cosines(vectors, rows), axis=1)[:, ::-1][:, :10]
    assert found.similarities == pytest.approx(expected, abs=1e-6)
    assert np.take_along_axis(cosines(vectors, rows), found.rows, axis=1) == pytest.approx(expected, abs=1e-6)
    assert not (found.rows == rows[:, None]).any()


def test_of_equal_vectors_the_first_come_first() -> None:
    found = ExactNeighbours(np.ones((6, 3), np.float32)).nearest(np.array([2]), 5)
    assert found.rows.tolist() == [[0, 1, 3, 4, 5]]


@pytest.mark.parametrize("k", [3, 40])
def test_of_more_equal_vectors_than_are_asked_for_the_first_are_found(k: int) -> None:
    vectors = np.repeat(np.array([[1.0, 0], [0, 1]], np.float32), 20_000, axis=0)  # more than a block of either
    found = ExactNeighbours(vectors).nearest(np.array([1, 30_000]), k)
    assert found.rows.tolist() == [[0, *range(2, k + 1)], [*range(20_000, 20_000 + k)]]


def test_there_are_no_more_neighbours_than_other_vectors() -> None:
    search = ExactNeighbours(np.eye(3, dtype=np.float32))
    assert search.nearest(np.array([0]), 10).rows.tolist() == [[1, 2]]
    assert ExactNeighbours(np.ones((1, 2))).nearest(np.array([0]), 10).rows.shape == (1, 0)
    assert search.nearest(np.array([], np.int64), 2).rows.shape == (0, 2)


def test_a_vector_of_length_zero_is_at_a_right_angle_to_all() -> None:
    found = ExactNeighbours(np.array([[0.0, 0], [1, 0], [-1, 0]])).nearest(np.array([0, 1]), 2)
    assert found.similarities.tolist() == [[0, 0], [0, -1]]
    assert found.rows.tolist() == [[1, 2], [0, 2]]


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_lengths_beyond_the_squares_of_float32_do_not_matter(scale: float) -> None:
    vectors = clustered(50)
    rows = np.arange(50)
    expected = ExactNeighbours(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).nearest(rows, 5)
    assert (ExactNeighbours((vectors * scale / 1e3).astype(np.float32)).nearest(rows, 5).rows == expected.rows).all()


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_than_one_neighbour_is_refused(k: int) -> None:
    with pytest.raises(SettingError, match=f"k={k} is not accepted"):
        ExactNeighbours(np.eye(2)).nearest(np.array([0]), k)
