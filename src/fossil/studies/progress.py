"""How a study goes: a live line in a terminal, a plain line for each training elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import mean
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fossil.report.terminal import PlainConsole
from fossil.studies.plan import Cell, StudyPlan
from fossil.studies.record import Record
from fossil.studies.store import Store
from fossil.studies.work import Options
from fossil.training.progress import duration, whole


class LiveReport:
    """Shows how many trainings are done, failed and running, whoever does them, and about how long the rest takes.

    Args:
        plan: the study.
        store: its records.
        options: how it is run.
        console: where it is shown; standard error when None.
    """

    def __init__(self, plan: StudyPlan, store: Store, options: Options, console: Console | None = None) -> None:
        self.plan, self.store, self.options = plan, store, options
        self.console = console or PlainConsole(stderr=True)
        self.cells = {cell.key: cell for cell in reversed(plan.cells)}
        self.records: dict[str, Record] = {}
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(table_column=whole()),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(table_column=whole()),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._look()
        self.began, self.before = time.monotonic(), set(self.records)
        self.bar.start()
        self.task = self.bar.add_task(
            self.plan.study.name, total=len(self.cells), completed=len(self.records), state=""
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def started(self, cell: Cell) -> None:
        """Show what is under way."""
        self._move()

    def finished(self, cell: Cell, record: Record) -> None:
        """Say what came of a cell."""
        self._look()
        self.records[cell.key] = record
        self._move()
        count = f"[{len(self.records):>{len(str(len(self.cells)))}}/{len(self.cells)}]"
        told = "" if self.console.is_terminal else self._state()
        state = f"; {told}" if told else ""
        self.console.print(f"{count} {self.plan.name_of(cell)}: {outcome(record, cell)}{state}", soft_wrap=True)

    def waiting(self, cells: int) -> None:
        """Say that others are at the rest."""
        self._look()
        self._move()

    def _move(self) -> None:
        self.bar.update(self.task, completed=len(self.records), state=self._state())

    def _look(self) -> None:
        """Take note of what others have finished."""
        for key, cell in self.cells.items():
            if key not in self.records and self.store.path_of(key).exists():
                record = self.store.read(key)
                if record is not None and self.options.is_done(record, cell):
                    self.records[key] = record

    def _state(self) -> str:
        failed = sum(bool(record.reasons(self.cells[key])) for key, record in self.records.items())
        parts = [f"{failed} failed"] if failed else []
        running = sum(key in self.cells for key in self.store.running())
        parts += [f"{running} running"] if running else []
        if self.cells.keys() - self.records.keys():
            left = self._left()
            parts.append("time left unknown" if left is None else f"about {duration(left)} left")
        return ", ".join(parts)

    def _left(self) -> float | None:
        """Return the time that the rest takes, if it goes on as it went so far."""
        fresh = self.records.keys() - self.before
        missing = self.cells.keys() - self.records.keys()
        if not fresh:
            return None
        usual = self._usual()
        done = sum(self._weight(key, usual) for key in fresh)
        return (time.monotonic() - self.began) * sum(self._weight(key, usual) for key in missing) / max(done, 1e-9)

    def _usual(self) -> dict[tuple[int, int], float]:
        groups: dict[tuple[int, int], list[float]] = {}
        for key, record in self.records.items():
            if record.seconds is not None:
                groups.setdefault((self.cells[key].row, self.cells[key].column), []).append(record.seconds)
        return {place: mean(seconds) for place, seconds in groups.items()}

    def _weight(self, key: str, usual: Mapping[tuple[int, int], float]) -> float:
        """Return about how much work a cell is: the time of others in its place, else the mean of all."""
        cell = self.cells[key]
        return usual.get((cell.row, cell.column)) or mean(usual.values() or [1.0])


def outcome(record: Record, cell: Cell) -> str:
    """Return what came of a cell, in a few words."""
    if record.failed:
        return f"failed: {record.failed}"
    wanted = [record.score_of(scoring) for scoring in cell.scorings]
    parts = [
        f"{scores.protocol} failed: {scores.failed}"
        if scores.failed
        else f"{100 * mean(scores.accuracies):.2f} ({scores.protocol})"
        for scores in wanted
        if scores is not None
    ]
    return f"{', '.join(parts)} in {duration(record.seconds or 0.0)}"
