"""The store: whole records or none, one owner a cell, and no other version's files touched."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_study import write

from fossil.errors import RunError
from fossil.studies.plan import Cell, Scoring
from fossil.studies.record import FORMAT, Record, Scores
from fossil.studies.store import Store

SCORES = Scores("paper", (0, 1000), (0.5, 0.6), (0.4, 0.5), (0.3, 0.2), majority=0.1, test_nodes=12)
RECORD = Record(
    key="k", graph="g", input="g", method="dgi", version=1, preset="default", settings={"width": 8}, treatment={},
    epochs=3, precision="float32", seed=0, scores={"s": SCORES}, warnings=("mind",), finished=5.0,
)  # fmt: skip


def opened(folder: Path, name: str = "small") -> Store:
    return Store.open(folder / "store", name, write(folder, name=name), create=True)


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write(RECORD)
    assert store.read("k") == RECORD
    assert store.read("other") is None


def test_scores_serve_where_all_wanted_splits_are_among_theirs() -> None:
    def cell(*seeds: int, key: str = "s") -> Cell:
        return Cell(0, 0, 0, "k", (Scoring("paper", key, seeds),))

    assert RECORD.serves(cell(0)) and RECORD.serves(cell(0, 1000))
    assert not RECORD.serves(cell(0, 1000, 2000)) and not RECORD.serves(cell(0, key="another"))
    assert SCORES.on((1000,), "accuracies") == [0.6]
    own = replace(RECORD, scores={"s": Scores("paper", (0,), (0.5,), supervised=True)})
    assert own.serves(cell(0, 1000))  # trained on labels: there is no other split
    assert replace(RECORD, scores={}, failed="diverged").serves(cell(0, 1000))


@pytest.mark.parametrize("content", ['{"half": ', "[]", '{"format": 99}', "{}"])
def test_a_damaged_record_is_named_and_left_alone(content: str, tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.path_of("k").write_text(content)
    with pytest.raises(RunError, match=r"k\.json"):
        store.read("k")
    assert store.path_of("k").read_text() == content


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (["seconds"], math.nan, "not JSON compliant"),
        (["seconds"], "5", "seconds: Input should be a valid number"),
        (["effective_rank"], math.inf, "not JSON compliant"),
        (["settings", "width"], math.nan, "not JSON compliant"),
        (["seed"], "0", "seed: Input should be a valid integer"),
        (["failed"], True, "failed: Input should be a valid string"),
        (["device"], 5, "device: Input should be a valid string"),
        (["key"], ["a"], "key: Input should be a valid string"),
        (["warnings"], [1], "warnings.0: Input should be a valid string"),
        (["nodes"], "many", "nodes: Input should be a valid integer"),
        (["speed"], 1, "speed: Unexpected keyword argument"),
        (["scores", "s", "accuracies"], [0.5, "a"], "scores.s.accuracies.1: Input should be a valid number"),
        (["scores", "s", "accuracies"], [50.0, 60.0], "accuracies.0: Input should be less than or equal to 1"),
        (["scores", "s", "accuracies"], [0.5], "scores.s: 1 accuracies of 2 splits"),
        (["scores", "s", "accuracies"], [], "scores.s: 0 accuracies of 2 splits"),
        (["scores", "s", "macro_f1s"], [0.5], "scores.s: 1 macro_f1s of 2 splits"),
        (["scores", "s", "seeds"], 3, "scores.s.seeds: Input should be a valid array"),
        (["scores", "s", "majority"], "most", "scores.s.majority: Input should be a valid number"),
    ],
    ids=str,
)
def test_a_record_with_a_value_that_is_none_of_its_kind_is_refused(
    place: list[str], value: Any, told: str, tmp_path: Path
) -> None:
    store, content = opened(tmp_path), json.loads(json.dumps(RECORD.to_dict()))
    at = content
    for name in place[:-1]:
        at = at[name]
    at[place[-1]] = value
    store.path_of("k").write_text(json.dumps(content))
    with pytest.raises(RunError, match=re.escape(told)):
        store.read("k")


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 100_000], ids=["deep", "long"])
def test_a_record_that_no_reader_gets_to_the_end_of_is_damaged(content: str, tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.path_of("k").write_text(content)
    with pytest.raises(RunError, match=r"k\.json is damaged"):
        store.read("k")


@pytest.mark.parametrize("studies", [5, {"small": 5}, {"small": "a\0b"}], ids=str)
def test_a_damaged_card_is_named_with_what_mends_it(studies: Any, tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write(RECORD)
    card = tmp_path / "store" / "store.json"
    card.write_text(json.dumps({"format": FORMAT, "studies": studies}))
    with pytest.raises(RunError, match=r"store\.json is damaged") as caught:
        opened(tmp_path)
    found = re.search(r"\{.*\}", caught.value.remedy)
    assert found is not None
    card.write_text(found[0])
    assert opened(tmp_path).read("k") == RECORD


def test_a_store_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    opened(tmp_path)
    card = tmp_path / "store" / "store.json"
    card.write_text(json.dumps({"format": FORMAT + 1, "something": "new"}))
    before = card.read_bytes()
    with pytest.raises(RunError, match=f"written in format {FORMAT + 1}; this version reads format {FORMAT}"):
        opened(tmp_path)
    assert card.read_bytes() == before


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "letter.txt").write_text("dear")
    with pytest.raises(RunError, match="holds something else than records"):
        opened(tmp_path)
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["letter.txt"]


def test_a_store_that_another_command_makes_at_the_same_moment_is_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    exists = Path.exists

    def late(path: Path, **how: bool) -> bool:
        found = exists(path, **how)
        if path.name == "store.json" and not found:
            monkeypatch.undo()
            opened(tmp_path)  # by the other command, right after this one looked
        return found

    monkeypatch.setattr(Path, "exists", late)
    assert opened(tmp_path).cells.is_dir()


def test_two_studies_of_one_name_are_refused_but_a_renamed_file_is_not(tmp_path: Path) -> None:
    opened(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text((tmp_path / "small.yaml").read_text())
    with pytest.raises(RunError, match=r"small\.yaml is a study called 'small' too"):
        Store.open(tmp_path / "store", "small", other)
    (tmp_path / "small.yaml").unlink()
    Store.open(tmp_path / "store", "small", other, create=True)
    assert json.loads((tmp_path / "store" / "store.json").read_text())["studies"] == {"small": "../other.yaml"}


def test_studies_of_different_names_share_a_store(tmp_path: Path) -> None:
    opened(tmp_path, "one")
    opened(tmp_path, "two")
    assert set(json.loads((tmp_path / "store" / "store.json").read_text())["studies"]) == {"one", "two"}


def test_looking_at_a_store_makes_none(tmp_path: Path) -> None:
    Store.open(tmp_path / "store", "small", write(tmp_path))
    assert not (tmp_path / "store").exists()


def test_a_cell_has_one_owner_at_a_time(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    with one.claim("k", "mine") as mine:
        assert mine
        with other.claim("k") as theirs, other.claim("another") as free:
            assert not theirs and free
        assert other.running()["k"]["what"] == "mine" and other.running()["k"]["pid"] == os.getpid()
    with other.claim("k") as theirs:
        assert theirs
    assert not other.running() and not list(one.claims.iterdir())


def test_a_claim_that_ended_while_somebody_else_opened_its_file_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path)
    ending, lock = store.claim("k"), fcntl.flock
    ending.__enter__()

    def late(descriptor: int, how: int) -> None:
        monkeypatch.undo()
        ending.__exit__(None, None, None)  # removes the file that is open here
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with store.claim("k") as mine:
        assert mine
        with store.claim("k") as theirs:
            assert not theirs


def test_a_killed_process_leaves_no_claim_behind(tmp_path: Path) -> None:
    store = opened(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # does nothing but hold a claim until it is killed
        with store.claim("k", "theirs") as mine:
            os.write(writing, b"1" if mine else b"0")
            signal.pause()
        os._exit(1)
    assert os.read(reading, 1) == b"1"
    with store.claim("k") as mine:
        assert not mine
    assert list(store.running()) == ["k"]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert list(store.claims.iterdir()) and not store.running()  # the file is there; nobody holds it
    with store.claim("k") as mine:
        assert mine
    assert not list(store.claims.iterdir())
