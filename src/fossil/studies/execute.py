"""Doing what is missing of a study: in this process, or in several on one machine.

Nobody hands out work. Every process goes through the missing cells, claims one that nobody is at, and looks once more
whether it is still missing. So it makes no difference whether the processes belong to one command or to several, and
what one of them leaves behind when it is killed, another takes up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

import torch

from fossil.errors import FossilError, RunError, SettingError
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.studies.plan import Cell, Graphs, StudyPlan, plan_cell
from fossil.studies.store import Record, Store
from fossil.studies.train import begin, do_cell
from fossil.training.devices import resolve_device

_PATIENCE = 0.5  # seconds between two looks at what others are doing
_DEATHS = 2  # processes that one cell may cost before that is its result


class StudyInterruptedError(RunError):
    """Ctrl-C: what was finished is kept."""

    exit_status = 130


@dataclass(frozen=True)
class Options:
    """How a study is run.

    Attributes:
        device: `auto`, `cpu`, `cuda` or `cuda:0`.
        jobs: processes at once.
        threads: of each process on a CPU; the cores shared out when None.
        deadline: no training is started after this moment (`time.time()`); None for no limit.
        retry_before: what failed before this moment is tried again; None to leave it.
    """

    device: str = "auto"
    jobs: int = 1
    threads: int | None = None
    deadline: float | None = None
    retry_before: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether no further training may be started."""
        return self.deadline is not None and time.time() >= self.deadline

    def is_done(self, record: Record | None, cell: Cell) -> bool:
        """Tell whether there is nothing left to do about a cell."""
        if record is None or not record.serves(cell):
            return False
        return not (record.has_failed and self.retry_before is not None and record.finished < self.retry_before)


class Reporter(Protocol):
    """Told how a study goes."""

    def started(self, cell: Cell) -> None:
        """Somebody began with a cell."""

    def finished(self, cell: Cell, record: Record) -> None:
        """A cell is over: done, or failed."""

    def waiting(self, cells: int) -> None:
        """All that is left is in the hands of others."""


class Quiet:
    """Says nothing."""

    def started(self, cell: Cell) -> None:
        """Say nothing."""

    def finished(self, cell: Cell, record: Record) -> None:
        """Say nothing."""

    def waiting(self, cells: int) -> None:
        """Say nothing."""


def run_study(
    plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter | None = None
) -> None:
    """Do what is missing.

    Raises:
        StudyInterruptedError: somebody pressed Ctrl-C; what was finished is kept.
        RunError: records cannot be written.
        SettingError: there is no such device, or the number of processes is none.
    """
    if options.jobs < 1:
        raise SettingError(f"{options.jobs} processes at once are not accepted.", remedy="Use 1 or more.")
    resolve_device(options.device)
    told = reporter or Quiet()
    try:
        if options.jobs == 1:
            work(plan, graphs, store, options, told)
        else:
            _Pool(plan, graphs, store, options, told).run()
    except (KeyboardInterrupt, TrainingInterruptedError) as error:
        raise StudyInterruptedError(
            "Stopped. Everything that was finished is kept; the training under way is not.",
            remedy="Go on with the same command.",
        ) from error


def missing_cells(plan: StudyPlan, store: Store, options: Options) -> list[Cell]:
    """Return the cells of which something is missing, each training once."""
    found: dict[str, Cell] = {}
    for cell in plan.cells:
        if cell.key not in found and not options.is_done(store.read(cell.key), cell):
            found[cell.key] = cell
    return list(found.values())


def work(plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter) -> None:
    """Do missing cells one after another, until there are none; what others are at is waited for."""
    pending = missing_cells(plan, store, options)
    while pending and not options.is_over:
        left = []
        for cell in pending:
            if options.is_over:
                return
            with store.claim(cell.key, plan.name_of(cell)) as mine:
                if not mine:
                    left.append(cell)
                    continue
                # It may have been finished between the look and the claim.
                if options.is_done(store.read(cell.key), cell):
                    continue
                reporter.started(cell)
                record = do_cell(plan, graphs, store, cell, options.device)
                store.write(record)
            reporter.finished(cell, record)
        if len(left) == len(pending):
            reporter.waiting(len(left))
            time.sleep(_PATIENCE)
        pending = [cell for cell in left if not options.is_done(store.read(cell.key), cell)]


