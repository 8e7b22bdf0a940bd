"""Processes that train together through the command line: the same vectors, one voice, one end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from launch import ENVIRONMENT, PATIENCE, Ended, start, torchrun, wait

from fossil.training.checkpoint import load_tensors

TROUBLE = Path(__file__).with_name("in_trouble.py")
FOSSIL = ("-m", "fossil")
EPOCHS = 12
# Float32, whose sums come in another order with another number of processes.
TOLERANCE = 1e-4


def command(out: Path, *further: str, method: str = "fossil_v2") -> list[str]:
    small = [f"--set={name}" for name in ("hidden=16", "width=8", "subgraph_size=4", "num_anchors=21")]
    whole = ["embed", "csbm:nodes=60,features=8", "--method", method, "--epochs", str(EPOCHS), "--out", str(out)]
    return [*whole, "--device", "cpu", *small, *further]


def together(folder: Path, *commands: list[str | Path]) -> Ended:
    output = folder / "said.txt"
    return wait(start(commands, output), output)


def by_torchrun(world: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        torchrun(world, *arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE
    )


def vectors(out: Path) -> np.ndarray:
    with np.load(out / "embeddings.npz") as stored:
        return np.asarray(stored["vectors"])


def epochs(out: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in (out / "history.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The vectors of one process, by method."""
    folder = tmp_path_factory.mktemp("alone")
    for method in ("fossil_v2", "fossil_channels_v2"):
        ended = together(folder, [*FOSSIL, *command(folder / method, method=method)])
        assert ended.statuses == [0], ended.said
    return {method: vectors(folder / method) for method in ("fossil_v2", "fossil_channels_v2")}


@pytest.mark.parametrize(("method", "world"), [("fossil_v2", 4), ("fossil_channels_v2", 2)])
def test_torchrun_gives_the_vectors_of_one_process(
    tmp_path: Path, alone: dict[str, np.ndarray], method: str, world: int
) -> None:
    out = tmp_path / "run"
    done = by_torchrun(world, *command(out, method=method))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done in ") == 1 and f"GiB on cpu in {world} processes" in done.stdout
    np.testing.assert_allclose(vectors(out), alone[method], rtol=0, atol=TOLERANCE)
    assert epochs(out) == list(range(1, EPOCHS + 1))
    assert json.loads((out / "environment.json").read_text())["processes"] == world


def test_steps_on_samples_give_the_vectors_of_one_process(tmp_path: Path) -> None:
    further = ("--sampled", "--fan-out", "2")
    found = []
    for world in (1, 2):
        out = tmp_path / str(world)
        ended = together(tmp_path, *[[*FOSSIL, *command(out, *further)]] * world)
        assert ended.statuses == [0] * world, ended.said
        assert ended.said.count("sampled: steps read") == 1
        found.append(vectors(out))
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=TOLERANCE)


def test_a_killed_process_leaves_a_message_and_a_checkpoint_that_others_go_on_with(
    tmp_path: Path, alone: dict[str, np.ndarray]
) -> None:
    out = tmp_path / "run"
    ended = together(tmp_path, *[[TROUBLE, "1", "5", "SIGKILL", *command(out)]] * 2)
    assert ended.statuses == [2, -9], ended.said
    [error], [remedy] = ended.lines("error: "), ended.lines("remedy: ")
    assert "Another process of this training ended" in error and f"Stopped after epoch 5 of {EPOCHS}." in error
    assert "Everything is saved" in remedy and "--resume" in remedy
    assert load_tensors(out / "checkpoint.safetensors").about["epoch"] == 5 == epochs(out)[-1]
    assert not (out / "run.lock").exists() and not (out / "summary.json").exists()
    ended = together(tmp_path, *[[*FOSSIL, *command(out, "--resume")]] * 3)
    assert ended.statuses == [0] * 3, ended.said
    np.testing.assert_allclose(vectors(out), alone["fossil_v2"], rtol=0, atol=TOLERANCE)
    assert epochs(out) == list(range(1, EPOCHS + 1))


