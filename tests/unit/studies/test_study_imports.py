"""Trainings that were done elsewhere are taken over, where they are what the study asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_study import DGI, run, trained, write

from fossil.errors import RunError
from fossil.studies.imports import import_records
from fossil.studies.plan import open_study
from fossil.studies.recorded import export_records
from fossil.studies.results import Results
from fossil.studies.store import Store

STUDY: dict[str, Any] = {"graphs": ["digits"], "methods": [DGI], "seeds": 2, "splits": 2}


def taken(file: Path, records: Path) -> tuple[str, Results]:
    plan, graphs = open_study(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    return import_records(plan, graphs, store, records), Results(plan, store)


def of_the_script(**changes: Any) -> dict[str, Any]:
    """A record as `benchmarks/accuracy.py` writes it."""
    return {
        "graph": "digits", "method": "dgi", "preset": "default", "set": {"width": 8}, "direction": "keep", "epochs": 3,
        "splits": 3, "precision": "float32", "seed": 0, "seconds": 2.5, "lambda_mean": None, "effective_rank": 3.0,
        "peak_memory_gb": 0.5, "device": "NVIDIA H200", "torch": "2.11.0", "protocol": "paper", "accuracy": 0.5,
        "majority": 0.1, "test_nodes": 360, "accuracies": [0.5, 0.6, 0.4], "test_maxima": [], "evaluation_seconds": 1.0,
    } | changes  # fmt: skip


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_records_of_the_script_spare_their_trainings(tmp_path: Path) -> None:
    file = write(tmp_path, **STUDY)
    records = [
        of_the_script(),
        of_the_script(seed=5),  # a seed that nobody asks for
        of_the_script(set={}, seed=1),  # other settings
        of_the_script(direction="symmetrize", seed=1),
        of_the_script(code="as it was", seed=1),
        of_the_script(graph="cora", seed=1),
        of_the_script(protocol="released", seed=1),
        of_the_script(set={"gone": 1}, seed=1),
    ]
    said, results = taken(file, lines(tmp_path / "records.jsonl", *records))
    assert said == "1 taken, 0 there already, 7 not asked for by this study"
    [record] = results.records.values()
    assert (record.imported, record.seconds, record.memory, record.device) == ("records.jsonl", 2.5, 5e8, "NVIDIA H200")
    # Of its three splits the study wants two, and pairs them with those of others by their seeds.
    assert results.values(0, 0, "accuracy", "paper") == {0: {0: 0.5, 1000: 0.6}}
    assert len(trained(file)) == 1


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path, **STUDY)
    before = run(file).records
    said, after = taken(file, lines(tmp_path / "records.jsonl", of_the_script()))
    assert said.startswith("0 taken, 1 there already") and after.records == before


def test_a_method_that_trained_on_labels_has_one_split(tmp_path: Path) -> None:
    rows = [{"method": "fs_mlp", "epochs": 3, "settings": {"hidden": 4, "split": "paper"}}]
    file = write(tmp_path, **STUDY | {"methods": rows})
    one = of_the_script(method="fs_mlp", set={"hidden": 4, "split": "paper"}, accuracies=[0.7])
    _, results = taken(file, lines(tmp_path / "records.jsonl", one))
    assert results.values(0, 0, "accuracy", "paper") == {0: {0: 0.7}}


def test_exported_records_come_back(tmp_path: Path) -> None:
    file = write(tmp_path, **STUDY)
    results = run(file)
    path = export_records(results, tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    said, again = taken(write(tmp_path / "elsewhere", **STUDY), path)
    assert said.startswith("2 taken")
    assert {key: record.scores for key, record in again.records.items()} == {
        key: record.scores for key, record in results.records.items()
    }


@pytest.mark.parametrize("content", ["{", "[1]", '{"ours_ms": 1.0}', '{"key": "k", "format": 99}'])
def test_a_file_of_other_things_is_refused_whole(content: str, tmp_path: Path) -> None:
    file, path = write(tmp_path, **STUDY), tmp_path / "records.jsonl"
    path.write_text(json.dumps(of_the_script()) + "\n" + content + "\n")
    with pytest.raises(RunError, match="Line 2 of"):
        taken(file, path)
    assert not list((tmp_path / "small.results" / "cells").iterdir())
