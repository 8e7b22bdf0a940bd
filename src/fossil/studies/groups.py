"""Letters in a table: on each graph, rows that share one are not shown to differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TypeAlias

from fossil.evaluation.comparison import significance_letters
from fossil.evaluation.statistics import FEWEST_FOR_AN_INTERVAL

BySplit: TypeAlias = Mapping[int, float]
ByEncoder: TypeAlias = Mapping[int, BySplit]

NOTE = (
    "Letters: on a graph, rows that share one do not differ significantly at 5 %, paired by encoder, Holm's correction "
    "over all pairs of the column; rows with too few encoders, or on other splits, have none."
)


def letters_of(rows: Sequence[ByEncoder], confidence: float = 0.95) -> list[str]:
    """Return the letters of each row on one graph; none for rows that cannot be paired with the others.

    Args:
        rows: values of each row by encoder and split.
        confidence: of a difference, after the correction.
    """
    pairings = [{seed: tuple(sorted(splits)) for seed, splits in values.items()} for values in rows]
    usable = [one for one in pairings if len(one) >= FEWEST_FOR_AN_INTERVAL]
    if not usable:
        return [""] * len(rows)
    # The splits that most rows have; a method that was trained on labels has one alone, and is not among them.
    usual = max(usable, key=usable.count)
    values = {
        str(number): {seed: mean(splits.values()) for seed, splits in of_row.items()}
        for number, (of_row, pairing) in enumerate(zip(rows, pairings, strict=True))
        if pairing == usual
    }
    found = significance_letters(values, confidence=confidence) if len(values) > 1 else {}
    return [found.get(str(number), "") for number in range(len(rows))]
