"""Tells the loggers of a run how its training goes, and keeps their faults from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fossil.errors import warn_the_caller
from fossil.runs.config import RunConfig
from fossil.runs.loggers.base import Logger, Training
from fossil.storage import read_json, write_json
from fossil.training.progress import Reporter

LOGS = "logs.json"


class Logs:
    """A reporter that tells loggers what it is told, and passes it on to another one.

    Args:
        reporter: told everything first.
        loggers: told about epochs; one that fails is warned of and told nothing more.
        config: what is trained.
        folder: the run folder, where `logs.json` keeps by what each log is found again.
    """

    def __init__(self, reporter: Reporter, loggers: Sequence[Logger], config: RunConfig, folder: Path | None) -> None:
        self.reporter, self.config, self.folder = reporter, config, folder
        self._loggers, self._open = list(loggers), list[Logger]()

    def notice(self, text: str) -> None:
        """Pass it on."""
        self.reporter.notice(text)

    def start(self, done: int, total: int) -> None:
        """Open every log."""
        self.reporter.start(done, total)
        for logger in self._loggers:
            if self._guarded(logger, "could not begin", self._begin, logger, done):
                self._open.append(logger)

    def update(self, epoch: int, record: dict[str, float]) -> None:
        """Log an epoch."""
        self.reporter.update(epoch, record)
        for logger in list(self._open):
            if not self._guarded(logger, f"failed in epoch {epoch}", logger.log, epoch, record):
                self._open.remove(logger)
                with suppress(Exception):  # its fault is known
                    logger.close(finished=False)

    def stage(self, name: str, share: float) -> None:
        """Pass it on."""
        self.reporter.stage(name, share)

    def finish(self) -> None:
        """Pass it on; logs are closed when it is known how the training ended."""
        self.reporter.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for logger in self._open:
            self._guarded(logger, "could not be closed", lambda each=logger: each.close(finished=kind is None))

    def _begin(self, logger: Logger, done: int) -> None:
        kept: dict[str, Any] = {}
        path = None if self.folder is None else self.folder / LOGS
        if path is not None and path.is_file():
            kept = dict(read_json(path))
        name = f"{self.config.method} on {self.config.graph}" if self.folder is None else self.folder.resolve().name
        key = logger.open(Training(name, _flat(self.config.to_dict()), self.folder, done, kept.get(logger.name)))
        if path is not None and key is not None:
            write_json(path, kept | {logger.name: key})

    def _guarded(self, logger: Logger, what: str, call: Callable[..., object], *arguments: Any) -> bool:
        """Call a logger; warn where it raises, and return whether it did not."""
        try:
            call(*arguments)
        except Exception as error:  # whatever another program does must not end a training
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            warn_the_caller(f"The log of {logger.name} {what}, and training goes on without it: {reason}")
            return False
        return True


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted names.

    >>> _flat({"seed": 0, "graph": {"name": "cora"}})
    {'seed': 0, 'graph.name': 'cora'}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
