"""Scores as a table: what was reached, how sure it is, what was to be beaten, and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fossil.evaluation.rows import Row, against_the_first
from fossil.evaluation.statistics import Summary
from fossil.report.tables import Table, Value

MAJORITY = "majority class"
MARK = "†"
"""Beside the accuracy of who does not beat what nothing was trained for."""


def scores_table(rows: Sequence[Row]) -> Table:
    """Return the rows as a table: percent for people, fractions for programs."""
    optional = {
        "test maximum": any("test_maximum" in row.metrics for row in rows),
        "published": any(row.published for row in rows),
    }
    shown = [name for name, wanted in optional.items() if wanted]
    interval = f"{100 * rows[0].confidence:g} % interval"
    header = ("graph", "method", "encoders × splits", "accuracy", interval, "test set ±", "macro F1", *shown)
    cells: list[list[str]] = []
    for number, row in enumerate(rows):
        cells.append(_cells(row, shown))
        if all(later.truth != row.truth for later in rows[number + 1 :]):
            alike = [other for other in rows if other.truth == row.truth]
            cells += _untrained_cells(alike, shown) + _majority_cells(alike, len(shown))
    compared = {id(row): (other, found) for row, other, found in against_the_first(rows)}
    records = [_record(row, *compared.get(id(row), (None, None))) for row in rows]
    return Table("Scores", header, cells, records, tuple(dict.fromkeys(_notes(rows))))


def _cells(row: Row, optional: Sequence[str]) -> list[str]:
    further = {
        "test maximum": row.metrics["test_maximum"].percent() if "test_maximum" in row.metrics else "",
        "published": "" if row.published is None else f"{row.published:.2f}",
    }
    return [
        row.graph,
        row.method,
        f"{row.encoders} × {'own split' if row.supervised else row.splits}",
        f"{100 * row.accuracy.mean:.2f}{f' {MARK}' if row.beats_untrained is False else ''}",
        _interval_cell(row),
        f"{100 * row.test_half_width:.2f}",
        f"{100 * row.metrics['macro_f1'].mean:.2f}",
        *(further[name] for name in optional),
    ]


def _interval_cell(row: Row) -> str:
    found = row.accuracy
    if found.interval is None:
        values = " and ".join(f"{100 * value:.2f}" for value in found.values)
        return f"none: {values}" if found.n > 1 else "none: one value"
    low, high, kind, _ = found.interval
    low, high = max(low, 0.0), min(high, 1.0)  # few encoders near the end have an interval beyond it
    return f"{100 * low:.2f} to {100 * high:.2f}, {kind} over {found.n} {row.over}"


def _untrained_cells(rows: Sequence[Row], optional: Sequence[str]) -> list[list[str]]:
    """Return a line for each untrained method and each graph and set of splits that these rows have; mostly one."""
    own = {row.method for row in rows}
    lines: dict[tuple[str, ...], list[str]] = {}
    for beside in (beside for row in rows for beside in row.untrained if beside.method not in own):
        line = _cells(beside, optional)
        seeds = {score.seed for scores in beside.scores.values() for score in scores}
        # One encoder, whichever rows it is compared with; what varies over it are splits alone.
        line[2], line[4] = f"1 × {len(seeds)}", "none: not trained"
        lines[tuple(line)] = line
    return sorted(lines.values(), key=lambda line: line[1])


def _majority_cells(rows: Sequence[Row], further: int) -> list[list[str]]:
    """Return a line for each majority that the splits of these rows have; nearly always one."""
    found = {
        (f"{100 * row.majority['accuracy'].mean:.2f}", f"{100 * row.majority['macro_f1'].mean:.2f}"): row
        for row in rows
    }
    return [
        [row.graph, MAJORITY, "", accuracy, "", "", macro_f1, *[""] * further]
        for (accuracy, macro_f1), row in found.items()
    ]


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield from _majority_notes(row)
        yield from _untrained_notes(row)
    for row, other, found in against_the_first(rows):
        yield f"{row.method} − {other.method} on {row.graph}, paired: {_difference(found, row.over)}"
    if any(row.trained for row in rows) and not any(row.untrained for row in rows):
        yield "Features and propagated features, for which nothing is trained, were not scored; --features adds them."
    if any(row.over == "splits" and row.accuracy.n > 1 for row in rows):
        yield "The interval of a single encoder is over its splits, and says nothing about other seeds."
    yield f"Test set ±: half the {100 * rows[0].confidence:g} % binomial interval of an accuracy on so many test nodes."
    for row in rows:
        yield row.protocol


def _majority_notes(row: Row) -> Iterator[str]:
    found, to_beat = row.accuracy, row.majority["accuracy"].mean
    floor = f"that of always answering the most frequent class ({100 * to_beat:.2f} %)"
    if found.mean <= to_beat:
        yield f"{row.method} on {row.graph}: the accuracy ({100 * found.mean:.2f} %) does not beat {floor}."
    elif found.interval is not None and found.interval.low <= to_beat:
        yield f"{row.method} on {row.graph}: the interval of the accuracy reaches down to {floor}."


def _untrained_notes(row: Row) -> Iterator[str]:
    other, found = row.to_beat, None if row.to_beat is None else row.minus(row.to_beat)
    if other is None or found is None or row.beats_untrained:
        return
    reason = "the mean difference is not above zero" if found.interval is None else "that interval is not above zero"
    yield (
        f"{MARK} {row.method} on {row.graph} does not beat {other.method.lower()}, for which nothing was trained: "
        f"paired {_difference(found, row.over).removesuffix('.')}, and {reason}."
    )


def _difference(found: Summary, over: str) -> str:
    """Return a difference in words, such as "+1.20 points, 95 % t-interval over 5 encoders +0.40 to +2.00"."""
    points = f"{100 * found.mean:+.2f} points"
    if found.interval is None:
        values = ", ".join(f"{100 * value:+.2f}" for value in found.values)
        return f"{points} ({'one value' if found.n == 1 else f'two {over}: {values}'}; no interval)."
    ends = f"{100 * found.interval.low:+.2f} to {100 * found.interval.high:+.2f}"
    return f"{points}, {found.interval.describe(found.n, over)} {ends}."


def _record(row: Row, other: Row | None, difference: Summary | None) -> Mapping[str, Value]:
    return {
        "graph": row.graph,
        "method": row.method,
        "encoders": row.encoders,
        "splits": row.splits,
        "seeds": list(row.scores),
        "supervised": row.supervised,
        **_plain("accuracy", row.accuracy),
        "interval": row.accuracy.interval.kind if row.accuracy.interval else None,
        "interval_over": row.over,
        "confidence": row.confidence,
        "accuracies": row.accuracy.values,
        "test_nodes": row.test_nodes,
        "test_half_width": row.test_half_width,
        **_plain("macro_f1", row.metrics["macro_f1"]),
        **_plain("test_maximum", row.metrics.get("test_maximum")),
        "untrained": [beside.method for beside in row.untrained],
        "untrained_accuracies": [beside.accuracy.mean for beside in row.untrained],
        "beats_untrained": row.beats_untrained,
        **_plain("above_untrained", None if row.to_beat is None else row.minus(row.to_beat)),
        "majority_accuracy": row.majority["accuracy"].mean,
        "majority_macro_f1": row.majority["macro_f1"].mean,
        "published": None if row.published is None else round(row.published / 100, 6),
        "against": None if other is None else other.method,
        **_plain("difference", difference),
        "notes": [*_majority_notes(row), *_untrained_notes(row)],
        "protocol": row.protocol,
    }


def _plain(name: str, found: Summary | None) -> dict[str, float | None]:
    interval = None if found is None else found.interval
    return {
        name: None if found is None else found.mean,
        f"{name}_low": None if interval is None else interval.low,
        f"{name}_high": None if interval is None else interval.high,
    }
