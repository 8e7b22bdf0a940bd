from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ring_graph import fit_ring

import fossil
from fossil.errors import FossilWarning, SettingError, UnknownNodeError
from fossil.neighbours.approximate import ABOUT, INDEX, ApproximateNeighbours
from fossil.neighbours.exact import ExactNeighbours
from fossil.runs import neighbours
from fossil.runs.embeddings import Embeddings
from fossil.runs.lock import locked
from fossil.runs.run import Run

VECTORS = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0]], np.float32)


@pytest.mark.parametrize("ids", [np.array(["a", "b", "c", "d"]), np.array([7, 5, 3, 1])], ids=["text", "numbers"])
def test_neighbours_come_under_the_callers_ids(ids: np.ndarray) -> None:
    found = Embeddings(ids, VECTORS, None).neighbours(str(ids[0]), k=2)
    assert [each.id for each in found] == ids[[1, 2]].tolist()
    assert [each.similarity for each in found] == pytest.approx([0.8, 0.0])
    assert type(found[0].id) is type(ids.tolist()[0]) and type(found[0].similarity) is float


def test_a_run_and_what_it_came_from_have_the_same_neighbours(tmp_path: Path) -> None:
    result = fit_ring(out=tmp_path / "run")
    assert fossil.load(tmp_path / "run").neighbours("n3", k=4) == result.neighbours("n3", k=4)
    with pytest.raises(UnknownNodeError, match="Node 'n99' has no vector here"):
        result.neighbours("n99")
    with pytest.raises(SettingError, match="k=0"):
        result.neighbours("n3", k=0)


def test_few_vectors_are_compared_and_many_get_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    assert neighbours.EXACT_BELOW == 20_000
    assert isinstance(neighbours.Searches(VECTORS).choose(), ExactNeighbours)
    monkeypatch.setattr(neighbours, "EXACT_BELOW", 4)
    assert isinstance(neighbours.Searches(VECTORS).choose(), ApproximateNeighbours)
    assert isinstance(neighbours.Searches(VECTORS).choose(exact=True), ExactNeighbours)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    fit_ring(out=tmp_path / "run")
    return tmp_path / "run"


def test_the_index_is_built_once_and_kept_with_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Run.open(run).neighbours("n3", exact=False)
    kept = json.loads((run / ABOUT).read_text())
    monkeypatch.setattr(ApproximateNeighbours, "build", lambda *_: pytest.fail("built again"))
    assert Run.open(run).neighbours("n3", exact=False) == first
    assert json.loads((run / ABOUT).read_text()) == kept
    assert Run.open(run).embeddings.vectors.shape == (20, 4)  # the other files are as they were


def test_a_damaged_index_is_built_again(run: Path) -> None:
    first = Run.open(run).neighbours("n3", exact=False)
    whole = (run / INDEX).stat().st_size
    (run / INDEX).write_bytes(b"usearch" + bytes(100))
    assert Run.open(run).neighbours("n3", exact=False) == first
    assert (run / INDEX).stat().st_size == whole


def test_training_anew_takes_the_index_away(run: Path) -> None:
    Run.open(run).neighbours("n3", exact=False)
    fit_ring(out=run, force=True, seed=5)
    assert not (run / INDEX).exists() and not (run / ABOUT).exists()


def test_where_the_index_cannot_be_kept_it_is_used_and_that_is_said(run: Path) -> None:
    with locked(run), pytest.warns(FossilWarning, match="not kept: .* is being written to"):
        found = Run.open(run).neighbours("n3", exact=False)
    assert [each.id for each in found] == [each.id for each in Run.open(run).neighbours("n3", exact=True)]
    assert not (run / INDEX).exists()
