"""The work of one process at a study: go through missing cells, claim one that nobody is at, do it, and go on.

Nobody hands out work. Every process looks once more, when it has claimed a cell, whether that is still missing. So it
makes no difference whether the processes belong to one command or to several, and what one of them leaves behind when
it is killed, another takes up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fossil.studies.plan import Cell, Graphs, StudyPlan
from fossil.studies.record import Record
from fossil.studies.results import each_once
from fossil.studies.store import Store
from fossil.studies.train import do_cell

PATIENCE = 0.5  # seconds between two looks at what others are doing


@dataclass(frozen=True)
class Options:
    """How a study is run.

    Attributes:
        device: `auto`, `cpu`, `cuda` or `cuda:0`.
        jobs: trainings at once; when None 1, or on a Ray cluster as many as it has room for.
        mps: let them share one GPU by NVIDIA's Multi-Process Service.
        executor: `processes` of this machine, or a `ray` cluster.
        address: of the cluster; when None one is made of this machine.
        threads: of each process on a CPU; the cores shared out when None.
        deadline: no training is started after this moment (`time.time()`); None for no limit.
        retry_before: what failed before this moment is tried again; None to leave it.
    """

    device: str = "auto"
    jobs: int | None = None
    mps: bool = False
    executor: Literal["processes", "ray"] = "processes"
    address: str | None = None
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
        # What has failed for another study alone, under a protocol of its own, is not this one's to try again.
        return not (record.reasons(cell) and self.retry_before is not None and record.finished < self.retry_before)


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


def missing_cells(plan: StudyPlan, store: Store, options: Options) -> list[Cell]:
    """Return the cells of which something is missing, each once."""
    records = {key: store.read(key) for key in plan.keys}
    return [cell for cell in each_once(plan.cells) if not options.is_done(records[cell.key], cell)]


def in_turn(cells: Sequence[Cell], place: int, of: int) -> list[Cell]:
    """Return cells in the order of one of several processes: seed by seed, beginning with a graph of its own.

    Each process mostly stays with a graph that it has read, a large one and a small one are trained side by side, and
    what is there early is balanced over the graphs all the same.

    Args:
        cells: in the order of the plan.
        place: which of the processes it is, from 0 on.
        of: how many there are.
    """
    columns = list(dict.fromkeys(cell.column for cell in cells))
    first = place * len(columns) // of if of < len(columns) else place % max(len(columns), 1)
    rank = {column: number for number, column in enumerate([*columns[first:], *columns[:first]])}
    seeds = {seed: number for number, seed in enumerate(dict.fromkeys(cell.seed for cell in cells))}
    return sorted(cells, key=lambda cell: (seeds[cell.seed], rank[cell.column]))


def work(plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter, place: int = 0) -> None:
    """Do missing cells one after another, until there are none; what others are at is waited for."""
    pending = in_turn(missing_cells(plan, store, options), place, options.jobs or 1)
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
            time.sleep(PATIENCE)
        pending = [cell for cell in left if not options.is_done(store.read(cell.key), cell)]
