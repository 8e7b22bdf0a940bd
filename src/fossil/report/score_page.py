"""Scores for the page: accuracies with their intervals, what is to be beaten, and who is ahead of whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fossil.evaluation.rows import Row, against_the_first
from fossil.evaluation.statistics import Summary
from fossil.report.contract import Difference, Interval, ScoreRow, Scores


def describe_scores(rows: Sequence[Row]) -> Scores:
    """Return scored rows for the page; what several rows share stands there once."""
    shown: dict[tuple[object, ...], ScoreRow] = {}
    for row in rows:
        shown[row.graph, row.method, row.truth, "run"] = _row(row, "run" if row.trained else "untrained")
    for row in rows:
        for beside in row.untrained:
            shown.setdefault((beside.graph, beside.method, beside.truth, "run"), _row(beside, "untrained"))
        key = (row.graph, "majority", row.truth, round(row.majority["accuracy"].mean, 9))
        shown.setdefault(key, _majority(row))
    return Scores(list(dict.fromkeys(row.protocol for row in rows)), list(shown.values()), list(_differences(rows)))


def _row(row: Row, kind: str) -> ScoreRow:
    return ScoreRow(
        graph=row.graph,
        method=row.method,
        kind="run" if kind == "run" else "untrained",
        accuracy=_within_bounds(_interval(row.accuracy, row.over)),
        values=list(row.accuracy.values),
        macro_f1=row.metrics["macro_f1"].mean,
        published=row.published,
        beaten=row.beats_untrained is False,
    )


def _majority(row: Row) -> ScoreRow:
    found = row.majority["accuracy"]
    accuracy = Interval(found.mean, None, None, "the most frequent class of the training nodes")
    return ScoreRow(
        row.graph,
        "majority class",
        "majority",
        accuracy,
        [],
        row.majority["macro_f1"].mean,
        published=None,
        beaten=False,
    )


def _differences(rows: Sequence[Row]) -> Iterator[Difference]:
    for row, other, found in against_the_first(rows):
        yield _difference(row, other, found)
    for row in rows:
        for beside in row.untrained:
            paired = row.minus(beside)
            if paired is not None:
                yield _difference(row, beside, paired)


def _difference(row: Row, other: Row, found: Summary) -> Difference:
    if found.interval is None:
        verdict = "too few values to tell"
    elif found.interval.low > 0:
        verdict = f"{row.method} is ahead"
    elif found.interval.high < 0:
        verdict = f"{other.method} is ahead"
    else:
        verdict = "not told apart"
    return Difference(row.graph, row.method, other.method, _interval(found, row.over), verdict)


def _within_bounds(found: Interval) -> Interval:
    """Return the interval of an accuracy: of few encoders near the end it would go beyond it."""
    if found.low is None or found.high is None:
        return found
    return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))


def _interval(found: Summary, over: str) -> Interval:
    if found.interval is None:
        return Interval(found.mean, None, None, "no interval: fewer than three values")
    low, high, *_ = found.interval
    return Interval(found.mean, low, high, found.interval.describe(found.n, over))
