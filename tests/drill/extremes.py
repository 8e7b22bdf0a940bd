"""Every setting of every method at the ends of what it accepts, just beyond them, and far away."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import run_samples
import samples
from cell import MEMORY, Verdict, resident, where

from fossil.errors import FossilError
from fossil.methods.registry import Kind, methods
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.settings import choices

SECONDS = 60.0
_NUMBERS: tuple[Any, ...] = (0, 1, 2, -1, 0.5, 1e-30, 1e30, 10**9, 2**63, 1e308, math.nan, math.inf, -math.inf)
_OTHERS: tuple[Any, ...] = (None, True, "", "words", "1e9", [], [1], {}, {"a": 1})


def values(kind: Kind, name: str) -> list[Any]:
    """Return what to try for a setting: its choices, the neighbourhood of its bounds, and what does not belong."""
    field = kind.Config.model_fields[name]
    ends = [
        getattr(rule, end)
        for rule in field.metadata
        for end in ("ge", "gt", "le", "lt")
        if getattr(rule, end, None) is not None
    ]
    near = [value for end in ends for value in (end, end + 1, end - 1, np.nextafter(float(end), math.inf).item())]
    found = [*choices(field), *near, *_NUMBERS, *_OTHERS]
    return list({repr(value): value for value in found}.values())


@dataclass(frozen=True)
class Extreme:
    """One setting at one value, trained for two epochs."""

    kind: Kind
    name: str
    value: Any

    row = "settings at their extremes"
    seconds = SECONDS
    together = 6

    @property
    def key(self) -> str:
        return f"setting/{self.kind.name}/{self.name}={self.value!r}"[:150]

    def prepare(self, folder: Path) -> None:
        """Write the tables to train on."""
        samples.town(folder)

    def play(self, folder: Path) -> Verdict:
        """Train, and look at the vectors."""
        conditions = self.kind.Config.conditions(self.name)
        beside = {key: _first(wanted) for key, wanted in conditions[0].items()} if conditions else {}
        settings = run_samples.small(self.kind) | beside | {self.name: self.value}
        training = {"device": "cpu"} | ({"epochs": 2} if self.kind.trained else {})
        # What is free is what a cell may take, however much the machine has.
        free = lambda *_: MEMORY - resident(os.getpid())  # noqa: E731
        try:
            with (
                warnings.catch_warnings(),
                mock.patch("fossil.runs.plan.free_host_memory", free),
                mock.patch("fossil.ops.memory.free_host_memory", free),
            ):
                warnings.simplefilter("ignore")
                found = fit(plan_run(folder / "nodes.csv", method=self.kind.name, settings=settings, training=training))
        except FossilError as error:
            return Verdict("refused", str(error)[:160])
        except BaseException as error:
            return Verdict("traceback", where(error))
        numbers = [found.vectors, *([] if found.fusion is None else [found.fusion]), *(found.channels or {}).values()]
        if not all(np.isfinite(each).all() for each in numbers):
            return Verdict("silent", "vectors that are not finite were returned")
        return Verdict("fine")


def _first(wanted: Any) -> Any:
    return wanted[0] if isinstance(wanted, tuple | list | range) else wanted


def cases(share: float) -> Iterator[Extreme]:
    """Yield every setting of every method at every value, or an even share of them."""
    kinds = [kind for kind in methods().values() if kind.__module__.startswith("fossil.")]
    every = [
        Extreme(kind, name, value)
        for kind in kinds
        for name in kind.Config.model_fields
        for value in values(kind, name)
    ]
    step = 1 / share if share else len(every) + 1
    yield from (every[int(place * step)] for place in range(int(len(every) / step)))
