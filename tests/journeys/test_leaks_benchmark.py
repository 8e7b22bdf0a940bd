"""Somebody asks what transport does where a lookup finds the node, on a built-in graph and with few epochs."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

import fossil
from fossil.evaluation.evaluate import score_result
from fossil.evaluation.protocol import protocol

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "leaks.py"
GRAPH = "csbm:nodes=150,degree=1.5"  # sparse: many nodes have one neighbour, and the same one


def run(results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    few = ["--graphs", GRAPH, "--epochs", "2", "--splits", "2", "--encoders", "2", "--threads", "1"]
    command = [sys.executable, str(SCRIPT), "--results", str(results), *few, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_found_nodes_and_others_make_the_accuracy_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "leaks.jsonl"
    done = run(path)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((one["encoder"], one["weight"]) for one in records) == [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)]
    one = next(one for one in records if (one["encoder"], one["weight"]) == (1, 1.0))
    assert 0 < one["share"] < 1 and 1 < one["rank"] < 5 * 256
    settings = {"subgraph_weight": 1.0}
    result = fossil.embed(GRAPH, method="fossil_channels", settings=settings, seed=1, epochs=2, device="cpu")
    rule = protocol("converged")
    scores = score_result(result, rule, rule.rule("csbm").seeds(0, 2, {}))
    parts = one["share"] * one["found"] + (1 - one["share"]) * one["others"]
    assert parts == pytest.approx(fmean(each.accuracy for each in scores), abs=0.02)  # other sums on other threads
    assert f"| {GRAPH} | 2 | {100 * one['share']:.3g} |" in done.stdout

    before = path.read_text()
    assert run(path, "--resume").returncode == 0 and path.read_text() == before


def test_closeness_is_the_mean_over_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("leaks", SCRIPT)
    assert spec is not None and spec.loader is not None
    leaks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(leaks)
    random = np.random.default_rng(0)
    rows, lists = random.normal(size=(12, 4)), np.array([0, 0, 0, 1, 1, 2, -1, -1, 3, 3, 3, 3])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    within = [cosines[i, j] for i, j in pairs if lists[i] == lists[j] >= 0]
    assert leaks.closeness(rows, lists) == pytest.approx(np.mean(within) - np.mean([cosines[pair] for pair in pairs]))
