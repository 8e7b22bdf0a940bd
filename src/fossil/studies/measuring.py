"""What a training takes, and limits that somebody sets to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from fossil.errors import SettingError
from fossil.ops.memory import clear_peak, peak_bytes
from fossil.training.devices import resolve_device


@dataclass(frozen=True)
class Usage:
    """What the encoders of a trial took.

    Attributes:
        training: seconds of training, one for each encoder.
        spent: seconds with scoring, one for each encoder.
        memory: the most bytes that were in use, of a GPU or of this process; None where nobody can tell.
    """

    training: tuple[float, ...] = ()
    spent: tuple[float, ...] = ()
    memory: int | None = None

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Usage:
        """Return what `to_dict` returned."""
        return cls(tuple(kept.get("training", ())), tuple(kept.get("spent", ())), kept.get("memory"))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"training": list(self.training), "spent": list(self.spent), "memory": self.memory}

    def plus(self, training: float, spent: float, memory: int | None) -> Usage:
        """Return it with one more encoder."""
        most = max(self.memory or 0, memory or 0) or None
        return Usage((*self.training, training), (*self.spent, spent), most)


@dataclass(frozen=True)
class Limits:
    """What a training may take; settings above a limit are never the best.

    Attributes:
        seconds: of training an encoder, on average over those of a trial.
        memory: GiB in use at most, of the GPU, or of this process on a CPU.
    """

    seconds: float | None = None
    memory: float | None = None

    def __bool__(self) -> bool:
        return self.seconds is not None or self.memory is not None

    def check(self, device: str) -> None:
        """Raise SettingError where a limit is no limit, or nobody can tell whether it is kept."""
        for name, value in (("seconds", self.seconds), ("memory", self.memory)):
            if value is not None and not value > 0:
                raise SettingError(f"A limit of {value:g} ({name}) leaves nothing to try.", remedy="Give more than 0.")
        if self.memory is not None and peak_bytes(resolve_device(device)) is None:
            raise SettingError(
                "How much memory a training takes can be told on a GPU and on Linux alone.",
                remedy="Leave out the limit (--max-memory; in a study max_memory).",
            )

    def excess(self, usage: Usage) -> dict[str, float]:
        """Return by how much each limit is exceeded, as Optuna wants it: above zero where it is."""
        found = {}
        if self.seconds is not None:
            found["seconds"] = (fmean(usage.training) if usage.training else 0.0) - self.seconds
        if self.memory is not None:
            found["memory"] = (usage.memory or 0) / 2**30 - self.memory
        return found

    def are_kept(self, usage: Usage) -> bool:
        """Tell whether none is exceeded."""
        return all(one <= 0 for one in self.excess(usage).values())


@dataclass
class Taken:
    """What a block took: seconds, and the most bytes in use at a time, where somebody can tell."""

    seconds: float = 0.0
    memory: int | None = None


@contextmanager
def measured(device: str) -> Iterator[Taken]:
    """Measure the time and the memory of a block."""
    where, taken = resolve_device(device), Taken()
    clear_peak(where)
    began = time.monotonic()
    yield taken
    if where.type == "cuda":
        torch.cuda.synchronize(where)
    taken.seconds = time.monotonic() - began
    taken.memory = peak_bytes(where)
