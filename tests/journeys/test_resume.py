"""Whatever stops a run, going on gives the bits of a run that was never stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from command import PROGRAM, QUICK, environment, here, in_process
from people import write_town

EPOCHS = 60
KILLS = 10
# Of all changes on the disk, the last few make the final files; the very last one comes after the summary.
LATE = (0.96, 0.97, 0.98, 0.99, 0.995)


def command(town: Path, out: Path, *further: str, epochs: int = EPOCHS) -> list[str]:
    every_epoch = ("--checkpoint-seconds", "0", "--epochs", str(epochs), "--set", "solver_iterations=3")
    return ["embed", str(town), "--out", str(out), *every_epoch, *QUICK, *further]


@dataclass
class Played:
    """The folder everything happened in, and the results of the steps by the name of their run."""

    folder: Path
    results: dict[str, list[dict[str, Any]]]

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        with np.load(self.folder / name / "embeddings.npz") as stored:
            return {key: stored[key] for key in stored.files}

    def weights(self, name: str) -> bytes:
        return (self.folder / name / "weights.safetensors").read_bytes()

    def history(self, name: str) -> list[dict[str, float]]:
        lines = (self.folder / name / "history.jsonl").read_text().splitlines()
        return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("resume")
    town = write_town(folder / "town", 60)
    steps: list[dict[str, Any]] = []

    def step(name: str, *further: str, kill: float | None = None, epochs: int = EPOCHS) -> None:
        out = folder / name
        arguments = command(town, out, *further, epochs=epochs)
        steps.append({"name": name, "out": str(out), "arguments": arguments, "kill": kill})

    step("whole")
    random = np.random.default_rng(7)
    # Some die at once, before a configuration is written; most after a few epochs.
    for moment in [1, 2, *random.integers(3, 45, KILLS - 2).tolist()]:
        step("killed", "--resume", kill=moment)
    step("killed", "--resume")
    for number, moment in enumerate(LATE):
        step(f"late{number}", kill=moment)
        step(f"late{number}", "--resume")
    step("longer", epochs=20)
    step("longer", "--resume")
    step("longer", "--resume")
    step("twice")
    step("other", "--seed", "1")

    (folder / "steps.json").write_text(json.dumps(steps))
    script = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run(
        [sys.executable, script, folder / "steps.json"], env=environment(), capture_output=True, text=True, check=True
    )
    results: dict[str, list[dict[str, Any]]] = {}
    for one, result in zip(steps, json.loads(done.stdout), strict=True):
        results.setdefault(one["name"], []).append(result)
    return Played(folder, results)


def assert_same_run(played: Played, name: str, as_what: str = "whole") -> None:
    expected, found = played.arrays(as_what), played.arrays(name)
    assert found.keys() == expected.keys()
    for key in expected:
        assert np.array_equal(found[key], expected[key]), key
    assert played.weights(name) == played.weights(as_what)
    assert played.history(name) == played.history(as_what)
    assert not list((played.folder / name).rglob("*.part"))


def test_the_whole_run_has_every_epoch_once(played: Played) -> None:
    assert played.results["whole"][0]["status"] == 0
    assert [record["epoch"] for record in played.history("whole")] == list(range(1, EPOCHS + 1))


def test_ten_kills_leave_no_trace(played: Played) -> None:
    statuses = [result["status"] for result in played.results["killed"]]
    assert statuses == [-signal.SIGKILL] * KILLS + [0]
    assert_same_run(played, "killed")


@pytest.mark.parametrize("number", range(len(LATE)))
def test_a_kill_among_the_final_files_leaves_no_trace(played: Played, number: int) -> None:
    first, second = played.results[f"late{number}"]
    assert first["status"] == -signal.SIGKILL and second["status"] == 0
    assert "summary.json" not in first["files"], "an unfinished run must not look finished"
    assert_same_run(played, f"late{number}")


def test_late_kills_fall_on_different_files(played: Played) -> None:
    states = {tuple(played.results[f"late{number}"][0]["files"]) for number in range(len(LATE))}
    assert len(states) >= 4


def test_more_epochs_go_on_where_the_run_ended(played: Played) -> None:
    assert [result["status"] for result in played.results["longer"]] == [0, 0, 0]
    assert_same_run(played, "longer")


def test_resuming_a_finished_run_changes_nothing(played: Played) -> None:
    _, before, after = played.results["longer"]
    assert before["files"] == after["files"]


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(played: Played) -> None:
    assert_same_run(played, "twice")
    assert not np.array_equal(played.arrays("other")["vectors"], played.arrays("whole")["vectors"])


def test_a_torn_line_of_history_and_a_missing_checkpoint_are_no_obstacle(played: Played) -> None:
    out = played.folder / "torn"
    town = played.folder / "town"
    assert here(*command(town, out, epochs=3)).status == 0
    (out / "checkpoint.safetensors").unlink()
    with (out / "history.jsonl").open("a") as stream:
        stream.write('{"epoch": 4, "sec')
    assert here(*command(town, out, "--resume", epochs=4)).status == 0
    assert [record["epoch"] for record in played.history("torn")] == [1, 2, 3, 4]


def test_scores_of_fewer_epochs_do_not_survive_more(played: Played) -> None:
    out = played.folder / "scored"
    town = played.folder / "town"
    assert here(*command(town, out, epochs=2)).status == 0
    assert here("evaluate", out, "--splits", "2").status == 0
    assert here(*command(town, out, "--resume", epochs=2)).status == 0
    assert (out / "scores-paper.json").exists()
    assert here(*command(town, out, "--resume", epochs=3)).status == 0
    assert not (out / "scores-paper.json").exists()


def test_a_disk_that_filled_up_and_has_space_again(played: Played) -> None:
    full, roomy = (
        command(played.folder / "town", played.folder / name, "--set", "hidden=200", epochs=3)
        for name in ("full", "roomy")
    )
    refused = in_process(*full, largest_file=20_000)
    assert refused.status == 2 and "Could not write" in refused.line("error")
    assert here(*full, "--resume").status == here(*roomy).status == 0
    assert [record["epoch"] for record in played.history("full")] == [1, 2, 3]
    assert_same_run(played, "full", "roomy")


def test_ctrl_c_says_how_to_go_on(played: Played) -> None:
    out = played.folder / "interrupted"
    arguments = command(played.folder / "town", out)
    process = subprocess.Popen(
        [*PROGRAM, *arguments], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    history, deadline = out / "history.jsonl", time.monotonic() + 300
    while not (history.exists() and history.read_text().count("\n") >= 5):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: Stopped after epoch" in said and "--resume" in said and "Traceback" not in said
    assert not (out / "summary.json").exists()
    assert in_process(*arguments, "--resume").status == 0
    assert_same_run(played, "interrupted")


def test_ctrl_c_is_heard_in_the_middle_of_a_long_step(tmp_path: Path) -> None:
    # The node loss over 30,000 nodes takes a CPU a quarter of a minute.
    settings = [f"--set={each}" for each in ("hidden=64", "width=64", "similarity=pooled_cosine")]
    arguments = ["embed", "csbm:nodes=30000", "--out", str(tmp_path / "run"), "--device", "cpu", *settings]
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    assert process.stdout is not None
    assert any(line.startswith("memory: ") for line in process.stdout), "training starts after this line"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    # Where Ctrl-C has passed through `exec`, as when something is being compiled, Python ends itself by the signal even
    # if it was caught: 130 to a shell, -2 here.
    assert process.returncode in (130, -signal.SIGINT)
    assert said.startswith("interrupted") and "--resume" in said and "Traceback" not in said
    assert not (tmp_path / "run" / "history.jsonl").exists(), "the first epoch must not have ended"


def wrapped_interrupt() -> Exception:
    """What Python 3.11 makes of Ctrl-C while an imported module makes a class."""
    error = RuntimeError("Error calling __set_name__ on 'property' instance 'name' in 'Module'")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), wrapped_interrupt()], ids=["plain", "wrapped"])
def test_ctrl_c_outside_training_ends_quietly(played: Played, interrupt: BaseException) -> None:
    with mock.patch("fossil.runs.plan.open_graph", side_effect=interrupt):
        done = here(*command(played.folder / "town", played.folder / "never"))
    assert done.status == 130
    assert done.err.startswith("interrupted") and "--resume" in done.err
    assert not (played.folder / "never").exists()


def test_other_errors_are_no_interrupt(played: Played, tmp_path: Path) -> None:
    with (
        mock.patch("fossil.runs.plan.open_graph", side_effect=RuntimeError("a mistake of ours")),
        mock.patch("tempfile.tempdir", str(tmp_path)),
    ):
        done = here(*command(played.folder / "town", played.folder / "never"))
    assert done.status == 70
    assert "this is a fault of fossil-gnn: RuntimeError: a mistake of ours" in done.err
