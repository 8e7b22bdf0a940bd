"""The tables of a study: a row for each method and variant, a column for each graph, or the other way round."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean, median

from fossil.evaluation.statistics import Summary
from fossil.report.tables import Emphasis, Table, Value
from fossil.studies.entries import Quantity, TableEntry
from fossil.studies.places import Grid, Place, places_of
from fossil.studies.ranking import ranks_table
from fossil.studies.results import SCORED, Results, middle, paired, scale
from fossil.studies.spread import spread_table
from fossil.studies.table_notes import notes_of

_NOTHING = "–"


def tables_of(results: Results, entry: TableEntry) -> dict[str, Table]:
    """Return a table that a study asks for, one of differences where it names a reference, and one of mean ranks.

    Each is there by the name of its file.

    Args:
        results: the records.
        entry: what is wanted, complete (`Study.wanted_tables`).
    """
    grid = places_of(results, entry)
    made = [_arranged(_values_table(results, entry, grid), entry)]
    if entry.reference is not None:
        made.append(_arranged(_differences_table(results, entry, grid), entry))
    if entry.ranks:
        made.append(ranks_table(results, entry))
    tables = dict(zip(entry.made, made, strict=True))
    searched = results.plan.searched
    if searched is None:
        return tables
    return {
        name: table if searched.note() in table.notes else replace(table, notes=[*table.notes, searched.note()])
        for name, table in tables.items()
    }


def searched_table(results: Results) -> Table | None:
    """Return how validation accuracy spread over the settings of every search; None before they are frozen."""
    plan, searched = results.plan, results.plan.searched
    if searched is None or not searched.spread:
        return None
    places = [(graph, row.title) for graph in plan.columns for row in plan.rows if not row.found]
    known = [
        (graph, row, searched.spread[row][graph]) for graph, row in places if graph in searched.spread.get(row, {})
    ]
    return spread_table(known, [searched.note()])


def _values_table(results: Results, entry: TableEntry, grid: Grid) -> Table:
    """Return what every row has on every graph, and above them the majority class where accuracies are shown."""
    plan = results.plan
    rows = [[row.title, *(_text(place, entry) for place in line)] for row, line in zip(plan.rows, grid, strict=True)]
    rows_above = 0
    if entry.value == "accuracy":
        assert entry.protocol is not None
        majorities = [results.majority(column, entry.protocol) for column in range(len(plan.columns))]
        if any(share is not None for share in majorities):
            shown = [_NOTHING if share is None else _number(share, entry) for share in majorities]
            rows.insert(0, ["Majority", *shown])
            rows_above = 1
    emphasis = {
        (place.row + rows_above, place.column + 1): (Emphasis.BEST if place.rank == 1 else Emphasis.SECOND)
        for line in grid
        for place in line
        if place.rank is not None
    }
    title = entry.title or plan.study.title or plan.study.name
    records = [_record(results, entry, place, grid) for line in grid for place in line]
    return Table(title, ["Method", *plan.columns], rows, records, notes_of(results, entry, grid), emphasis)


def _differences_table(results: Results, entry: TableEntry, grid: Grid) -> Table:
    """Return how far each row is from the reference, paired by seed."""
    assert entry.reference is not None
    plan = results.plan
    reference = plan.row_titled(entry.reference)
    rows, records = [], []
    for number, line in enumerate(grid):
        if number == reference:
            continue
        differences = [_difference(entry, place, grid[reference][place.column]) for place in line]
        rows.append([plan.rows[number].title, *(_signed(difference, entry) for difference in differences)])
        records += [_record(results, entry, place, grid) for place in line]
    note = (
        f"How far each row is from {entry.reference}, {_unit(entry.value)}, paired by seed on the splits that both "
        "have; ± half the 95 % interval over seeds, none below three."
    )
    return Table(f"Difference from {entry.reference}", ["Method", *plan.columns], rows, records, [note])


def _difference(entry: TableEntry, place: Place, other: Place) -> Summary | None:
    assert entry.protocol is not None
    return paired(place.values, other.values, entry.protocol)


def _arranged(table: Table, entry: TableEntry) -> Table:
    """Return the table with graphs as columns, or as rows if that is wanted."""
    if entry.columns == "graphs":
        return table
    lines = [list(table.header), *map(list, table.rows)]
    turned = [list(line) for line in zip(*lines, strict=True)]
    turned[0][0] = "Graph"
    emphasis = {(column - 1, row + 1): kind for (row, column), kind in table.emphasis.items()}
    return Table(table.title, turned[0], turned[1:], table.records, table.notes, emphasis)


# How places are shown to people, and written for programs.


def _unit(quantity: Quantity) -> str:
    return {"memory": "in GB", "lambda_mean": "in λ", "effective_rank": "in dimensions"}.get(
        quantity, "in points" if quantity in SCORED else "in seconds"
    )


def _number(value: float, entry: TableEntry) -> str:
    scaled = scale(entry.value) * value
    return f"{scaled:.{entry.digits}f}" if entry.value in SCORED else f"{scaled:.3g}"


def _text(place: Place, entry: TableEntry) -> str:
    """Return a place as people see it: mean ± half its interval, how many if not all, marks, and the printed figure."""
    published = "" if place.published is None else f" [{place.published[0]:.{max(entry.digits, 1)}f}]"
    if place.summary is None:
        return ("failed" if place.possible and place.reasons else _NOTHING) + published
    half = place.summary.half_width if entry.value in SCORED else None
    interval = "" if half is None else f" ± {_number(half, entry)}"
    count = f" ({place.summary.n})" if place.summary.n != place.wanted else ""
    marks = "".join(f" {mark}" for mark in place.marks)
    return f"{_number(middle(place.summary, entry.value), entry)}{interval}{count}{marks}{published}"


def _signed(difference: Summary | None, entry: TableEntry) -> str:
    if difference is None:
        return _NOTHING
    sign = "+" if difference.mean >= 0 else "−"
    interval = "" if difference.half_width is None else f" ± {_number(difference.half_width, entry)}"
    return f"{sign}{_number(abs(difference.mean), entry)}{interval}"


def _record(results: Results, entry: TableEntry, place: Place, grid: Grid) -> dict[str, Value]:
    """Return a place for programs, in full precision; accuracies are shares, times seconds, memory bytes."""
    plan, summary = results.plan, place.summary
    reference = None if entry.reference is None else grid[plan.row_titled(entry.reference)][place.column]
    difference = None if reference is None or reference.row == place.row else _difference(entry, place, reference)
    printed, printed_half = place.published or (None, None)
    scored, encoders = entry.value in SCORED, list(place.values.values())
    return {
        "row": plan.rows[place.row].title,
        "method": plan.rows[place.row].method,
        "graph": plan.columns[place.column],
        "protocol": entry.protocol if scored else None,
        "value": entry.value,
        "mean": None if summary is None else summary.mean,
        "median": None if summary is None else median(summary.values),
        "low": None if summary is None or summary.interval is None else summary.interval.low,
        "high": None if summary is None or summary.interval is None else summary.interval.high,
        "encoders": 0 if summary is None else summary.n,
        "wanted": place.wanted,
        "splits": max(map(len, encoders), default=0) if scored else None,
        "rank": place.rank,
        "beats_untrained": place.beats_untrained,
        "marks": " ".join(place.marks),
        "published": printed,
        "published_half_width": printed_half,
        "from_published": None if summary is None or printed is None else 100 * summary.mean - printed,
        "reference": entry.reference,
        "difference": None if difference is None else difference.mean,
        "difference_low": None if difference is None or difference.interval is None else difference.interval.low,
        "difference_high": None if difference is None or difference.interval is None else difference.interval.high,
        "seeds": list(place.values),
        "values": [mean(by_split.values()) for by_split in encoders],
        "reasons": "; ".join(place.reasons),
    }
