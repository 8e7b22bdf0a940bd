"""The tables of a study: a row for each method and variant, a column for each graph, or the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import mean, median

from fossil.evaluation.protocol import protocol
from fossil.evaluation.statistics import Summary
from fossil.report.tables import Emphasis, Table, Value
from fossil.studies.file import NEITHER_GOOD_NOR_BAD, Quantity, TableEntry
from fossil.studies.groups import NOTE, letters_of
from fossil.studies.ranking import ranks_table
from fossil.studies.results import SCORED, ByEncoder, Results, middle, over_encoders, paired, scale
from fossil.studies.spread import spread_table

NOT_ABOVE = "†"
_NOTHING = "–"
_CAPTIONS: Mapping[Quantity, str] = {
    "accuracy": "Accuracy", "macro_f1": "Macro F1", "test_maximum": "Test maximum",
    "seconds": "Seconds of a training", "epoch_seconds": "Seconds of an epoch", "memory": "Most memory in GB",
    "lambda_mean": "Mean of λ, the weight of structure", "effective_rank": "Effective rank of the vectors",
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """One place of a table: a row on a graph.

    Attributes:
        row: position of the row.
        column: position of the graph.
        values: what its encoders have.
        summary: their mean with its interval; None where there are none.
        wanted: how many encoders were asked for.
        reasons: why some, or all, are not there.
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
    possible: bool = True
    beats_untrained: bool | None = None
    published: tuple[float, float | None] | None = None
    marks: tuple[str, ...] = field(default=())
    rank: int | None = None


