"""Several trainings at once: who begins where, and a GPU shared for as long as a study runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_study import CPU, DGI, Seen, planned, run, write

from fossil.errors import RunError, SettingError
from fossil.studies.mps import shared_gpu
from fossil.studies.plan import Cell, open_study
from fossil.studies.pool import Pool, _Worker, environment
from fossil.studies.record import Record
from fossil.studies.store import Store
from fossil.studies.work import in_turn

GPU = torch.device("cuda")  # a name: nothing here touches one
CONTROL = """#!/bin/sh
echo "$@ $(cat) | $CUDA_MPS_PIPE_DIRECTORY | $CUDA_MPS_LOG_DIRECTORY | $(ls -d $CUDA_MPS_PIPE_DIRECTORY)" >> {log}
exit {status}
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in the place of NVIDIA's that writes down what it is told."""
    return make_control(tmp_path, monkeypatch, status=0)


def make_control(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> Path:
    program, log = folder / "nvidia-cuda-mps-control", folder / "told"
    program.write_text(CONTROL.format(log=log, status=status))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


def test_each_process_begins_with_another_graph_and_has_every_cell(tmp_path: Path) -> None:
    graphs = [f"csbm:nodes={nodes},features=8,degree=6" for nodes in (40, 50, 60)]
    cells = planned(write(tmp_path, graphs=graphs, methods=["features", "prop"])).cells
    orders = [in_turn(cells, place, 3) for place in range(3)]
    assert [order[0].column for order in orders] == [0, 1, 2]
    assert all(Counter(order) == Counter(cells) for order in orders)
    # The first seed on all graphs comes before the second on any, and a graph is not left before it is through.
    assert [(cell.seed, cell.column, cell.row) for cell in orders[1][:7]] == [
        (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (0, 0, 0), (0, 0, 1), (1, 1, 0),
    ]  # fmt: skip
    assert {in_turn(cells, place, 7)[0].column for place in range(7)} == {0, 1, 2}
    assert [in_turn(cells, place, 2)[0].column for place in range(2)] == [0, 1]
    assert in_turn([], 1, 2) == []


class Ended:
    """A process that has ended."""

    def __init__(self, exitcode: int) -> None:
        self.exitcode = exitcode

    def join(self) -> None:
        pass


class Played(Pool):
    """A pool of one place whose processes, one after another, are said to do some cells and to end with a status."""

    play: list[tuple[list[Cell], int]]
    records: Mapping[str, Record]

    def _start(self, place: int) -> _Worker:
        cells, status = self.play.pop(0)
        reading, writing = multiprocessing.Pipe(duplex=False)
        for cell in cells:
            self.store.write(self.records[cell.key])
            writing.send(("started", cell))
            writing.send(("finished", cell))
        writing.close()
        return _Worker(Ended(status), reading, place)  # type: ignore[arg-type]


def test_who_is_killed_while_it_waits_for_others_is_replaced(tmp_path: Path) -> None:
    file = write(tmp_path, methods=["features"], seeds=2)
    done = run(file)
    plan, graphs = open_study(file)
    store = Store.open(tmp_path / "small.results", "small", file)
    killed = -signal.SIGKILL

    def played(*play: tuple[list[Cell], int]) -> list[str]:
        for cell in plan.cells:
            store.path_of(cell.key).unlink(missing_ok=True)
        pool = Played(plan, graphs, store, CPU, seen := Seen())
        pool.play, pool.records = list(play), done.records
        pool.run()
        assert not pool.play
        return seen.finished_keys

    first, second = plan.cells
    assert played(([], killed), ([first, second], 0)) == [first.key, second.key]
    assert played(([first], killed), ([second], killed), ([], 0)) == [first.key, second.key]
    with pytest.raises(RunError, match=r"ended 2 times \(status -9\) before it began a training"):  # none can live here
        played(([], killed), ([], killed))


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RunError])
def test_the_daemon_lives_as_long_as_the_block(
    error: type[BaseException] | None, control: Path, tmp_path: Path
) -> None:
    def use() -> None:
        with shared_gpu(GPU) as clients:
            started = control.read_text().splitlines()
            assert len(started) == 1 and started[0].startswith("-d ")
            # The daemon and its clients meet in folders that exist, and are nobody else's.
            assert (
                Path(clients["CUDA_MPS_PIPE_DIRECTORY"]).is_dir() and clients["CUDA_MPS_PIPE_DIRECTORY"] in started[0]
            )
            assert Path(clients["CUDA_MPS_LOG_DIRECTORY"]).is_dir() and clients["CUDA_MPS_LOG_DIRECTORY"] in started[0]
            assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ  # this process is no client
            kept.append(Path(clients["CUDA_MPS_PIPE_DIRECTORY"]))
            if error is not None:
                raise error("away")

    kept: list[Path] = []
    if error is None:
        use()
    else:
        with pytest.raises(error):
            use()
    told = control.read_text().splitlines()
    assert len(told) == 2 and "quit" in told[1] and str(kept[0]) in told[1]
    assert not kept[0].exists()


def test_what_is_started_gets_the_variables_and_the_caller_keeps_his(monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> str:
        script = "import os; print(os.environ.get('OMP_NUM_THREADS'), os.environ.get('FOSSIL_OTHER'))"
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with environment({"OMP_NUM_THREADS": "3", "FOSSIL_OTHER": "x"}):
        assert told() == "3 x"
    assert told() == "5 None"


def test_processes_have_the_threads_that_they_were_given(tmp_path: Path) -> None:
    results = run(write(tmp_path, methods=["features"]), replace(CPU, jobs=2, threads=1))
    assert {record.device.rpartition(", ")[2] for record in results.records.values()} == {"1 threads"}


def test_what_cannot_be_shared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="runs on a CPU"):
        run(write(tmp_path, methods=[DGI]), replace(CPU, jobs=2, mps=True))
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path))
        with pytest.raises(SettingError, match="nvidia-cuda-mps-control, which is not here"), shared_gpu(GPU):
            pass
    make_control(tmp_path, monkeypatch, status=1)
    with pytest.raises(RunError, match="-d ended with status 1"), shared_gpu(GPU):
        pass
