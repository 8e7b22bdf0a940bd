"""One process at a time writes into a run folder."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from ring_graph import CPU, fit_ring, ring

import fossil
from fossil.errors import FossilWarning, RunError
from fossil.evaluation.evaluate import evaluate
from fossil.report.map import draw_map
from fossil.runs.lock import LOCK, locked

HOLDER = """
import sys, time
from pathlib import Path
from fossil.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock of a folder, until the block ends or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.communicate(timeout=60)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_second_process_is_told_who_is_first(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as process:
        before = contents(tmp_path)
        with pytest.raises(RunError) as caught, locked(tmp_path):
            pass
        assert f"{tmp_path} is being written to by process {process.pid} on {os.uname().nodename}, since 20" in (
            caught.value.what
        )
        assert "--out" in caught.value.remedy and contents(tmp_path) == before
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert contents(tmp_path) == {}


def test_a_process_that_is_killed_leaves_no_lock_behind(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert (tmp_path / LOCK).exists()
        with locked(tmp_path):
            pass
    assert len(fit_ring(out=tmp_path)) == 20  # nor would the file have been in the way


def test_a_lock_counts_between_threads_too(tmp_path: Path) -> None:
    seen: list[BaseException] = []

    def second() -> None:
        try:
            with locked(tmp_path):
                pass
        except RunError as error:
            seen.append(error)

    with locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(seen) == 1


def test_of_many_that_come_and_go_one_at_a_time_is_inside(tmp_path: Path) -> None:
    inside, most, refused = 0, 0, 0
    guard = threading.Lock()

    def come_and_go() -> None:
        nonlocal inside, most, refused
        for _ in range(50):
            try:
                with locked(tmp_path):
                    with guard:
                        inside += 1
                        most = max(most, inside)
                    with guard:
                        inside -= 1
            except RunError:
                refused += 1

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and refused < 200


@pytest.mark.parametrize("asked", [{}, {"resume": True}, {"force": True}])
def test_a_run_is_not_touched_while_another_process_writes(tmp_path: Path, asked: dict[str, bool]) -> None:
    fit_ring(out=tmp_path)
    (tmp_path / ".weights.safetensors.abc.part").write_text("half")  # of the other one, which is writing it
    with held_by_another(tmp_path):
        before = contents(tmp_path)
        with pytest.raises(RunError, match="is being written to by process"):
            fit_ring(out=tmp_path, training=CPU.updated({"epochs": 4}), **asked)
        assert contents(tmp_path) == before


def test_neither_scores_nor_a_map_go_where_another_process_writes(tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "run")
    run = fossil.load(tmp_path / "run")
    with held_by_another(tmp_path / "run"):
        for write in (lambda: evaluate(run, splits=1), lambda: draw_map(tmp_path / "run" / "map.png", run)):
            with pytest.raises(RunError, match="is being written to by process"):
                write()
        with pytest.warns(FossilWarning, match="layout of .* could not be kept"):
            draw_map(tmp_path / "map.png", run)  # elsewhere is another matter
    assert not list((tmp_path / "run").glob("scores-*")) and not (tmp_path / "run" / "map.png").exists()


def test_new_vectors_wait_for_nobody(tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "run")
    (tmp_path / "vectors").mkdir()
    with held_by_another(tmp_path / "vectors"), pytest.raises(RunError, match="is being written to by process"):
        fossil.load(tmp_path / "run").embed(ring().graph, out=tmp_path / "vectors")
    assert not (tmp_path / "vectors" / "embeddings.npz").exists()


def test_scores_of_what_was_there_before_are_not_kept(tmp_path: Path) -> None:
    result = fit_ring(out=tmp_path)
    fit_ring(out=tmp_path, training=CPU.updated({"epochs": 5}), resume=True)
    with pytest.warns(FossilWarning, match="has changed since it was scored"):
        evaluate(result, splits=1)
    assert not list(tmp_path.glob("scores-*"))


def test_nothing_is_left_in_a_folder_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.csv").write_text("the only copy")
    with held_by_another(tmp_path), pytest.raises(RunError, match="not a run"):
        fit_ring(out=tmp_path)
    assert sorted(contents(tmp_path)) == ["thesis.csv"]


def test_a_file_system_without_locks_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fossil.runs.lock._ask", refuse)
    with pytest.warns(FossilWarning, match="has no locks .*see to it yourself"):
        result = fit_ring(out=tmp_path)
    assert np.isfinite(result.vectors).all()


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_something_else_in_place_of_the_lock_is_named(tmp_path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / LOCK)
    elif kind == "folder":
        (tmp_path / LOCK).mkdir()
    else:
        (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"run\.lock"), locked(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()
