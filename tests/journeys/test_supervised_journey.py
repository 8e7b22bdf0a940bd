"""A supervised reference from the command line: trained on one split, scored on that split and on no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command import here, in_process

from fossil import Run
from fossil.graph.splits import paper_split, released_split

TRAIN = ("--epochs", "3", "--device", "cpu")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with FS-GCN of two seeds, and FS-MLP trained on the other rule's split."""
    folder = tmp_path_factory.mktemp("supervised")
    done = in_process("embed", "digits", "--method", "fs_gcn", *TRAIN, "--out", folder / "gcn-0")
    assert done.status == 0 and "vectors of width 10" in done.out, done.err
    for arguments in (
        ("--method", "fs_gcn", "--seed", "1", "--out", folder / "gcn-1"),
        ("--method", "fs_mlp", "--set", "split=paper", "--out", folder / "mlp-paper"),
    ):
        done = here("embed", "digits", *TRAIN, *arguments)
        assert done.status == 0, done.err
    return folder


def accuracy_by_hand(folder: Path) -> float:
    """The share of test nodes whose greatest class score is the right one."""
    run = Run.open(folder)
    settings, labels = run.config.settings.model_dump(), run.graph.labels
    assert labels is not None
    rule = released_split if settings["split"] == "released" else paper_split
    test = rule(labels, settings["split_seed"], per_class=False).test
    return float(np.mean(run.arrays["vectors"][test].argmax(1) == labels[test]))


def scores(folder: Path, protocol: str) -> list[dict[str, float]]:
    content: list[dict[str, float]] = json.loads((folder / f"scores-{protocol}.json").read_text())["scores"]
    return content


@pytest.mark.parametrize(("name", "protocol"), [("gcn-1", "released"), ("mlp-paper", "paper")])
def test_a_run_is_scored_once_on_its_own_split_whatever_is_asked(runs: Path, name: str, protocol: str) -> None:
    done = here("evaluate", runs / name, "--splits", "5", "--device", "cpu")
    assert done.status == 0, done.err
    [score] = scores(runs / name, protocol)
    assert score["seed"] == Run.open(runs / name).config.seed
    assert score["accuracy"] == pytest.approx(accuracy_by_hand(runs / name))
    assert f"{100 * score['accuracy']:.2f}" in done.out and "own split" in done.out
    words = " ".join(done.out.split())
    assert f"Protocol '{protocol}'" in words and "on the test nodes of that very split, once per run" in words
    assert "test maximum" not in done.out and "Evaluator" not in done.out


def test_runs_of_several_seeds_share_a_row(runs: Path) -> None:
    done = here("evaluate", runs / "gcn-0", runs / "gcn-1", "--features", "--device", "cpu", env={"COLUMNS": "200"})
    assert done.status == 0, done.err
    rows = [line for line in done.out.splitlines() if line.startswith("│") and "FS-GCN" in line]
    assert len(rows) == 1 and "2 × own split" in rows[0]
    assert re.search(r"FS-GCN epochs=3\s", rows[0])  # neither classes nor split seeds tell methods apart
    mean = np.mean([accuracy_by_hand(runs / name) for name in ("gcn-0", "gcn-1")])
    assert f"{100 * mean:.2f}" in rows[0]


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [(("--protocol", "paper"), "--protocol released"), (("--nodes-per-class", "5"), "--protocol released")],
)
def test_another_split_than_the_one_trained_on_is_refused(runs: Path, asked: tuple[str, ...], remedy: str) -> None:
    done = here("evaluate", runs / "gcn-0", *asked, "--device", "cpu")
    assert done.status == 2
    assert "trained on labels of another split" in done.line("error")
    assert remedy in done.line("remedy")


def test_runs_of_different_rules_fit_in_no_table(runs: Path) -> None:
    done = here("evaluate", runs / "gcn-0", runs / "mlp-paper", "--device", "cpu")
    assert done.status == 2
    assert "splits of different rules" in done.line("error") and "apart" in done.line("remedy")


def test_a_number_per_class_is_remembered(tmp_path: Path) -> None:
    train = ("--method", "fs_mlp", "--set", "split=paper", "--set", "nodes_per_class=5", *TRAIN)
    assert here("embed", "digits", *train, "--out", tmp_path / "run").status == 0
    done = here("evaluate", tmp_path / "run", "--device", "cpu")
    assert done.status == 0 and "train on 5 per class" in " ".join(done.out.split()), done.err
    refused = here("evaluate", tmp_path / "run", "--nodes-per-class", "6", "--device", "cpu")
    assert refused.status == 2 and "--protocol paper --nodes-per-class 5" in refused.line("remedy")
