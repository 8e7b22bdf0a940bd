"""The contract of a logger: one program that shows how a training goes, a file each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Training:
    """What is logged.

    Attributes:
        name: what to call it.
        settings: everything that was asked for, by name.
        folder: the run folder, if there is one.
        done: epochs that were trained before.
        before: what `Logger.open` returned for those, or None where nothing was logged.
    """

    name: str
    settings: Mapping[str, str | int | float | bool | None]
    folder: Path | None
    done: int = 0
    before: str | None = None


class Logger(ABC):
    """Told about every epoch of one training.

    A logger is found by being in this package, or by an entry point of another package in the group
    `fossil.runs.loggers`. Whatever it raises after `check` ends the log and not the training.

    Class attributes:
        name: what to call it, as in `--log tensorboard`.

    Args:
        target: where to log; the program's own habit when empty.
    """

    name: ClassVar[str]

    def __init__(self, target: str = "") -> None:
        self.target = target

    def check(self, folder: Path | None) -> None:
        """Raise SettingError, before anything is trained, where a package is missing or there is no place to log to."""
        return

    @abstractmethod
    def open(self, training: Training) -> str | None:
        """Begin a log, or go on with the one of `training.before`.

        Returns:
            By which the log is found again when the run is continued; None where nothing is needed for that.
        """

    @abstractmethod
    def log(self, epoch: int, record: Mapping[str, float]) -> None:
        """Epoch `epoch` is over; its record has the loss, its parts and diagnostics."""

    @abstractmethod
    def close(self, *, finished: bool) -> None:
        """Training is over: finished, or interrupted and perhaps continued later."""
