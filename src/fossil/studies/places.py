"""What stands in each place of a study's table: values, their summary, and how they compare with others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeAlias

from fossil.evaluation.comparison import DIGITS
from fossil.evaluation.statistics import Summary
from fossil.studies.entries import NEITHER_GOOD_NOR_BAD, Quantity, TableEntry
from fossil.studies.groups import letters_of
from fossil.studies.results import SCORED, ByEncoder, Results, middle, over_encoders, paired

NOT_ABOVE = "†"
"""The mark of what is not above the better of the rows for which nothing is trained."""

_SECOND = 2  # the last rank that is set apart


@dataclass(frozen=True)
class Place:
    """One place of a table: a row on a graph, and so several trainings (`plan.Cell`), one a seed.

    Attributes:
        row: position of the row.
        column: position of the graph.
        values: what its encoders have.
        summary: their mean with its interval; None where there are none.
        wanted: how many encoders were asked for.
        reasons: why some of these encoders, or all, are not there.
        possible: whether there is anything to train: the graph can be read and scored, and the method can have it.
        beats_untrained: whether it is above what nothing was trained for; None where that is not known.
        published: the printed figure in percent, and what is printed after ±.
        marks: signs after the number, such as † and letters of groups.
        rank: 1 for the best of its graph, 2 for the second best.
    """

    row: int
    column: int
    values: ByEncoder
    summary: Summary | None
    wanted: int
    reasons: tuple[str, ...]
    possible: bool
    beats_untrained: bool | None
    published: tuple[float, float | None] | None
    marks: tuple[str, ...]
    rank: int | None = None


Grid: TypeAlias = list[list[Place]]
"""All places of a table, row by row."""


def places_of(results: Results, entry: TableEntry) -> Grid:
    """Return every place of a table."""
    rows, columns = range(len(results.plan.rows)), range(len(results.plan.columns))
    grid = [[_place(results, entry, row, column) for column in columns] for row in rows]
    return _ranked(results, entry.value, _lettered(entry, grid))


def _place(results: Results, entry: TableEntry, row: int, column: int) -> Place:
    """Return a place as far as it stands by itself: without letters and rank."""
    assert entry.protocol is not None
    plan, name = results.plan, entry.protocol
    scored = name if entry.value in SCORED else None
    values = results.values(row, column, entry.value, name)
    beats = _beats_untrained(results, row, column, values, name) if entry.value == "accuracy" else None
    comparable = entry.published and entry.value in ("accuracy", "test_maximum")
    return Place(
        row=row,
        column=column,
        values=values,
        summary=over_encoders(values, name),
        wanted=len(plan.study.seeds),
        reasons=tuple(results.reasons(row, column, scored)),
        possible=bool(results.cells(row, column)) and (column, scored) not in plan.unscorable,
        beats_untrained=beats,
        published=plan.rows[row].published(plan.study.graphs[column]) if comparable else None,
        marks=(NOT_ABOVE,) if beats is False else (),
    )


def _lettered(entry: TableEntry, grid: Grid) -> Grid:
    """Say which rows of each graph are not shown to differ, by letters."""
    if not (entry.letters and entry.value == "accuracy"):
        return grid
    by_column = [letters_of([place.values for place in column]) for column in zip(*grid, strict=True)]

    def lettered(place: Place) -> Place:
        letters = by_column[place.column][place.row]
        return replace(place, marks=(*place.marks, letters)) if letters else place

    return [[lettered(place) for place in line] for line in grid]


def _ranked(results: Results, quantity: Quantity, grid: Grid) -> Grid:
    """Say which are the best and the second best of each graph, among those that train without labels."""
    if quantity in NEITHER_GOOD_NOR_BAD:
        return grid
    ranks: dict[tuple[int, int], int] = {}
    sign = -1 if quantity in SCORED else 1
    for column in range(len(results.plan.columns)):
        known = {
            row: round(sign * middle(place.summary, quantity), DIGITS)
            for row, line in enumerate(grid)
            if (place := line[column]).summary is not None and not results.plan.rows[row].kind.needs_labels
        }
        for row, value in known.items() if len(known) > 1 else ():
            rank = 1 + sum(other < value for other in known.values())  # equals share theirs
            if rank <= _SECOND:
                ranks[row, column] = rank
    return [[replace(place, rank=ranks.get((place.row, place.column))) for place in line] for line in grid]


def _beats_untrained(results: Results, row: int, column: int, values: ByEncoder, name: str) -> bool | None:
    """Tell whether a row is above the better of those that nothing is trained for, on the same graph.

    The difference is paired encoder by encoder on the splits that both have; its interval must lie above zero, or,
    where there are too few encoders for one, its mean.
    """
    rows = results.plan.rows
    if not values or not rows[row].kind.trained:
        return None
    untrained = [number for number, other in enumerate(rows) if not other.kind.trained and other.is_plain]
    others = [results.values(number, column, "accuracy", name) for number in untrained]
    differences = [difference for other in others if (difference := paired(values, other, name)) is not None]
    if not differences:
        return None
    least = min(differences, key=attrgetter("mean"))  # to the better of them
    return (least.mean if least.interval is None else least.interval.low) > 0
