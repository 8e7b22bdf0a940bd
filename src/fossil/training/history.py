"""The history of a run: one record an epoch, fetched from the device in batches."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fossil.errors import RunError
from fossil.methods.base import Record
from fossil.storage import read_bytes, reading, write_text
from fossil.training.divergence import DivergedError


class History:
    """Collects records and, given a path, appends them as JSON lines.

    Args:
        path: file to append to, or None to keep the records in memory alone.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.records: list[dict[str, float]] = []
        self._digest = hashlib.sha256()
        self._pending: list[tuple[int, float, Record]] = []
        self._started = time.perf_counter()

    def restore(self, epoch: int, digest: str | None = None) -> None:
        """Read the records up to `epoch` and drop later ones, which a killed run wrote after its last checkpoint.

        A last line that was being written when the run was killed is dropped; a history that is missing begins anew.

        Args:
            epoch: of the checkpoint.
            digest: of the records up to it, where the checkpoint has it.

        Raises:
            RunError: any other line is damaged, or the records are not those of the checkpoint.
        """
        if self.path is None:
            return
        with reading(self.path):
            if not self.path.exists():
                if self.path.is_symlink():
                    raise _unusable(self.path, f"{self.path} is a symbolic link to nothing.")
                return
        lines = read_bytes(self.path).splitlines()
        for number, line in enumerate(lines, start=1):
            record = _record(line)
            follows = not self.records or record is None or record["epoch"] == self.records[-1]["epoch"] + 1
            if (record is None and number < len(lines)) or not follows:
                what = "damaged" if record is None else f"of epoch {record['epoch']}, and should be of the next one"
                raise _unusable(self.path, f"Line {number} of {self.path} is {what}.")
            if record is not None:
                self.records.append(record)
        self.records = [record for record in self.records if record["epoch"] <= epoch]
        written = [json.dumps(record) + "\n" for record in self.records]
        self._count(written)
        if digest is not None and self.digest != digest:
            raise _unusable(self.path, f"{self.path} is not the history that the checkpoint of epoch {epoch} follows.")
        write_text(self.path, "".join(written))
        if self.records:
            self._started -= self.records[-1]["seconds"]

    @property
    def digest(self) -> str:
        """Hash of all records that were written."""
        return self._digest.hexdigest()

    def sync(self) -> None:
        """Have what was written reach the disk."""
        if self.path is not None and self.records:
            self._append([], sync=True)

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
            DivergedError: a loss is NaN or infinite.
            RunError: the file cannot be written.
        """
        tensors = [value for _, _, record in self._pending for value in record.values() if isinstance(value, Tensor)]
        fetched = iter(torch.stack([value.reshape(()).float() for value in tensors]).tolist() if tensors else [])
        lines: list[str] = []
        diverged: DivergedError | None = None
        for epoch, seconds, record in self._pending:
            numbers = {key: next(fetched) if isinstance(value, Tensor) else value for key, value in record.items()}
            bad = [key for key, value in numbers.items() if not math.isfinite(value)]
            if bad:
                diverged = DivergedError(f"{bad[0]} is {numbers[bad[0]]} in epoch {epoch}")
                break
            self.records.append({"epoch": epoch, "seconds": round(seconds, 4), **numbers})
            lines.append(json.dumps(self.records[-1]) + "\n")
        self._pending.clear()
        if lines:
            self._append(lines)
        self._count(lines)
        if diverged is not None:
            raise diverged

    def _count(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._digest.update(line.encode())

    def _append(self, lines: list[str], *, sync: bool = False) -> None:
        """Append to the file: to a plain one, and not to what a symbolic link names."""
        if self.path is None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(self.path, flags, 0o666)
            with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError("it is no plain file")
                stream.writelines(lines)
                stream.flush()
                if sync:
                    os.fsync(descriptor)
        except OSError as error:
            raise RunError(
                f"Could not write {self.path}: {error.strerror or error}.",
                remedy="Free some space and go on with --resume; the last checkpoint is kept.",
            ) from error


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record on a line; None where it is damaged."""
    try:
        record = json.loads(line)
        numbers = all(type(value) in (int, float) and math.isfinite(value) for value in record.values())
        whole = numbers and type(record["epoch"]) is int and "seconds" in record
        return record if whole else None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _unusable(path: Path, what: str) -> RunError:
    return RunError(
        what,
        remedy=f"Mend {path.name} or put a copy back; or move it away and go on with --resume, and it begins anew at "
        "the checkpoint. Nothing was touched.",
    )
