"""Measured figures beside printed ones: how far apart they are, and what can be said of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fossil.evaluation.statistics import Summary
from fossil.studies.entries import TableEntry
from fossil.studies.places import Place, places_of
from fossil.studies.results import Results

Word: TypeAlias = Literal["reproduced", "open", "lower", "higher", "not measured"]

WITHIN = 1.0
"""Points by which a reproduced figure may differ."""

RULE = (
    "**open**: there are fewer than three encoders, or the 95 % interval of the difference reaches zero and is wider "
    f"than ± {2 * WITHIN:g} points; **reproduced**: otherwise, where it reaches zero or the difference is below "
    f"{WITHIN:g} point; **lower**, **higher**: all else. The interval of a difference is made of ours over encoders "
    "and of the printed one, as independent ones."
)


@dataclass(frozen=True)
class Beside:
    """A measured figure beside a printed one, in points.

    Attributes:
        measured: ours; None where there is none.
        printed: theirs.
        half_width: of the interval of the difference; None below three encoders.
        word: what can be said.
    """

    measured: float | None
    printed: float
    half_width: float | None
    word: Word

    @property
    def difference(self) -> float | None:
        """Ours minus theirs."""
        return None if self.measured is None else self.measured - self.printed

    def __str__(self) -> str:
        """Return the difference with its interval and the verdict."""
        if self.difference is None:
            return self.word
        sign = "+" if self.difference >= 0 else "−"
        spread = "" if self.half_width is None else f" ± {self.half_width:.1f}"
        return f"{sign}{abs(self.difference):.1f}{spread} {self.word}"


def beside(found: Summary | None, printed: float, printed_half: float | None) -> Beside:
    """Set a measured share beside a printed percentage; see `RULE`."""
    if found is None:
        return Beside(None, printed, None, "not measured")
    measured = 100 * found.mean
    if found.half_width is None:
        return Beside(measured, printed, None, "open")
    half = math.hypot(100 * found.half_width, printed_half or 0.0)
    distance = abs(measured - printed)
    word: Word = "lower" if measured < printed else "higher"
    if distance <= half and half > 2 * WITHIN:
        word = "open"
    elif distance <= half or distance < WITHIN:
        word = "reproduced"
    return Beside(measured, printed, half, word)


def beside_published(results: Results, entry: TableEntry) -> list[tuple[Place, Beside]]:
    """Return every place of a table for which a figure is printed, with how far it is from it."""
    return [
        (place, beside(place.summary, *place.published))
        for line in places_of(results, entry)
        for place in line
        if place.published is not None
    ]


def counted(found: Sequence[Beside]) -> str:
    """Return in words how many figures there are of each verdict."""
    words: tuple[Word, ...] = ("reproduced", "lower", "higher", "open", "not measured")
    counts = [(sum(one.word == word for one in found), word) for word in words]
    return f"Of {len(found)} printed figures: " + ", ".join(f"{count} {word}" for count, word in counts if count) + "."
