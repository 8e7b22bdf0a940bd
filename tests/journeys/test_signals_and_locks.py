"""Processes that are told to end, and processes that share an output folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from command import QUICK, environment, here

from fossil.runs.lock import locked

SOURCE = "csbm:nodes=60,features=8"
SHARED = {"new": (), "resume": ("--resume",), "force": ("--force",)}
COPIES = 4
SIGNALS = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _hanging_up_is_heard() -> Iterator[None]:
    """Whoever runs the tests may do so under `nohup`, where SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def command(out: Path, *further: str, epochs: int = 40) -> list[str]:
    small = (*QUICK, "--set", "solver_iterations=3")
    return ["embed", SOURCE, "--out", str(out), "--epochs", str(epochs), *small, *further]


@dataclass
class Played:
    """The folder everything happened in, and the results of each step."""

    folder: Path
    results: dict[str, list[dict[str, Any]]]

    def vectors(self, name: str) -> np.ndarray:
        with np.load(self.folder / name / "embeddings.npz") as stored:
            return np.asarray(stored["vectors"])

    def epochs(self, name: str) -> list[int]:
        lines = (self.folder / name / "history.jsonl").read_text().splitlines()
        return [json.loads(line)["epoch"] for line in lines]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("shared")
    steps: dict[str, dict[str, Any]] = {}

    def step(name: str, out: str, *further: str, epochs: int = 40, copies: int = 1, stop: int | None = None) -> None:
        arguments = command(folder / out, *further, epochs=epochs)
        steps[name] = {"arguments": arguments, "copies": copies, "out": str(folder / out), "signal": stop}

    step("whole", "whole")
    for number in SIGNALS:
        step(f"stopped{number}", f"stopped{number}", stop=number)
    for name, further in SHARED.items():
        if further:
            step(f"{name} before", name, epochs=2)
        step(name, name, *further, copies=COPIES)
    (folder / "steps.json").write_text(json.dumps(list(steps.values())))
    script = Path(__file__).with_name("shared_folders.py")
    done = subprocess.run(
        [sys.executable, script, folder / "steps.json"], env=environment(), capture_output=True, text=True, check=True
    )
    return Played(folder, dict(zip(steps, json.loads(done.stdout), strict=True)))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_first_checkpoint_keeps_every_epoch(played: Played, number: int) -> None:
    name = f"stopped{number}"
    out, [result] = played.folder / name, played.results[name]
    assert result["status"] == 128 + number
    assert "error: Stopped after epoch" in result["err"] and "--resume" in result["err"]
    assert "Traceback" not in result["err"]
    assert (out / "checkpoint.safetensors").exists() and not (out / "run.lock").exists()
    assert here(*command(out, "--resume")).status == 0
    assert np.array_equal(played.vectors(name), played.vectors("whole"))
    assert played.epochs(name) == played.epochs("whole")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_outside_training_ends_quietly(tmp_path: Path, number: int) -> None:
    with mock.patch("fossil.runs.plan.open_graph", side_effect=lambda *_, **__: os.kill(os.getpid(), number)):
        done = here(*command(tmp_path / "never"))
    assert done.status == 128 + number
    assert done.err.startswith("interrupted") and "Traceback" not in done.err
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("name", SHARED)
def test_of_processes_with_one_folder_one_at_a_time_writes(played: Played, name: str) -> None:
    results, out = played.results[name], played.folder / name
    done = [result for result in results if result["status"] == 0]
    refused = [result["err"] for result in results if result["status"] == 2]
    assert done and len(done) + len(refused) == COPIES
    for said in refused:  # by one who holds the lock and, in a moment, signs it
        assert re.search(r"is being written to by (process \d+ on|another process\.)|already holds a run", said)
        assert said.count("error: ") == 1 and "Traceback" not in said
    # Whoever was refused has touched nothing: the run is whole, and each epoch is there once.
    assert played.epochs(name) == played.epochs("whole")
    assert np.array_equal(played.vectors(name), played.vectors("whole"))
    assert here("evaluate", out, "--splits", "1").status == 0
    assert not [path for path in out.iterdir() if path.suffix in (".part", ".lock")]


def test_a_folder_that_another_writes_to_is_named_with_who_does(played: Played) -> None:
    out = played.folder / "whole"
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    vectors = ("embed", SOURCE, "--run", played.folder / "force", "--out", played.folder / "vectors")
    with locked(out), locked(played.folder / "vectors"):
        for arguments in (command(out, "--resume"), command(out, "--force"), ["evaluate", out], ["map", out], vectors):
            refused = here(*arguments)
            assert refused.status == 2
            assert f"is being written to by process {os.getpid()} on " in refused.line("error")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_training_that_diverges_in_its_last_step_is_one_message(tmp_path: Path) -> None:
    out = tmp_path / "run"
    diverging = ("embed", SOURCE, "--method", "dgi", "--epochs", "1", "--set", "learning_rate=1e30", "--device", "cpu")
    for further in ((), ("--resume",)):
        done = here(*diverging, "--out", out, *further)
        assert done.status == 2
        assert "Training diverged: not finite after epoch 1: the vectors of 60 of 60 nodes" in done.line("error")
        assert "learning rates" in done.line("remedy") and "no good checkpoint" in done.line("remedy")
    inputs = ["config.yaml", "environment.json", "graph.npz", "history.jsonl"]
    assert sorted(path.name for path in out.iterdir()) == inputs
