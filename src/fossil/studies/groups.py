"""Letters in a table: on each graph, rows that share one are not shown to differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from fossil.evaluation.comparison import significance_letters
from fossil.evaluation.statistics import FEWEST_FOR_AN_INTERVAL
from fossil.studies.results import ByEncoder

NOTE = (
    "Letters: on a graph, rows that share one do not differ significantly at 5 %, paired by encoder, Holm's correction "
    "over all pairs of the column; rows with too few encoders, or on other splits, have none."
)


def letters_of(rows: Sequence[ByEncoder]) -> list[str]:
    """Return the letters of each row on one graph; none for rows that cannot be paired with the others.

    Two rows are paired on the encoders that both have, so that a row may have more of them than another.

    Args:
        rows: values of each row by encoder and split.
    """
    # The splits that most rows have of an encoder; a method that was trained on labels has one alone.
    seen: dict[int, list[tuple[int, ...]]] = {}
    for row in rows:
        for seed, splits in row.items():
            seen.setdefault(seed, []).append(tuple(sorted(splits)))
    usual = {seed: max(found, key=found.count) for seed, found in seen.items()}
    values = [
        {seed: mean(splits.values()) for seed, splits in row.items() if tuple(sorted(splits)) == usual[seed]}
        for row in rows
    ]
    paired: dict[str, Mapping[int, float]] = {}
    for number in sorted(range(len(rows)), key=lambda number: -len(values[number])):
        shared = [len(values[number].keys() & other.keys()) for other in (values[number], *paired.values())]
        if min(shared) >= FEWEST_FOR_AN_INTERVAL:
            paired[str(number)] = values[number]
    in_order = {str(number): paired[str(number)] for number in range(len(rows)) if str(number) in paired}
    found_letters = significance_letters(in_order) if len(in_order) > 1 else {}
    return [found_letters.get(str(number), "") for number in range(len(rows))]
