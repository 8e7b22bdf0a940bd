"""Everything that can be wrong with a study: one message, status 2, and nothing lost."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command import here, in_process

STUDY = """
name: small
graphs: [{ input: "csbm:nodes=60,features=8,degree=6", title: A }]
methods: [features, { method: dgi, epochs: 2, settings: { width: 8 } }]
seeds: 1
splits: 2
protocols: [paper]
"""
Prepare = Callable[[Path], list[str]]


def with_text(old: str, new: str, *command: str) -> Prepare:
    """A study in which a text is replaced by another."""

    def prepare(folder: Path) -> list[str]:
        assert old in STUDY
        (folder / "small.yaml").write_text(STUDY.replace(old, new))
        return ["study", *(command or ("run",)), str(folder / "small.yaml")]

    return prepare


def with_store(change: Callable[[Path], object], *command: str) -> Prepare:
    """A study that was run, and whose folder was changed since."""

    def prepare(folder: Path) -> list[str]:
        (folder / "small.yaml").write_text(STUDY)
        assert here("study", "run", folder / "small.yaml", "--device", "cpu").status == 0
        change(folder)
        return ["study", *(command or ("run",)), str(folder / "small.yaml")]

    return prepare


def another_version(folder: Path) -> None:
    (folder / "small.results" / "store.json").write_text(json.dumps({"format": 99}))


def damaged_record(folder: Path) -> None:
    next((folder / "small.results" / "cells").glob("*.json")).write_text('{"half":')


def another_study(folder: Path) -> None:
    shutil.copy(folder / "small.yaml", folder / "first.yaml")
    card = folder / "small.results" / "store.json"
    card.write_text(json.dumps({"format": 1, "studies": {"small": "../first.yaml"}}))


def no_file(folder: Path) -> list[str]:
    return ["study", "plan", str(folder / "nothing.yaml")]


def a_folder(folder: Path) -> list[str]:
    return ["study", "plan", str(folder)]


def store_in_the_way(folder: Path) -> list[str]:
    (folder / "small.yaml").write_text(STUDY)
    (folder / "small.results").write_text("a file")
    return ["study", "run", str(folder / "small.yaml")]


def records_of_something_else(folder: Path) -> list[str]:
    (folder / "small.yaml").write_text(STUDY)
    (folder / "other.jsonl").write_text('{"ours_ms": 1.0}\n')
    return ["study", "import", str(folder / "small.yaml"), str(folder / "other.jsonl")]


CASES: dict[str, tuple[Prepare, str]] = {
    "no such file": (no_file, "cannot be read"),
    "a folder": (a_folder, "cannot be read"),
    "a key with a typo": (with_text("splits", "spilts"), "unknown key 'spilts'"),
    "a graph that does not exist": (with_text("csbm:", "cbsm:"), "neither a catalogue name nor a path"),
    "a parameter the graph has not": (with_text("nodes=60", "knots=60"), "csbm has no parameter 'knots'"),
    "a method that does not exist": (with_text("dgi", "dgy"), "Unknown method 'dgy'"),
    "a setting that does not exist": (with_text("width", "widht"), "Unknown setting 'widht'"),
    "a setting out of bounds": (with_text("width: 8", "width: 0"), "width=0 is not accepted"),
    "a preset that does not exist": (with_text("epochs: 2", "preset: fast"), "has no preset 'fast'"),
    "two rows of one title": (with_text("features,", "features, features,"), "two rows are called 'Features'"),
    "a reference that is no row": (
        with_text("protocols: [paper]", "protocols: [paper]\ntables: [{ reference: DIG }]"),
        "the reference 'DIG' is no row",
    ),
    "epochs of what is not trained": (with_text("features,", "{ method: prop, epochs: 3 },"), "is not trained"),
    "too many trainings": (
        with_text("seeds: 1", f"seeds: 10000\nsweep: {{ name: width, values: {list(range(1, 12))} }}"),
        "asks for 220,000 trainings",
    ),
    "a store of another version": (with_store(another_version), "was written in format 99"),
    "a store of another version, looked at": (with_store(another_version, "table"), "was written in format 99"),
    "a damaged record": (with_store(damaged_record), "is damaged"),
    "two studies of one name": (with_store(another_study), "is a study called 'small' too"),
    "a file where the store should be": (store_in_the_way, "holds something else than records"),
    "records of something else": (records_of_something_else, "is no record that this version reads"),
    "no figure": (with_text("seeds: 1", "seeds: 1", "figure"), "asks for no figure"),
    "no such device": (with_text("seeds: 1", "seeds: 1", "run", "--device", "abacus"), "no device"),
    "several tables in a form that holds one": (
        with_text("seeds: 1", "seeds: 1\ntables: [accuracy, { value: seconds }]", "table", "--format", "json"),
        "has 2 tables, and json holds one",
    ),
    "an export of nothing": (with_text("seeds: 1", "seeds: 1", "export", "--no-tables"), "nothing to write"),
    "records of nothing": (with_text("seeds: 1", "seeds: 1", "export", "--records"), "There are no records yet"),
    "no such table": (with_text("seeds: 1", "seeds: 1", "table", "--table", "seconds"), "no table 'seconds'"),
}  # fmt: skip


def digests(folder: Path) -> dict[Path, str]:
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_in_one_message_and_costs_nothing(name: str, tmp_path: Path) -> None:
    prepare, told = CASES[name]
    arguments = prepare(tmp_path)
    before = digests(tmp_path)
    outcome = here(*arguments)
    assert outcome.status == 2, outcome.err
    assert told in outcome.line("error") and outcome.line("remedy") and "Traceback" not in outcome.err
    after = digests(tmp_path)
    assert {path: after.get(path) for path in before} == before
    assert not list(tmp_path.rglob("*.part"))


def test_a_disk_that_is_full_stops_the_study_and_leaves_what_is_there(tmp_path: Path) -> None:
    """A file that can grow no more stands for the disk: records do not fit, what describes the store does."""
    file = tmp_path / "small.yaml"
    file.write_text(STUDY)
    full = in_process("study", "run", file, "--device", "cpu", largest_file=400)
    assert full.status == 2 and "Could not write" in full.line("error") and "Traceback" not in full.err
    assert not list((tmp_path / "small.results" / "cells").iterdir())  # no half record, and no failure of the method's
    done = here("study", "run", file, "--device", "cpu")
    assert done.status == 0 and "small: 2 of 2 trainings done, 0 missing" in done.out
