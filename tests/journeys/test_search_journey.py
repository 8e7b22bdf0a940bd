"""From two tables to settings: what a newcomer types, and what happens to a search that is killed."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from command import environment, here
from people import write_town

TOWN = ("search", "town", "--method", "dgi", "--epochs", "3", "--device", "cpu")
SPACE = ("--space", "width=4,8,16", "--space", "learning_rate=0.0001..0.01:log")
FIXED = ("--set", "layers=1", "--set", "weight_decay=0", "--set", "normalize_features=false")
QUICK = (*TOWN, *SPACE, *FIXED, "--encoders", "2")
TRIALS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("search")
    write_town(found / "town", 60)
    return found


def trials(path: Path) -> list[dict[str, Any]]:
    """What Optuna keeps of every trial, but for times and memory."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path / "journal.log")))
    return [
        {
            "number": one.number,
            "state": one.state.name,
            "params": one.params,
            "value": one.value,
            "values": one.user_attrs.get("values"),
            "reports": one.intermediate_values,
        }
        for one in optuna.load_study(study_name="search", storage=storage).trials
    ]


# Killed.


@pytest.fixture(scope="module")
def killed(folder: Path) -> dict[str, list[int]]:
    """Search once without a stop, and once killed at many changes on the disk; return how the commands ended."""
    steps: list[dict[str, Any]] = []

    def step(name: str, kill: int | None = None) -> None:
        out = folder / name
        arguments = [*QUICK, "--trials", str(TRIALS), "--out", str(out)]
        arguments[1] = str(folder / "town")
        steps.append({"name": name, "out": str(out), "arguments": arguments, "kill": kill})

    step("whole")
    for kill in (1, 3, 6, 9, 14, 17, 23):  # in the middle of a proposal, of an encoder, of what it is told
        step("killed", kill)
    step("killed")
    step("killed")
    (folder / "steps.json").write_text(json.dumps(steps))
    script = Path(__file__).with_name("killed_runs.py")
    command = [
        sys.executable,
        script,
        folder / "steps.json",
        "fossil.studies.search",
        "fossil.cli.search_report",
        "optuna",
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=120)
    statuses: dict[str, list[int]] = {}
    for one, result in zip(steps, json.loads(done.stdout), strict=True):
        statuses.setdefault(one["name"], []).append(result["status"])
    return statuses


def test_a_search_that_is_killed_again_and_again_loses_no_trial(folder: Path, killed: dict[str, list[int]]) -> None:
    assert killed["whole"] == [0]
    assert killed["killed"] == [-signal.SIGKILL] * 7 + [0, 0]
    whole = trials(folder / "whole")
    assert [one["number"] for one in whole] == list(range(TRIALS))
    assert trials(folder / "killed") == whole


# What is printed.


def test_the_way_from_two_tables_to_vectors(folder: Path) -> None:
    found = here(*QUICK, "--label", "label", "--trials", "4", "--out", "mine", cwd=folder)
    assert found.status == 0, found.err
    assert "the labels of 12 test nodes are sealed" in found.out
    assert re.search(r"trial 3: .*; 4 of 4 done, best \d+\.\d\d % \(trial \d\)", found.out)
    assert re.search(r"best of 4 trials \(\d trained in full.*\): trial \d, validation accuracy", found.out)
    assert "spread over" in found.out and "cannot be told from" in found.out
    assert "Test labels are sealed: opened 0 times." in found.out

    [command] = re.findall(r"^  (fossil embed .*)$", found.out, re.MULTILINE)
    words = shlex.split(command)
    assert words[:4] == ["fossil", "embed", "town", "--method"] and words[-1] == "runs/town-dgi-best"
    assert words[words.index("--label") :][:2] == ["--label", "label"]
    embedded = here(*words[1:], cwd=folder)
    assert embedded.status == 0, embedded.err
    # The exact settings of the best trial, to the last digit.
    import yaml

    [best] = re.findall(r": trial (\d), validation", found.out)
    config = yaml.safe_load((folder / "runs" / "town-dgi-best" / "config.yaml").read_text())["settings"]
    for name, value in trials(folder / "mine")[int(best)]["params"].items():
        assert config[name] == value, name

    again = here(*QUICK, "--label", "label", "--trials", "5", "--out", "mine", cwd=folder)
    assert "going on after 4 trials" in again.out and "trial 4:" in again.out and "trial 3:" not in again.out

    frozen = here(*QUICK, "--label", "label", "--trials", "5", "--out", "mine", "--freeze", "3", cwd=folder)
    assert frozen.status == 0, frozen.err
    assert "Test labels of this search were opened 1 time." in frozen.out and "test accuracy" in frozen.out
    after = here(*QUICK, "--label", "label", "--trials", "5", "--out", "mine", cwd=folder)
    assert "Test labels are no longer sealed: opened 1 time." in after.out
    more = here(*QUICK, "--label", "label", "--trials", "6", "--out", "mine", cwd=folder)
    assert more.status == 2 and "were opened" in more.line("error")


