"""Somebody asks when to stop without labels, on a built-in graph and with few epochs."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import fossil
from fossil.evaluation.evaluate import score_result
from fossil.evaluation.protocol import protocol
from fossil.graph.heldout import hold_out

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "criteria.py"
SMALL = "hidden=16,width=8,untrained=8,num_anchors=20,subgraph_size=4"
OTHERS = [f"{SMALL},temperature={value}" for value in (0.3, 0.8)]


def run(results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    few = ["--graphs", "csbm:nodes=200", "--epochs", "3", "6", "12", "--splits", "2", "--device", "cpu"]
    command = [sys.executable, str(SCRIPT), "--results", str(results), *few, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def cells(printed: str, criterion: str) -> list[str]:
    """Return the cells of a criterion in the first table."""
    line = next(line for line in printed.splitlines() if line.startswith(f"| {criterion} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_each_checkpoint_is_recorded_once_with_all_criteria_and_the_accuracy_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "criteria.jsonl"
    done = run(path, "--settings", SMALL, *OTHERS)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["seed"], one["epoch"]) for one in records] == [(s, e) for s in (0, 1) for e in (3, 6, 12)] * 3
    finite = [value for one in records for value in one["criteria"].values() if value is not None]
    assert np.isfinite(finite).all() and all(len(one["criteria"]) == 19 for one in records)
    missing = {(one["epoch"], name) for one in records for name, value in one["criteria"].items() if value is None}
    assert missing == {(3, "fall of the loss"), (6, "fall of the loss")}  # too few epochs to tell
    # Stopping on the way changes nothing: the last checkpoint is what one training gives on the same graph.
    graph = fossil.open_graph("csbm:nodes=200").graph
    last = next(one for one in records if (one["seed"], one["epoch"]) == (1, 12))
    held = hold_out(graph, seed=0).graph
    result = fossil.embed(held, method="fossil_channels", settings=last["set"], epochs=12, seed=1, device="cpu")
    seeds = protocol("converged").rule("csbm").seeds(1, 2, graph.published_splits)
    assert last["accuracy"] == np.mean([one.accuracy for one in score_result(result, protocol("converged"), seeds)])
    assert last["criteria"]["loss"] == pytest.approx(
        np.mean([one["contrast"] for one in result.history[-5:]]), rel=1e-5
    )

    before = path.read_text()
    again = run(path, "--settings", SMALL, *OTHERS)
    assert again.returncode == 0 and path.read_text() == before
    hurried = run(path, "--settings", SMALL, "--seeds", "4", "--seconds", "-1")
    assert path.read_text() == before and hurried.stdout == again.stdout  # no time for further trainings
    assert "6 trainings, 2 splits a checkpoint" in again.stdout
    for name in last["criteria"]:
        assert len(cells(again.stdout, name)) == 7


def made_up(accuracies: Sequence[Sequence[float]], losses: Sequence[Sequence[float]], graph: str) -> Iterator[str]:
    """Yield records of two settings at 50, 150 and 300 epochs, all seeds alike."""
    for settings, of_one, loss in zip(({}, {"width": 128}, {"width": 64}), accuracies, losses, strict=False):
        for epoch, accuracy, value in zip((50, 150, 300), of_one, loss, strict=True):
            record: dict[str, Any] = {"graph": graph, "method": "fossil_channels", "set": settings, "splits": 5}
            record |= {"precision": "tf32", "epochs": [50, 150, 300], "epoch": epoch, "accuracy": accuracy}
            record |= {"validation_accuracy": accuracy, "criteria": {"loss": value, "rank": value}}
            yield from (json.dumps(record | {"seed": seed}) + "\n" for seed in (0, 1))


def test_the_table_has_correlations_and_what_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "criteria.jsonl"
    one = [[0.5, 0.7, 0.6], [0.4, 0.5, 0.8], [0.2, 0.3, 0.15]]
    other = [[0.9, 0.8, 0.7], [0.5, 0.6, 0.7], [0.5, 0.5, 0.6]]
    losses = [[3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [3.0, 2.0, 0.5]]
    path.write_text("".join([*made_up(one, losses, "cora"), *made_up(other, losses, "actor")]))
    printed = run(path, "--table-only").stdout
    of_graphs = [
        np.mean([-spearmanr(*pair).statistic for pair in zip(graph, losses, strict=True)]) for graph in (one, other)
    ]
    ends = [-spearmanr([each[-1] for each in graph], [1, 2, 0.5]).statistic for graph in (one, other)]
    # What each of three settings loses in points, first on the one graph and then on the other.
    at_50, at_150, at_300 = [20, 40, 10, 0, 20, 10], [0, 30, 0, 10, 10, 10], [10, 0, 15, 20, 0, 0]
    at_least_loss = [10, 30, 15, 20, 10, 0]  # 300, 150 and 300 epochs
    at_usual = [*at_50[:3], *at_150[3:]]  # the method trains 100 epochs on Cora and 201 on Actor

    found = cells(printed, "loss")
    assert found[0] == f"{np.mean(of_graphs):.2f}" and found[1] == f"{min(of_graphs):.2f}, {max(of_graphs):.2f}"
    assert found[2] == f"{np.mean(ends):.2f}"
    assert found[4:6] == [f"{np.mean(at_least_loss):.2f}", f"{np.mean(at_usual) - np.mean(at_least_loss):.2f}"]
    assert found[6] == f"{np.mean([65, 10]):.2f}"  # the third settings have it
    # The same numbers, of which more is better: the first checkpoint, and at the end the second settings.
    assert [cells(printed, "rank")[i] for i in (4, 6)] == [f"{np.mean(at_50):.2f}", "0.00"]
    assert cells(printed, "validation accuracy (has labels)")[4] == "0.00"
    assert cells(printed, "the method's own number of epochs")[4:6] == [f"{np.mean(at_usual):.2f}", "0.00"]
    longer = cells(printed, "always 300 epochs")
    assert longer[4] == f"{np.mean(at_300):.2f}" and longer[2] == longer[6] == "–"
    epochs = [spearmanr(each, [50, 150, 300]).statistic for each in [*one, *other]]
    assert longer[0] == f"{np.mean(epochs):.2f}"
    assert cells(printed, "a checkpoint at random")[4] == f"{np.mean([at_50, at_150, at_300]):.2f}"
    assert cells(printed, "epochs best on other graphs")[4] == f"{np.mean(at_300):.2f}"  # 300 on both
    assert cells(printed, "default settings")[6] == f"{np.mean([20, 0]):.2f}"


def test_a_file_of_other_records_and_half_a_pair_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.jsonl"
    path.write_text('{"ours_ms": 1.0}\n')
    for refused, reason in ((run(path), "line 1 of"), (run(tmp_path / "new.jsonl", "--seeds", "3"), "in pairs")):
        assert refused.returncode == 2 and "Traceback" not in refused.stderr
        assert reason in refused.stderr
    assert path.read_text() == '{"ours_ms": 1.0}\n'