def test_torchrun_ends_all_when_one_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    launcher = torchrun(2)[:-2]  # without `-m fossil`, in whose place the script stands
    arguments = [*launcher, str(TROUBLE), "1", "5", "SIGKILL", *command(out)]
    done = subprocess.run(arguments, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    # Told to end by torchrun too, the first process may say that it was interrupted; it saves what there is first.
    assert load_tensors(out / "checkpoint.safetensors").about["epoch"] == 5
    assert sum(line.startswith(("error: ", "interrupted: ")) for line in done.stderr.splitlines()) == 1


def test_without_the_first_process_the_last_checkpoint_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    every_step = ("--checkpoint-seconds", "0")
    ended = together(tmp_path, *[[TROUBLE, "0", "5", "SIGKILL", *command(out, *every_step)]] * 2)
    assert ended.statuses == [-9, 2], ended.said
    assert load_tensors(out / "checkpoint.safetensors").about["epoch"] == 5


@pytest.mark.parametrize(("rank", "name", "status"), [(0, "SIGINT", 130), (1, "SIGTERM", 143)])
def test_a_signal_to_one_ends_all_after_the_same_step(tmp_path: Path, rank: int, name: str, status: int) -> None:
    out = tmp_path / "run"
    ended = together(tmp_path, *[[TROUBLE, str(rank), "5", name, *command(out)]] * 2)
    assert ended.statuses == [status] * 2, ended.said
    [error] = ended.lines("error: ")
    assert f"Stopped after epoch 6 of {EPOCHS}." in error
    assert load_tensors(out / "checkpoint.safetensors").about["epoch"] == 6 == epochs(out)[-1]


def test_what_the_first_process_does_alone_may_take_longer_than_an_answer(
    tmp_path: Path, alone: dict[str, np.ndarray]
) -> None:
    out = tmp_path / "run"
    ended = together(tmp_path, *[[TROUBLE, "0", "-1", "slowness", *command(out)]] * 2)
    assert ended.statuses == [0, 0], ended.said
    np.testing.assert_allclose(vectors(out), alone["fossil_v2"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("killed", [0, 1])
def test_who_is_killed_while_others_wait_for_the_first_is_missed_at_once(tmp_path: Path, killed: int) -> None:
    """Else they would wait for as long as the first may work alone."""
    ended = together(tmp_path, *[[TROUBLE, str(killed), "-1", "SIGKILL", *command(tmp_path / "run")]] * 2)
    assert sorted(ended.statuses) == [-9, 2] and ended.statuses[killed] == -9, ended.said
    if killed != 0:  # by whom the others know who speaks, where no launcher tells them
        [error] = ended.lines("error: ")
        assert "Another process of this training ended" in error


def test_a_process_without_memory_says_so_for_all(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ended = together(tmp_path, *[[TROUBLE, "1", "5", "memory", *command(out)]] * 2)
    assert ended.statuses == [2, 2], ended.said
    [error] = ended.lines("error: ")
    assert "FOSSIL v2 ran out of memory on cpu in epoch 6." in error
    assert load_tensors(out / "checkpoint.safetensors").about["epoch"] == 5


REFUSED = {
    "more processes than anchors": (
        [["--set=num_anchors=2"]] * 3, "3 processes cannot share the 2 anchors of a step.", "at most 2 processes",
    ),
    "a method that divides nothing": (
        [["--method", "subgcon"]] * 2, "cannot be trained by 2 processes", "without torchrun",
    ),
    "a wrong setting of one": ([[], ["--set=alpha=7"]], "alpha", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_message_and_one_status(tmp_path: Path, name: str) -> None:
    further, said, remedy = REFUSED[name]
    out = tmp_path / "run"
    graph = ("embed", "csbm:nodes=60,features=8", "--out", str(out))
    ended = together(tmp_path, *[[*FOSSIL, *graph, *mine] for mine in further])
    assert ended.statuses == [2] * len(further), ended.said
    [error] = ended.lines("error: ")
    assert said in error and remedy in ended.said
    assert not out.exists()


@pytest.mark.parametrize(
    ("source", "further", "said"),
    [
        ("csbm:nodes=59,features=8", [], "different graphs"),
        ("csbm:nodes=60,features=8", ["--sampled", "--fan-out", "3"], "different settings"),
    ],
    ids=["graph", "fan-out"],
)
def test_processes_that_were_told_different_things_end_with_one_message(
    tmp_path: Path, source: str, further: list[str], said: str
) -> None:
    """Else they wait for each other, or train what nobody asked for."""
    out = tmp_path / "run"
    asked = command(out, *([] if not further else ["--sampled", "--fan-out", "2"])), command(out, *further)
    ended = together(tmp_path, *[[*FOSSIL, *each] for each in (asked[0], ["embed", source, *asked[1][2:]])])
    assert ended.statuses == [2, 2], ended.said
    [error] = ended.lines("error: ")
    assert said in error and "the same command" in ended.said and not out.exists()


def test_a_run_that_is_there_is_refused_once_and_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert together(tmp_path, [*FOSSIL, *command(out)]).statuses == [0]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    ended = together(tmp_path, *[[*FOSSIL, *command(out)]] * 2)
    assert ended.statuses == [2, 2], ended.said
    assert [line for line in ended.lines("error: ") if "already holds a run" in line] == ended.lines("error: ") != []
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
