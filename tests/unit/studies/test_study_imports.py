"""Trainings that were done elsewhere are taken over, where they are what the study asks for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_study import DGI, run, trained, write

from fossil.errors import RunError
from fossil.studies.imports import import_records
from fossil.studies.plan import open_study
from fossil.studies.record import Record
from fossil.studies.recorded import export_records
from fossil.studies.results import Results
from fossil.studies.store import Store


def taken(file: Path, records: Path) -> tuple[str, Results]:
    plan, _ = open_study(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    return import_records(plan, store, records), Results(plan, store)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder for a second store."""
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere"


def test_exported_records_come_back_and_spare_their_trainings(tmp_path: Path, elsewhere: Path) -> None:
    results = run(write(tmp_path))
    path = export_records(results, tmp_path / "out")
    file = write(elsewhere, methods=[DGI], seeds=3)
    said, again = taken(file, path)
    assert said == "2 taken, 0 there already, 2 not asked for by this study"
    assert again.records == {key: results.records[key] for key in again.records}
    assert len(again.records) == 2 and len(trained(file)) == 1  # the third encoder


def test_records_of_another_study_keep_the_name_of_the_first_file_they_came_from(
    tmp_path: Path, elsewhere: Path
) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI], seeds=1)), tmp_path)
    _, second = taken(write(elsewhere, name="second", methods=[DGI], seeds=1), path)
    _, third = taken(write(elsewhere, name="third", methods=[DGI], seeds=1), export_records(second, tmp_path))
    _, back = taken(write(elsewhere, name="third", methods=[DGI], seeds=1, store="anew"), tmp_path / "second.jsonl")
    for results in (second, third, back):
        assert [record.imported for record in results.records.values()] == ["small.jsonl"]


def test_what_is_there_stays_and_scores_that_it_lacks_are_added(tmp_path: Path, elsewhere: Path) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI], protocols=["paper", "released"])), tmp_path)
    before = run(write(elsewhere, methods=[DGI])).records
    said, after = taken(write(elsewhere, methods=[DGI], protocols=["paper", "released"]), path)
    assert said.startswith("2 taken, 0 there")
    for key, record in before.items():
        assert {one.protocol for one in after.records[key].scores.values()} == {"paper", "released"}
        assert replace(after.records[key], scores=record.scores) == record  # its time, its device and so on
    assert taken(write(elsewhere, methods=[DGI]), path)[0].startswith("0 taken, 2 there already")


@pytest.mark.parametrize("content", ["{", "[1]", "[" * 100_000, '{"ours_ms": 1.0}', '{"key": "k", "format": 99}'])
def test_a_file_of_other_things_is_refused_whole(content: str, tmp_path: Path, elsewhere: Path) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI], seeds=1)), tmp_path)
    path.write_text(path.read_text() + content + "\n")
    with pytest.raises(RunError, match="Line 2 of"):
        taken(write(elsewhere, methods=[DGI]), path)
    assert not list((elsewhere / "small.results" / "cells").iterdir())


def test_of_a_damaged_record_nothing_is_taken_and_the_remedy_is_of_a_file(tmp_path: Path, elsewhere: Path) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI], seeds=2)), tmp_path)
    first, second = map(json.loads, path.read_text().splitlines())
    path.write_text(json.dumps(first) + "\n" + json.dumps({**second, "seconds": "long"}) + "\n")
    with pytest.raises(RunError, match=r"Line 2 of .* \(seconds: Input should be a valid number\)") as caught:
        taken(write(elsewhere, methods=[DGI]), path)
    assert "nothing was taken" in caught.value.remedy
    assert not list((elsewhere / "small.results" / "cells").iterdir())


def test_a_failure_gives_way_to_a_training_that_did_not_fail(tmp_path: Path, elsewhere: Path) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI], seeds=1)), tmp_path)
    file = write(elsewhere, methods=[DGI], seeds=1)
    plan, _ = open_study(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    [cell] = plan.cells
    good = run(write(tmp_path, methods=[DGI], seeds=1)).records[cell.key]
    failed = replace(good, scores={}, failed="It diverged.", digest="")
    store.write(failed)
    said, results = taken(file, path)
    assert said.startswith("1 taken") and results.count(plan.cells).done == 1
    # And a failure from elsewhere changes nothing.
    store.write(good)
    path.write_text(json.dumps({"places": []} | failed.to_dict()) + "\n")
    said, results = taken(file, path)
    assert said.startswith("0 taken, 1 there already") and results.records[cell.key] == good


def test_a_cell_that_is_being_trained_is_left_to_who_trains_it(tmp_path: Path, elsewhere: Path) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI])), tmp_path)
    file = write(elsewhere, methods=[DGI])
    plan, _ = open_study(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    busy, free = (cell.key for cell in plan.cells)
    with store.claim(busy) as mine:
        assert mine
        said, results = taken(file, path)
        assert said.startswith("1 taken, 0 there already") and set(results.records) == {free}
        assert said.endswith("; 1 being trained now, which are left to that: import them again when it is over")
    assert taken(file, path)[0].startswith("1 taken, 1 there already") and not store.running()


def test_what_was_finished_before_the_claim_is_kept(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = export_records(run(write(tmp_path, methods=[DGI], seeds=1, protocols=["paper", "released"])), tmp_path)
    file = write(elsewhere, methods=[DGI], seeds=1, protocols=["paper", "released"])
    good = run(write(elsewhere, name="other", methods=[DGI], seeds=1, store="small.results"))
    [record] = good.records.values()
    store = Store(elsewhere / "small.results")
    store.path_of(record.key).unlink()
    claim, read, seen = Store.claim, Store.read, list[str]()

    def claimed(self: Store, key: str, what: str = "") -> Any:
        store.write(record)  # another process ends its training between the look and the claim
        return claim(self, key, what)

    def looked(self: Store, key: str) -> Record | None:
        seen.append(key)
        return read(self, key)

    monkeypatch.setattr(Store, "claim", claimed)
    monkeypatch.setattr(Store, "read", looked)
    plan, _ = open_study(file)
    assert import_records(plan, store, path).startswith("1 taken")
    after = read(store, record.key)
    assert len(seen) == 2 and after is not None and after.digest and not after.imported  # its own training, more scores
    assert {one.protocol for one in after.scores.values()} == {"paper", "released"}