def thread_share(jobs: int) -> int:
    """Return how many threads each of several processes gets; a user's OMP_NUM_THREADS stands."""
    if os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    return max(1, (os.cpu_count() or 1) // jobs)


class _Messenger:
    """Tells the parent process what happens, one line of text each."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def started(self, cell: Cell) -> None:
        self.pipe.send(("started", cell.key))

    def finished(self, cell: Cell, record: Record) -> None:
        self.pipe.send(("finished", cell.key))

    def waiting(self, cells: int) -> None:
        """Say nothing: others of this command are at it, mostly."""


def _live(pipe: Connection, plan: StudyPlan, folder: Path, root: Path, options: Options) -> None:
    """Work in a process of one's own, until all is done or the parent is gone."""
    os.setsid()  # Ctrl-C is for the parent, which then ends its children
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    torch.set_num_threads(options.threads or thread_share(options.jobs))
    try:
        work(plan, Graphs(plan.study, folder), Store(root), options, _Messenger(pipe))
    except FossilError as error:
        pipe.send(("error", error.what, error.remedy))


def _die_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@dataclass
class _Worker:
    """A process, and the cell it is at."""

    process: BaseProcess
    pipe: Connection
    at: str | None = None


class _Pool:
    """Several processes at one study; one that dies is replaced."""

    def __init__(self, plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter) -> None:
        self.plan, self.graphs, self.store, self.options, self.reporter = plan, graphs, store, options, reporter
        self.by_key = {cell.key: cell for cell in reversed(plan.cells)}
        self.deaths: Counter[str] = Counter()

    def run(self) -> None:
        """Do what is missing."""
        count = min(self.options.jobs, len(missing_cells(self.plan, self.store, self.options)))
        workers = [self._start() for _ in range(count)]
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

    def _start(self) -> _Worker:
        # Not a fork: PyTorch's threads, and a GPU in use, do not survive one.
        context = multiprocessing.get_context("spawn")
        reading, writing = context.Pipe(duplex=False)
        arguments = (writing, self.plan, self.graphs.folder, self.store.root, self.options)
        process = context.Process(target=_live, args=arguments, daemon=True)
        process.start()
        writing.close()
        return _Worker(process, reading)

    def _hear(self, worker: _Worker) -> bool:
        """Pass on what a worker says; tell whether there is more to come."""
        try:
            kind, *content = worker.pipe.recv()
        except EOFError:
            return False
        if kind == "error":
            raise RunError(content[0], remedy=content[1])
        cell = self.by_key[content[0]]
        worker.at = cell.key if kind == "started" else None
        if kind == "started":
            self.reporter.started(cell)
        else:
            record = self.store.read(cell.key)
            assert record is not None
            self.reporter.finished(cell, record)
        return True

    def _after(self, worker: _Worker) -> Iterator[_Worker]:
        """Yield who takes the place of a worker that has ended, where it did so in the middle of something."""
        worker.process.join()
        if not worker.process.exitcode:
            return
        if worker.at is None:
            raise RunError(
                f"A process of the study ended by itself (status {worker.process.exitcode}) before it did anything.",
                remedy="Look at what it wrote above; a single job works in this process.",
            )
        self.deaths[worker.at] += 1
        if self.deaths[worker.at] >= _DEATHS:
            self._give_up(self.by_key[worker.at], worker.process.exitcode)
        if not self.options.is_over:
            yield self._start()

    def _give_up(self, cell: Cell, status: int) -> None:
        """Record that a cell ends whatever process works at it."""
        made = plan_cell(self.plan, self.graphs, cell.row, cell.column, cell.seed)
        record = begin(made, self.graphs.study.graphs[cell.column].input, resolve_device(self.options.device))
        how = f"signal {-status}" if status < 0 else f"status {status}"
        why = f"Its process was ended {_DEATHS} times ({how}); often that is the system, short of memory."
        with self.store.claim(cell.key) as mine:
            if mine and not self.options.is_done(self.store.read(cell.key), cell):
                record = replace(record, failed=why, finished=time.time())
                self.store.write(record)
                self.reporter.finished(cell, record)
