"""The history of a run: one record an epoch, fetched from the device in batches."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor

from fossil.errors import RunError
from fossil.methods.base import Record
from fossil.storage import write_text


class History:
    """Collects records and, given a path, appends them as JSON lines.

    Args:
        path: file to append to, or None to keep the records in memory alone.
        advice: what to do about a training that diverges.
    """

    def __init__(
        self, path: Path | None = None, advice: str = "Lower the learning rates or train fewer epochs"
    ) -> None:
        self.path, self.advice = path, advice
        self.records: list[dict[str, float]] = []
        self._pending: list[tuple[int, float, Record]] = []
        self._started = time.perf_counter()

    def restore(self, epoch: int) -> None:
        """Read the records up to `epoch` and drop later ones, which a killed run wrote after its last checkpoint."""
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_bytes().splitlines():
            try:
                record = json.loads(line)
                earlier = record["epoch"] <= epoch
            except (ValueError, KeyError, TypeError):
                break  # the line that was being written when the run was killed
            if earlier:
                self.records.append(record)
        write_text(self.path, "".join(json.dumps(record) + "\n" for record in self.records))
        if self.records:
            self._started -= self.records[-1]["seconds"]

    @property
    def elapsed(self) -> float:
        """Seconds since it began, with those of the run that it goes on with."""
        return time.perf_counter() - self._started

    def add(self, epoch: int, record: Record) -> None:
        """Keep a record; its tensors stay where they are until `flush`."""
        self._pending.append((epoch, self.elapsed, record))

    def flush(self) -> None:
        """Fetch all pending tensors in one transfer, check them and write them down.

        Raises:
            RunError: a loss is NaN or infinite, or the file cannot be written.
        """
        tensors = [value for _, _, record in self._pending for value in record.values() if isinstance(value, Tensor)]
        fetched = iter(torch.stack([value.reshape(()).float() for value in tensors]).tolist() if tensors else [])
        lines, diverged = [], ""
        for epoch, seconds, record in self._pending:
            numbers = {key: next(fetched) if isinstance(value, Tensor) else value for key, value in record.items()}
            bad = [key for key, value in numbers.items() if not math.isfinite(value)]
            if bad:
                diverged = f"{bad[0]} is {numbers[bad[0]]} in epoch {epoch}"
                break
            self.records.append({"epoch": epoch, "seconds": round(seconds, 4), **numbers})
            lines.append(json.dumps(self.records[-1]) + "\n")
        self._pending.clear()
        self._append(lines)
        if diverged:
            raise RunError(
                f"Training diverged: {diverged}.",
                remedy=f"{self.advice}." if self.path is None else f"{self.advice}; the last checkpoint is kept.",
            )

    def _append(self, lines: list[str]) -> None:
        if self.path is None or not lines:
            return
        try:
            with self.path.open("a", encoding="utf-8") as stream:
                stream.writelines(lines)
        except OSError as error:
            raise RunError(
                f"Could not write {self.path}: {error.strerror or error}.",
                remedy="Free some space and go on with --resume; the last checkpoint is kept.",
            ) from error