def test_a_graph_without_labels_is_searched_by_a_criterion_that_is_named(folder: Path) -> None:
    found = here(*QUICK, "--column", "label=drop", "--trials", "2", cwd=folder)
    assert found.status == 0, found.err
    assert "by criterion 'held-out-edges', without labels: " in found.out and "stand-in" in found.out
    assert "Test labels" not in found.out and "--column label=drop" in found.out
    assert (folder / "search-town-dgi" / "journal.log").exists()


# Bad input: one message, status 2, nothing written.


@pytest.mark.parametrize(
    ("further", "message", "remedy"),
    [
        (("--minutes", "0"), "In 0 minutes nothing is tried.", "More than 0 is needed (--minutes)."),
        (("--trials", "0"), "0 trials try nothing.", "At least one is needed (--trials)."),
        (("--space", "widht=4"), "The space names 'widht', which is no setting of DGI.", "Did you mean 'width'?"),
        (("--space", "dropout=0.5,1.5"), "The space of dropout holds 1.5", "accepted are ≥ 0, < 1"),
        (("--set", "dropuot=0"), "Unknown setting 'dropuot'.", "Did you mean 'dropout'?"),
        (("--criterion", "rank"), "Unknown criterion 'rank'.", "Did you mean 'rankme'?"),
        (("--criterion", "rankme", "--protocol", "paper"), "contradict each other", "Leave one of them out."),
        (
            ("--protocol", "paper", "--column", "label=drop"),
            "town has no labels, which --protocol needs.",
            "--criterion held-out-edges",
        ),
        (("--protocol", "geom_gcn"), "town comes without the published splits", "--protocol converged"),
        (("--pruning", "often"), "--pruning 'often' is not accepted.", "Use median or none."),
        (("--encoders", "0"), "0 encoders try nothing.", "At least one is needed (--encoders)."),
        (("--max-seconds", "0"), "leaves nothing to try", "Give more than 0."),
        (("--method", "dgii"), "Unknown method 'dgii'.", "Did you mean 'dgi'?"),
        (("--freeze", "3", "--criterion", "rankme", "--trials", "1"), "No labels are sealed", "Leave out --freeze."),
    ],
)
def test_bad_input_has_one_message(folder: Path, further: tuple[str, ...], message: str, remedy: str) -> None:
    out = folder / "nothing" / "-".join(further).replace("/", "-")
    found = here(*QUICK, "--out", out, *further, cwd=folder)
    assert found.status == 2, found.out
    assert message in found.line("error") and remedy in found.line("remedy")
    assert not out.exists()


def test_the_folder_of_something_else_is_left_alone(folder: Path) -> None:
    found = here(*QUICK, "--trials", "1", "--out", "town", cwd=folder)
    assert found.status == 2 and "holds files that are not a search" in found.line("error")
    assert sorted(path.name for path in (folder / "town").iterdir()) == ["edges.csv", "nodes.csv"]


def test_without_optuna_the_extra_is_named(folder: Path) -> None:
    with mock.patch.dict(sys.modules, {"optuna": None}):
        found = here(*QUICK, "--trials", "1", cwd=folder)
    assert found.status == 2 and found.line("remedy") == "pip install 'fossil-gnn[search]'"
