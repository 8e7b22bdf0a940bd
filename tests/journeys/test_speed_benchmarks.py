"""Somebody repeats the speed measurements, on graphs small enough for a test."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
SMALL = ["--set", "hidden=16", "width=8", "num_anchors=10", "subgraph_size=5"]


def run(script: str, results: Path, *arguments: str, small: Sequence[str] = SMALL) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("TRITON_INTERPRET", "FOSSIL_DATA")}
    command = [sys.executable, str(SCRIPTS / script), "--threads", "1", "--results", str(results), *small, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(text: str, title: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose first heading is `title`."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {title} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_a_step_is_measured_beside_the_reference_and_the_floor(tmp_path: Path) -> None:
    path = tmp_path / "new" / "step.jsonl"
    text = run("step.py", path, "--nodes", "60", "--repeats", "1", "--reference-repeats", "1")
    (record,) = records_of(path)
    assert record["nodes"] == 60
    assert min(record["ours_ms"], record["reference_ms"], record["floor_ms"]) > 0
    assert record["floor_ms"] == pytest.approx(sum(record["floor_parts_ms"].values()))
    for part in ("sampling", "forward", "transport", "node loss", "gate", "optimiser"):
        assert record["parts_ms"][part] > 0
    assert all(record[name] for name in ("hardware", "torch", "python", "fossil", "time", "settings", "rates"))
    (row,) = rows_of(text, "graph")
    assert row[0] == "csbm:nodes=60" and len(row) == 9
    assert "whole step" in text


def test_growth_is_measured_part_by_part_and_taken_up_again(tmp_path: Path) -> None:
    path, figure = tmp_path / "growth.jsonl", tmp_path / "growth.png"
    arguments = ["--nodes", "60", "90", "--graphs-per-size", "1", "--repeats", "1", "--figure", str(figure)]
    text = run("growth.py", path, *arguments)
    records = records_of(path)
    assert [(record["method"], record["nodes"]) for record in records] == [
        ("fossil", 60), ("fossil_v2", 60), ("fossil", 90), ("fossil_v2", 90),
    ]  # fmt: skip
    for record in records:
        assert sum(record["parts_ms"].values()) == pytest.approx(record["step_ms"])
    assert figure.stat().st_size > 0
    assert [row[:3] for row in rows_of(text, "version")] == [
        ["v1", "csbm", "60"], ["v1", "csbm", "90"], ["v2", "csbm", "60"], ["v2", "csbm", "90"],
    ]  # fmt: skip
    again = run("growth.py", path, *arguments, "--resume")
    assert records_of(path) == records
    assert rows_of(again, "version") == rows_of(text, "version")


def test_growth_without_the_large_graph_says_what_is_missing(tmp_path: Path) -> None:
    sizes = ["--nodes", "60", "--methods", "fossil", "--large", "--large-nodes", "80", "--graphs-per-size", "1"]
    figure = ["--figure", str(tmp_path / "growth.png")]
    text = run("growth.py", tmp_path / "growth.jsonl", "--repeats", "1", *sizes, *figure)
    assert "FOSSIL_DATA" in text
    assert ["v2", "csbm", "80"] in [row[:3] for row in rows_of(text, "version")]


def test_trainings_are_timed_after_a_first_one(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    text = run("train.py", path, "--nodes", "60", "--epochs", "2", "--splits", "2", "--seeds", "2")
    (record,) = records_of(path)
    first, second = record["runs"]
    assert record["seconds"] == pytest.approx(second["training"] + second["evaluation"])
    assert record["first_seconds"] == pytest.approx(first["training"] + first["evaluation"])
    assert 0 <= record["accuracy"] <= 1
    assert f"100 seeds × 1 graph(s) at this rate: {100 * record['seconds'] / 60:.1f} minutes" in text


def test_scoring_is_measured_beside_scikit_learn(tmp_path: Path) -> None:
    path, cache = tmp_path / "scoring.jsonl", tmp_path / "vectors"
    arguments = ["--cases", "digits:8:share", "digits:8:class", "--splits", "2", "--repeats", "1", "--converged"]
    text = run("scoring.py", path, *arguments, "--cache", str(cache), small=())
    for record in records_of(path):
        ours, converged = record["ours"], record["scikit-learn, tol 1e-7"]
        assert ours["seconds"] > 0
        assert ours["accuracy"] == pytest.approx(converged["accuracy"], abs=0.003)
        assert record["nodes"] == 1797
        assert record["width"] == 8
    assert [row[:3] for row in rows_of(text, "graph")] == [
        ["digits", "1,797 × 8", "862"], ["digits", "1,797 × 8", "200"],
    ]  # fmt: skip
    assert len(list(cache.iterdir())) == 1


def test_several_processes_are_measured_beside_one(tmp_path: Path) -> None:
    path = tmp_path / "ranks.jsonl"
    small = ["--nodes", "60", "--features", "8", "--steps", "5", "--methods", "fossil_v2", "--processes", "1", "2"]
    text = run("ranks.py", path, *small)
    records = records_of(path)
    assert [(each["processes"], each["threads_each"]) for each in records] == [(1, 1), (1, 2), (2, 1)]
    assert all(each["step_ms"] > 0 and each["processor_ms"] > 0 for each in records)
    assert records[2]["apart"] < 1e-4
    assert [row[:2] for row in rows_of(text, "processes")] == [["1", "1"], ["1", "2"], ["2", "1"]]


def test_steps_of_which_none_counts_are_refused(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "ranks.py"), "--results", str(tmp_path / "ranks.jsonl"), "--steps", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--steps 3 leaves nothing to measure" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_explored_run_is_measured_beside_the_exact_search(tmp_path: Path) -> None:
    path = tmp_path / "explore.jsonl"
    asked = ["--nodes", "300", "--requests", "3", "--folder", str(tmp_path / "runs")]
    text = run("explore.py", path, *asked, small=())
    (record,) = records_of(path)
    assert record["search"]["recall_at_10"] > 0.9 and record["search"]["exact"]["p99"] > 0
    assert set(record["milliseconds"]) == {"node", "plan", "find", "table"}
    assert all(times["most"] >= times["p99"] >= times["median"] > 0 for times in record["milliseconds"].values())
    assert record["busy_mb"]["VmRSS"] >= record["busy_mb"]["RssAnon"] > 10
    (row,) = rows_of(text, "nodes")
    assert row[0] == "300" and len(row) == 13
