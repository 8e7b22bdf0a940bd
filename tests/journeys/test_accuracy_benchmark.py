"""Somebody repeats the accuracy measurements, on a built-in graph and with few epochs."""

import json
import subprocess
import sys
from pathlib import Path

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
    table = run(path, "--table-only").stdout.splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")][1:5] for line in table]
    assert cells == [
        ["released hidden=16 width=8 float32", "released", "digits", "2 × 2"],
        ["released hidden=16 width=8 float32", "released-unit-rows", "digits", "1 × 2"],
        ["released hidden=16 width=8 (as it was)", "released", "digits", "1 × 2"],
    ]


def test_a_file_of_other_records_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    path.write_text('{"ours_ms": 1.0}\n')
    refused = run(path, "--seeds", "1")
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "line 1 of" in refused.stderr and "name another file" in refused.stderr
    assert path.read_text() == '{"ours_ms": 1.0}\n'
