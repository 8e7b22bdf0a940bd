"""Shows how training goes: a live line in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

_TOTALS = ("loss", "contrast")
_SHORT = {"contrast": "loss", "ot": "subgraphs", "node": "nodes", "lambda_mean": "λ"}
_MOST_PARTS = 6
_REST = 60  # columns of a training's line beside its parts: names, numbers, times, and twenty of the bar

# Kept in the history, and too much for a line.
_KEPT_BACK = ("epoch", "seconds", "effective_rank", "momentum", "subgraphs", "marginal_error")
_KEPT_BACK_GROUPS = ("distance_", "solver_", "skipped_", "lambda_", "fusion_")


class Reporter(Protocol):
    """Told what to expect, and about every epoch whose record has arrived."""

    def notice(self, text: str) -> None:
        """Something is worth knowing, in one line: the memory and the time that training takes."""

    def start(self, done: int, total: int) -> None:
        """Training begins after `done` of `total` epochs."""

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Epoch `epoch` is over."""

    def stage(self, name: str, share: float) -> None:
        """Of what follows training, such a share of the stage of that name is done."""

    def finish(self) -> None:
        """Training, or what follows it, is over, however it ended."""


class Silent:
    """Says nothing."""

    def stage(self, name: str, share: float) -> None:
        """Say nothing."""

    def notice(self, text: str) -> None:
        """Say nothing."""

    def start(self, done: int, total: int) -> None:
        """Say nothing."""

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Say nothing."""


class Stages:
    """A bar for each stage of long work, with the time left of each; nothing where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description:<11}", markup=False),
            BarColumn(),
            TimeElapsedColumn(table_column=whole()),
            TextColumn("left"),
            TimeRemainingColumn(table_column=whole()),
            console=console,
            disable=not console.is_terminal,
        )
        self.tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, share: float) -> bool:
        """Move the bar of a stage; whatever came before it is over. Return whether the stage is new."""
        new = stage not in self.tasks
        if new:
            self.progress.start()
            for before in self.tasks.values():
                self.progress.update(before, completed=1.0)
            self.tasks[stage] = self.progress.add_task(stage, total=1.0)
        self.progress.update(self.tasks[stage], completed=share)
        return new

    def stop(self) -> None:
        """Leave the bars as they are."""
        self.progress.stop()


class LiveReporter:
    """A progress bar with the loss parts and the time left; ten plain lines where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(table_column=whole()),
            TextColumn("{task.fields[parts]}", markup=False),
            TimeElapsedColumn(table_column=whole()),
            TextColumn("left"),
            TimeRemainingColumn(table_column=whole()),
            console=console,
            disable=not console.is_terminal,
        )
        self.total, self.stages = 0, Stages(console)

    def notice(self, text: str) -> None:
        """Print a line, above the bar where there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def start(self, done: int, total: int) -> None:
        """Show the bar."""
        self.total = total
        self.progress.start()
        self.task = self.progress.add_task("training", total=total, completed=done, parts="")

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Move the bar, or print a line at every tenth of the way."""
        parts = describe(record)
        self.progress.update(self.task, completed=epoch, parts=fitting(parts, self.console.width - _REST))
        if not self.console.is_terminal and (epoch == self.total or epoch % max(1, self.total // 10) == 0):
            text = f"epoch {epoch}/{self.total}  {parts}  {record['seconds']:.1f} s"
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def stage(self, name: str, share: float) -> None:
        """Move the bar of a stage."""
        self.stages(name, share)

    def finish(self) -> None:
        """Leave the bars as they are."""
        self.progress.stop()
        self.stages.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def describe(record: dict[str, float]) -> str:
    """Return the loss of any method and its parts in one short line, the loss first.

    >>> describe({"epoch": 3, "wasserstein": 0.4, "loss": 0.91234, "effective_rank": 7.5, "lambda_mean": 0.25})
    'loss 0.9123  wasserstein 0.4  λ 0.25'
    """
    totals = [key for key in _TOTALS if key in record]
    parts = [key for key in record if key not in totals and _is_part(key)]
    names = {key: _SHORT.get(key, key.replace("_", " ")) for key in [*totals, *parts][:_MOST_PARTS]}
    return "  ".join(f"{name} {record[key]:.4g}" for key, name in names.items())


def fitting(parts: str, room: int) -> str:
    """Return as many of the parts, from the first on, as there is room for, and one at least.

    >>> fitting("loss 9.6  subgraphs 2.2  nodes 7.4", 24), fitting("loss 9.6  nodes 7.4", 3)
    ('loss 9.6  subgraphs 2.2', 'loss 9.6')
    """
    while len(parts) > room and "  " in parts:
        parts = parts.rpartition("  ")[0]
    return parts


def whole() -> Column:
    """Return the column of a live line whose text is not shortened on a narrow terminal: the bar gives way."""
    return Column(no_wrap=True)


def _is_part(key: str) -> bool:
    return key in _SHORT or not (key in _KEPT_BACK or key.startswith(_KEPT_BACK_GROUPS))


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> [duration(seconds) for seconds in (0.0123, 4.2, 47, 5400, 200_000)]
    ['0.012 s', '4.2 s', '47 s', '1.5 hours', '2.3 days']
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    for length, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
