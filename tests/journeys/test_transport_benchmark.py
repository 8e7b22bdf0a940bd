"""Somebody repeats the comparison with other solvers, on a problem small enough for a test."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "transport.py"
SOLVERS = ["ours", "plain batched torch", "POT ot.batch", "POT BAPG in a loop"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, str(SCRIPT), "--threads", "1", "--repeats", "1", "--iterations", "10", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_quick_table_compares_all_solvers_in_one_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "found.jsonl"
    done = run("--quick", "--batches", "12", "--sizes", "5", "--sample", "3", "--json", str(path))
    assert done.returncode == 0, done.stderr
    records = records_of(path)
    assert [record["solver"] for record in records] == 2 * SOLVERS
    for record in records:
        assert record["milliseconds"] > 0
        assert record["failed"] == 0
        assert (record["pairs"], record["nodes"], record["step"], record["iterations"]) == (12, 5, 0.1, 10)
        assert record["timed_pairs"] == (3 if record["solver"] == SOLVERS[3] else 12)
        assert all(record[name] for name in ("hardware", "torch", "pot", "python", "fossil", "time"))
        assert record["seed"] == 0
    forward = {record["solver"]: record for record in records[:4]}
    # The same algorithm from the same start: equal plans, whoever computes them.
    assert forward["plain batched torch"]["objective"] == pytest.approx(forward["ours"]["objective"], rel=1e-4)
    assert forward["POT ot.batch"]["row_error"] < forward["ours"]["row_error"]
    rows = [line for line in done.stdout.splitlines() if line.startswith("| 12 |")]
    assert len(rows) == 8
    assert sum("¹" in row for row in rows) == 2


def test_the_numerics_table_shows_where_solvers_fail(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    peers = ["--peers", "plain batched torch", "POT BAPG in a loop"]
    done = run("--numerics", "--sizes", "4", "--sample", "3", "--json", str(path), *peers)
    assert done.returncode == 0, done.stderr
    records = records_of(path)
    assert len(records) == 5 * 5 * 3 * 3
    assert all(record["failed"] == 0 for record in records if record["solver"] == "ours")
    assert any(record["failed"] == 1 for record in records if record["solver"] == "POT BAPG in a loop")


def test_single_pairs_are_solved_alike_by_both(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    done = run("--single", "--sizes", "9", "--steps", "1", "--json", str(path))
    assert done.returncode == 0, done.stderr
    records = {record["solver"]: record for record in records_of(path)}
    for algorithm in ("BAPG", "conditional gradient"):
        ours, pot = records[f"ours, {algorithm}"], records[f"POT, {algorithm}"]
        assert ours["objective"] == pytest.approx(pot["objective"], rel=1e-6)
        assert ours["times_pot"] == pytest.approx(ours["milliseconds"] / pot["milliseconds"])
        assert pot["times_pot"] == 1


def test_an_unknown_peer_is_named() -> None:
    done = run("--peers", "nobody")
    assert done.returncode == 2
    assert "nobody" in done.stderr