def tables_of(results: Results, entry: TableEntry) -> dict[str, Table]:
    """Return a table that a study asks for, one of differences where it names a reference, and one of mean ranks.

    Each is there by the name of its file.

    Args:
        results: the records.
        entry: what is wanted, complete (`Study.wanted_tables`).
    """
    places = places_of(results, entry)
    made = {entry.name: _arranged(_values_table(results, entry, places), entry)}
    if entry.reference is not None:
        made[f"{entry.name}-difference"] = _arranged(_differences_table(results, entry, places), entry)
    if entry.ranks:
        made[f"{entry.name}-ranks"] = ranks_table(results, entry)
    searched = results.plan.searched
    if searched is None:
        return made
    return {
        name: table if searched.note() in table.notes else replace(table, notes=[*table.notes, searched.note()])
        for name, table in made.items()
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
    return spread_table(plan.study.name, known, [searched.note()])


def places_of(results: Results, entry: TableEntry) -> list[list[Place]]:
    """Return every place of a table, row by row."""
    assert entry.protocol is not None
    plan, name = results.plan, entry.protocol
    columns = range(len(plan.columns))
    found = []
    for row, of in enumerate(plan.rows):
        line = []
        for column in columns:
            values = results.values(row, column, entry.value, name)
            beats = _beats_untrained(results, row, column, values, name) if entry.value == "accuracy" else None
            comparable = entry.published and entry.value in ("accuracy", "test_maximum")
            line.append(
                Place(
                    row, column, values, over_encoders(values, name), len(plan.study.seeds),
                    tuple(results.reasons(row, column, name)), bool(results.cells(row, column)), beats,
                    of.published(plan.study.graphs[column]) if comparable else None,
                    (NOT_ABOVE,) if beats is False else (),
                )
            )  # fmt: skip
        found.append(line)
    return _ranked(results, entry.value, _lettered(entry, found))


def _lettered(entry: TableEntry, places: list[list[Place]]) -> list[list[Place]]:
    """Say which rows of each graph are not shown to differ, by letters."""
    if not (entry.letters and entry.value == "accuracy"):
        return places
    columns = [letters_of([place.values for place in column]) for column in zip(*places, strict=True)]
    return [
        [
            replace(place, marks=(*place.marks, letters[number])) if letters[number] else place
            for place, letters in zip(line, columns, strict=True)
        ]
        for number, line in enumerate(places)
    ]


def _ranked(results: Results, quantity: Quantity, places: list[list[Place]]) -> list[list[Place]]:
    """Say which are the best and the second best of each graph, among those that train without labels."""
    if quantity in NEITHER_GOOD_NOR_BAD:
        return places
    ranks: dict[tuple[int, int], int] = {}
    sign = -1 if quantity in SCORED else 1
    for column in range(len(results.plan.columns)):
        known = [
            (sign * middle(place.summary, quantity), row)
            for row, line in enumerate(places)
            if (place := line[column]).summary is not None and not results.plan.rows[row].kind.needs_labels
        ]
        for number, (_, row) in enumerate(sorted(known)[:2] if len(known) > 1 else [], 1):
            ranks[row, column] = number
    return [[replace(place, rank=ranks.get((place.row, place.column))) for place in line] for line in places]


def _beats_untrained(results: Results, row: int, column: int, values: ByEncoder, name: str) -> bool | None:
    """Tell whether a row is above the better of those that nothing is trained for, on the same graph.

    The difference is paired encoder by encoder on the splits that both have; its interval must lie above zero, or,
    where there are too few encoders for one, its mean.
    """
    rows = results.plan.rows
    if not values or not rows[row].kind.trained:
        return None
    floors = [number for number, other in enumerate(rows) if not other.kind.trained and other.is_plain]
    others = [results.values(number, column, "accuracy", name) for number in floors]
    differences = [one for other in others if (one := paired(values, other, name)) is not None]
    if not differences:
        return None
    least = min(differences, key=attrgetter("mean"))  # above the better one are smaller differences
    return (least.mean if least.interval is None else least.interval.low) > 0


def _values_table(results: Results, entry: TableEntry, places: list[list[Place]]) -> Table:
    plan = results.plan
    rows = [[plan.rows[number].title, *(_text(place, entry) for place in line)] for number, line in enumerate(places)]
    shift = 0
    if entry.value == "accuracy":
        assert entry.protocol is not None
        majority = [results.majority(column, entry.protocol) for column in range(len(plan.columns))]
        if any(one is not None for one in majority):
            rows.insert(0, ["Majority", *(_NOTHING if one is None else _number(one, entry) for one in majority)])
            shift = 1
    emphasis = {
        (place.row + shift, place.column + 1): (Emphasis.BEST if place.rank == 1 else Emphasis.SECOND)
        for line in places
        for place in line
        if place.rank is not None
    }
    title = entry.title or plan.study.title or plan.study.name
    records = [_record(results, entry, place, places) for line in places for place in line]
    return Table(title, ["Method", *plan.columns], rows, records, _notes(results, entry, places), emphasis)


def _differences_table(results: Results, entry: TableEntry, places: list[list[Place]]) -> Table:
    """Return how far each row is from the reference, paired by seed."""
    assert entry.reference is not None
    plan, reference = results.plan, results.plan.row_titled(entry.reference)
    rows = []
    for number, line in enumerate(places):
        if number == reference:
            continue
        found = [_difference(entry, place, places[reference][place.column]) for place in line]
        rows.append([plan.rows[number].title, *(_signed(one, entry) for one in found)])
    note = (
        f"How far each row is from {entry.reference}, {_unit(entry.value)}, paired by seed on the splits that both "
        "have; ± half the 95 % interval over seeds, none below three."
    )
    records = [_record(results, entry, place, places) for line in places for place in line if place.row != reference]
    return Table(f"Difference from {entry.reference}", ["Method", *plan.columns], rows, records, [note])


def _difference(entry: TableEntry, place: Place, other: Place) -> Summary | None:
    assert entry.protocol is not None
    return paired(place.values, other.values, entry.protocol)


def _arranged(table: Table, entry: TableEntry) -> Table:
    """Return the table with graphs as columns, or as rows if that is wanted."""
    if entry.columns == "graphs":
        return table
    grid = [list(table.header), *map(list, table.rows)]
    turned = [list(line) for line in zip(*grid, strict=True)]
    turned[0][0] = "Graph"
    emphasis = {(column - 1, row + 1): kind for (row, column), kind in table.emphasis.items()}
    return Table(table.title, turned[0], turned[1:], table.records, table.notes, emphasis)


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
    spread = "" if half is None else f" ± {_number(half, entry)}"
    count = f" ({place.summary.n})" if place.summary.n != place.wanted else ""
    marks = "".join(f" {mark}" for mark in place.marks)
    return f"{_number(middle(place.summary, entry.value), entry)}{spread}{count}{marks}{published}"


def _signed(found: Summary | None, entry: TableEntry) -> str:
    if found is None:
        return _NOTHING
    sign = "+" if found.mean >= 0 else "−"
    spread = "" if found.half_width is None else f" ± {_number(found.half_width, entry)}"
    return f"{sign}{_number(abs(found.mean), entry)}{spread}"


def _record(results: Results, entry: TableEntry, place: Place, places: list[list[Place]]) -> dict[str, Value]:
    """Return a place for programs, in full precision; accuracies are shares, times seconds, memory bytes."""
    plan, found = results.plan, place.summary
    reference = None if entry.reference is None else places[plan.row_titled(entry.reference)][place.column]
    difference = None if reference is None or reference.row == place.row else _difference(entry, place, reference)
    printed, half = place.published or (None, None)
    scored = entry.value in SCORED
    return {
        "row": plan.rows[place.row].title,
        "method": plan.rows[place.row].method,
        "graph": plan.columns[place.column],
        "protocol": entry.protocol if scored else None,
        "value": entry.value,
        "mean": None if found is None else found.mean,
        "median": None if found is None else median(found.values),
        "low": None if found is None or found.interval is None else found.interval.low,
        "high": None if found is None or found.interval is None else found.interval.high,
        "encoders": 0 if found is None else found.n,
        "wanted": place.wanted,
        "splits": max((len(one) for one in place.values.values()), default=0) if scored else None,
        "rank": place.rank,
        "beats_untrained": place.beats_untrained,
        "marks": " ".join(place.marks),
        "published": printed,
        "published_half_width": half,
        "from_published": None if found is None or printed is None else 100 * found.mean - printed,
        "reference": entry.reference,
        "difference": None if difference is None else difference.mean,
        "difference_low": None if difference is None or difference.interval is None else difference.interval.low,
        "difference_high": None if difference is None or difference.interval is None else difference.interval.high,
        "seeds": list(place.values),
        "values": [mean(one.values()) for one in place.values.values()],
        "reasons": "; ".join(place.reasons),
    }


def _notes(results: Results, entry: TableEntry, places: list[list[Place]]) -> list[str]:
    assert entry.protocol is not None
    study, every = results.plan.study, [place for line in places for place in line]
    wanted = len(study.seeds)
    notes = [study.note] if study.note else []
    if entry.value in SCORED:
        percent = f"{100 * protocol(entry.protocol).confidence:g} %"
        # A graph may come with fewer splits than the study asks for.
        splits = max((len(one) for place in every for one in place.values.values()), default=study.splits)
        notes.append(
            f"{_CAPTIONS[entry.value]} in percent under `{entry.protocol}`, ± half its {percent} interval over "
            f"encoders, each with its mean over {_plural(splits, 'split')}; {_plural(wanted, 'encoder')}, or as "
            "many as stand in parentheses."
        )
    else:
        devices = sorted({record.device for record in results.records.values() if record.device})
        notes.append(f"{_CAPTIONS[entry.value]}, median over encoders, on {', '.join(devices) or 'nothing yet'}.")
    if entry.value == "test_maximum":
        notes.append(
            "A test maximum is chosen by looking at test labels: it is for comparison with printed ones alone."
        )
    if any(place.rank for place in every):
        notes.append("The best and the second best of a graph are set apart, among those that train without labels.")
    if any(place.beats_untrained is False for place in every):
        notes.append(
            f"{NOT_ABOVE} is not above the better of features and propagated features, for which nothing is trained."
        )
    if any(mark.isalpha() for place in every for mark in place.marks):
        notes.append(NOTE)
    if results.plan.searched is not None:
        notes.append(results.plan.searched.note())
    if any(place.published for place in every):
        notes.append("In brackets: what is printed elsewhere.")
    return notes + _reasons(results, every)


def _reasons(results: Results, places: Sequence[Place]) -> list[str]:
    """Return why places are empty, each reason once with all it is about."""
    about: dict[str, list[str]] = {}
    plan = results.plan
    for place in places:
        for reason in place.reasons:
            whole = place.column in plan.unreadable or reason in plan.unscorable.values()
            title = (
                plan.columns[place.column] if whole else f"{plan.rows[place.row].title} on {plan.columns[place.column]}"
            )
            about.setdefault(reason, []).append(title)
    return [f"{', '.join(dict.fromkeys(titles))}: {reason}" for reason, titles in about.items()]


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
