"""Somebody repeats the accuracy measurements, on a built-in graph and with few epochs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fossil

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy.py"
SMALL = ["--graphs", "digits", "--epochs", "1", "--splits", "2", "--device", "cpu", "--set", "hidden=16", "width=8"]


def run(results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--results", str(results), *SMALL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_encoders_are_trained_once_and_protocols_and_precisions_have_rows_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.jsonl"
    assert run(path, "--seeds", "1").returncode == 0
    assert run(path, "--seeds", "2").returncode == 0
    assert run(path, "--seeds", "1", "--protocol", "released-unit-rows").returncode == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["seed"], one["protocol"]) for one in records] == [
        (0, "released"),
        (1, "released"),
        (0, "released-unit-rows"),
    ]
    earlier = records[0] | {"code": "as it was", "precision": "tf32"}
    path.write_text(path.read_text() + json.dumps(earlier) + "\n")
    table = run(path, "--table-only").stdout.splitlines()[2:-2]
    cells = [[cell.strip() for cell in line.strip("|").split("|")][1:5] for line in table]
    assert cells == [
        ["released hidden=16 width=8 float32", "released", "digits", "2 × 2"],
        ["released hidden=16 width=8 float32", "released-unit-rows", "digits", "1 × 2"],
        ["released hidden=16 width=8 (as it was)", "released", "digits", "1 × 2"],
    ]


def test_an_encoder_is_scored_on_test_nodes_of_as_many_splits_as_asked_for(tmp_path: Path) -> None:
    path, splits = tmp_path / "accuracy.jsonl", 4
    few = ["--methods", "dgi", "--epochs", "3", "--protocol", "paper", "--splits", str(splits), "--set", "width=8"]
    assert run(path, "--seeds", "1", *few).returncode == 0
    (record,) = [json.loads(line) for line in path.read_text().splitlines()]
    result = fossil.embed("digits", method="dgi", epochs=3, settings={"width": 8}, seed=0, device="cpu")
    (row,) = fossil.evaluate(result, protocol="paper", splits=splits, device="cpu")
    assert record["accuracies"] == pytest.approx(row.accuracy.values, abs=1e-5)
    assert len(set(record["accuracies"])) > 1 and len(record["accuracies"]) == splits
    assert record["accuracy"] == pytest.approx(row.accuracy.mean, abs=1e-9)
    assert record["validation_accuracy"] != record["accuracy"]


def test_a_file_of_other_records_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    path.write_text('{"ours_ms": 1.0}\n')
    refused = run(path, "--seeds", "1")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "line 1 of" in refused.stderr and "name another file" in refused.stderr
    assert path.read_text() == '{"ours_ms": 1.0}\n'


def test_who_does_not_beat_what_nothing_was_trained_for_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.jsonl"
    few = ["--methods", "features", "prop", "dgi", "--splits", "2", "--seeds", "1", "--set"]
    done = run(path, *few, "width=64")  # settings of their own are no row to beat
    assert done.returncode == 0 and "†" not in done.stdout.splitlines()[-3], done.stderr
    assert run(path, *few).returncode == 0
    records = {one["method"]: one for one in map(json.loads, path.read_text().splitlines()) if not one["set"]}
    assert records["prop"]["epochs"] is None and records["dgi"]["epochs"] == 1
    result = fossil.embed("digits", method="prop", seed=0, device="cpu")
    (row,) = fossil.evaluate(result, protocol="released", splits=2, device="cpu")
    assert records["prop"]["accuracies"] == pytest.approx(row.accuracy.values, abs=1e-5)

    def marked(**accuracies: list[float]) -> list[bool]:
        lines = [one | {"accuracies": accuracies[name]} for name, one in records.items()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        printed = run(path, "--table-only").stdout
        assert "† does not beat the better of features and propagated features" in printed
        return ["†" in line for line in printed.splitlines() if line.startswith(tuple(f"| {name}" for name in records))]

    assert marked(features=[0.5, 0.6], prop=[0.7, 0.8], dgi=[0.7, 0.9]) == [False, False, False]
    assert marked(features=[0.5, 0.6], prop=[0.7, 0.8], dgi=[0.7, 0.8]) == [False, False, True]
    assert marked(features=[0.9, 0.6], prop=[0.7, 0.7], dgi=[0.7, 0.75]) == [False, False, True]
