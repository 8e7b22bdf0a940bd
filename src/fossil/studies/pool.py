"""Several processes on one machine at one study; on a GPU they train at the same time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import NoReturn

import torch

from fossil.errors import FossilError, RunError
from fossil.studies.plan import Cell, Graphs, StudyPlan
from fossil.studies.record import Record
from fossil.studies.store import Store
from fossil.studies.train import given_up
from fossil.studies.work import Options, Reporter, missing_cells, work

_DEATHS = 2  # processes that one cell may cost before that is its result, or one place before a training begins there


def thread_share(jobs: int) -> int:
    """Return how many threads each of several processes gets; a user's OMP_NUM_THREADS stands."""
    if os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    return max(1, (os.cpu_count() or 1) // jobs)


def _thread_limits(threads: int) -> dict[str, str]:
    """Return what keeps libraries other than PyTorch to as many threads; what a user has set stands."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: str(threads) for name in names if not os.environ.get(name)}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for processes that are started inside the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Messenger:
    """Tells the parent process what happens, one line of text each."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def started(self, cell: Cell) -> None:
        self.pipe.send(("started", cell))

    def finished(self, cell: Cell, record: Record) -> None:
        self.pipe.send(("finished", cell))

    def waiting(self, cells: int) -> None:
        """Say nothing: others of this command are at it, mostly."""


def _live(pipe: Connection, plan: StudyPlan, folder: Path, root: Path, options: Options, place: int) -> None:
    """Work in a process of one's own, until all is done or the parent is gone."""
    os.setsid()  # Ctrl-C is for the parent, which then ends its children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_at_once)
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    torch.set_num_threads(options.threads or 1)
    try:
        work(plan, Graphs(plan.study, folder), Store(root), options, _Messenger(pipe), place)
    except FossilError as error:
        pipe.send(("error", error.what, error.remedy))


def _end_at_once(number: int, _: FrameType | None) -> NoReturn:
    """End without a word: the parent, which asks for it, says what is kept, and the training under way is not."""
    os._exit(128 + number)


def _die_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@dataclass
class _Worker:
    """A process, which of them it is, and the cell it is at."""

    process: BaseProcess
    pipe: Connection
    place: int
    at: Cell | None = None


class Pool:
    """Several processes at one study; one that dies is replaced.

    Args:
        plan: the study.
        graphs: reads its graphs.
        store: its records.
        options: how it is run.
        reporter: told how it goes.
        environment: variables that the processes are started with.
    """

    def __init__(
        self, plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.graphs, self.store, self.options, self.reporter = plan, graphs, store, options, reporter
        self.jobs = options.jobs or 1
        self.threads = options.threads or thread_share(self.jobs)
        self.environment = _thread_limits(self.threads) | dict(environment or {})
        self.deaths: Counter[str] = Counter()  # by the key of the cell
        self.idle_deaths: Counter[int] = Counter()  # in a row with no training in hand, by place

    def run(self) -> None:
        """Do what is missing."""
        count = min(self.jobs, len(missing_cells(self.plan, self.store, self.options)))
        workers = [self._start(place) for place in range(count)]
        try:
            while workers:
                ready = wait([worker.pipe for worker in workers])
                for worker in [one for one in workers if one.pipe in ready]:
                    if not self._hear(worker):
                        workers.remove(worker)
                        workers += self._after(worker)
        finally:
            for worker in workers:
                worker.process.terminate()
            for worker in workers:
                worker.process.join()

    def _start(self, place: int) -> _Worker:
        # Not a fork: PyTorch's threads, and a GPU in use, do not survive one.
        context = multiprocessing.get_context("spawn")
        reading, writing = context.Pipe(duplex=False)
        options = replace(self.options, threads=self.threads)
        arguments = (writing, self.plan, self.graphs.folder, self.store.root, options, place)
        process = context.Process(target=_live, args=arguments, daemon=True)
        with environment(self.environment):
            process.start()
        writing.close()
        return _Worker(process, reading, place)

    def _hear(self, worker: _Worker) -> bool:
        """Pass on what a worker says; tell whether there is more to come."""
        try:
            kind, *content = worker.pipe.recv()
        except EOFError:
            return False
        if kind == "error":
            raise RunError(content[0], remedy=content[1])
        [cell] = content
        worker.at = cell if kind == "started" else None
        if kind == "started":
            self.idle_deaths.pop(worker.place, None)
            self.reporter.started(cell)
        else:
            record = self.store.read(cell.key)
            assert record is not None
            self.reporter.finished(cell, record)
        return True

    def _after(self, worker: _Worker) -> Iterator[_Worker]:
        """Yield who takes the place of a worker that somebody ended."""
        worker.process.join()
        if not worker.process.exitcode:
            return
        if worker.at is None:  # it was waiting for others, or could not even start
            self.idle_deaths[worker.place] += 1
            if self.idle_deaths[worker.place] >= _DEATHS:
                raise RunError(
                    f"A process of the study ended {_DEATHS} times (status {worker.process.exitcode}) before it began "
                    "a training.",
                    remedy="Look at what it wrote above; a single job works in this process.",
                )
        else:
            self.deaths[worker.at.key] += 1
            if self.deaths[worker.at.key] >= _DEATHS:
                self._give_up(worker.at, worker.process.exitcode)
        if not self.options.is_over:
            yield self._start(worker.place)

    def _give_up(self, cell: Cell, status: int) -> None:
        """Record that a cell ends whatever process works at it."""
        how = f"signal {-status}" if status < 0 else f"status {status}"
        with self.store.claim(cell.key) as mine:
            before = self.store.read(cell.key)
            if mine and not self.options.is_done(before, cell):
                record = given_up(self.plan, self.graphs, before, cell, self.options.device, _DEATHS, how)
                self.store.write(record)
                self.reporter.finished(cell, record)
