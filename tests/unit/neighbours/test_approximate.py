from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from some_vectors import clustered, cosines

from fossil.errors import RunError, SettingError
from fossil.neighbours.approximate import ABOUT, INDEX, ApproximateNeighbours
from fossil.neighbours.exact import ExactNeighbours

pytest.importorskip("usearch")


def recall(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), true.tolist(), strict=True)]))


@pytest.mark.parametrize("kind", ["clouds", "noise"])
def test_it_finds_97_of_100_true_neighbours(kind: str) -> None:
    # Noise of many directions is the hardest there is: no vector has a surrounding that would lead to it.
    random = np.random.default_rng(0)
    vectors = clustered(25_000) if kind == "clouds" else random.normal(size=(25_000, 64)).astype(np.float32)
    rows = random.choice(25_000, 300, replace=False)
    found = ApproximateNeighbours.build(vectors).nearest(rows, 10)
    true = np.argsort(-cosines(vectors, rows), axis=1)[:, :10]
    assert recall(found.rows, true) >= 0.97
    assert not (found.rows == rows[:, None]).any()


def test_similarities_are_exact_and_in_order() -> None:
    vectors = clustered(3000)
    rows = np.arange(0, 3000, 50)
    found = ApproximateNeighbours.build(vectors).nearest(rows, 10)
    expected = np.take_along_axis(cosines(vectors, rows), found.rows, axis=1)
    assert found.similarities == pytest.approx(expected, abs=1e-6)
    assert (np.diff(found.similarities, axis=1) <= 0).all()


def test_among_equal_vectors_there_are_as_many_neighbours_as_asked_for() -> None:
    search = ApproximateNeighbours.build(np.ones((2000, 4), np.float32))
    found = search.nearest(np.array([5, 1999]), 50)
    assert found.rows.shape == (2, 50) and found.similarities == pytest.approx(np.ones((2, 50)))
    assert all(len(set(row)) == 50 for row in found.rows.tolist())


def test_there_are_no_more_neighbours_than_other_vectors() -> None:
    search = ApproximateNeighbours.build(np.eye(3, dtype=np.float32))
    assert search.nearest(np.array([0]), 10).rows.tolist() == [[1, 2]]
    assert search.nearest(np.array([], np.int64), 2).rows.shape == (0, 2)


def test_progress_ends_at_one() -> None:
    shares: list[float] = []
    ApproximateNeighbours.build(clustered(20_000, width=4), shares.append)
    assert shares == [16_384 / 20_000, 1.0]


def test_a_kept_index_answers_as_the_one_that_was_kept(tmp_path: Path) -> None:
    vectors, rows = clustered(3000), np.arange(0, 3000, 30)
    made = ApproximateNeighbours.build(vectors)
    made.save(tmp_path)
    opened = ApproximateNeighbours.opened(tmp_path, vectors)
    assert opened is not None
    assert (opened.nearest(rows, 10).rows == made.nearest(rows, 10).rows).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == [ABOUT, INDEX]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _claim_another_making(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"made_with": {}}))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (INDEX, _flip),
        (INDEX, lambda path: path.write_bytes(path.read_bytes()[:-9])),
        (INDEX, lambda path: path.write_bytes(b"")),
        (INDEX, Path.unlink),
        (ABOUT, _claim_another_making),
        (ABOUT, lambda path: path.write_text("{")),
        (ABOUT, Path.unlink),
    ],
)
def test_a_damaged_index_is_not_used(tmp_path: Path, name: str, damage: object) -> None:
    vectors = clustered(500)
    ApproximateNeighbours.build(vectors).save(tmp_path)
    damage(tmp_path / name)  # type: ignore[operator]
    assert ApproximateNeighbours.opened(tmp_path, vectors) is None


def test_an_index_of_other_vectors_is_not_used(tmp_path: Path) -> None:
    vectors = clustered(500)
    ApproximateNeighbours.build(vectors).save(tmp_path)
    moved = vectors.copy()
    moved[7, 3] += 1
    for other in (moved, vectors[:-1], vectors[:, :-1], vectors.reshape(250, -1)):
        assert ApproximateNeighbours.opened(tmp_path, other) is None
    assert ApproximateNeighbours.opened(tmp_path, vectors.copy()) is not None


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="Could not write"):
        ApproximateNeighbours.build(clustered(50)).save(tmp_path / "file")


def test_without_usearch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(SettingError, match=r"needs usearch.*fossil-gnn\[neighbours\]"):
        ApproximateNeighbours.build(clustered(50))
    assert ExactNeighbours(clustered(50)).nearest(np.array([0]), 3).rows.shape == (1, 3)
