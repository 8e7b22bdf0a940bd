"""Shows how training goes: a live line in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SHOWN = {"contrast": "loss", "ot": "subgraphs", "node": "nodes", "fusion": "fusion", "lambda_mean": "λ"}


class Reporter(Protocol):
    """Told about every epoch whose record has arrived."""

    def start(self, done: int, total: int) -> None:
        """Training begins after `done` of `total` epochs."""

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Epoch `epoch` is over."""

    def finish(self) -> None:
        """Training is over, however it ended."""


class Silent:
    """Says nothing."""

    def start(self, done: int, total: int) -> None:
        """Say nothing."""

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Say nothing."""


class LiveReporter:
    """A progress bar with the loss parts and the time left; ten plain lines where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[parts]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.total = 0

    def start(self, done: int, total: int) -> None:
        """Show the bar."""
        self.total = total
        self.progress.start()
        self.task = self.progress.add_task("training", total=total, completed=done, parts="")

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Move the bar, or print a line at every tenth of the way."""
        parts = describe(record)
        self.progress.update(self.task, completed=epoch, parts=parts)
        if not self.console.is_terminal and (epoch == self.total or epoch % max(1, self.total // 10) == 0):
            self.console.print(f"epoch {epoch}/{self.total}  {parts}  {record['seconds']:.1f} s", highlight=False)

    def finish(self) -> None:
        """Take the bar away."""
        self.progress.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def describe(record: dict[str, float]) -> str:
    """Return the loss parts of a record in one short line."""
    return "  ".join(f"{shown} {record[key]:.4g}" for key, shown in _SHOWN.items() if key in record)
