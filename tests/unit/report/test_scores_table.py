from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import scipy.stats

from fossil.evaluation.rows import Row
from fossil.evaluation.statistics import Summary, summarize
from fossil.evaluation.tasks.node_classification import SplitScore
from fossil.report.scores import MAJORITY, scores_table


def row(*accuracies: float, seeds: tuple[int, ...] | None = None, splits: int = 1, **changes: Any) -> Row:
    """A row of an encoder for each accuracy, or of one encoder and that many splits."""
    one = [
        SplitScore(seed, value, value, 1.0, value / 2, None, test_nodes=400)
        for seed, value in zip(seeds or range(len(accuracies)), accuracies, strict=True)
    ]
    base: dict[str, Any] = {
        "graph": "town",
        "method": "FOSSIL",
        "scores": {0: one} if splits > 1 else {score.seed: [score] for score in one},
        "metrics": {"accuracy": summarize(accuracies), "macro_f1": Summary(tuple(value / 2 for value in accuracies))},
        "majority": {"accuracy": Summary((0.5,)), "macro_f1": Summary((0.25,))},
        "truth": "town's",
        "features": None,
        "published": None,
        "protocol": "in words",
        "confidence": 0.95,
    }
    return Row(**(base | changes))


def cells(*rows: Row) -> list[dict[str, str]]:
    table = scores_table(rows)
    return [dict(zip(table.header, line, strict=True)) for line in table.rows]


def test_the_table_has_only_columns_with_content() -> None:
    first, majority = cells(row(0.77, 0.80, 0.83))
    assert not {"test maximum", "raw features", "published"} & first.keys()
    assert (first["accuracy"], first["macro F1"], first["encoders × splits"]) == ("80.00", "40.00", "3 × 1")
    assert first["95 % interval"] == "72.55 to 87.45, t over 3 encoders" and first["test set ±"] == "3.91"
    assert (majority["method"], majority["accuracy"], majority["macro F1"]) == (MAJORITY, "50.00", "25.00")
    full, other, *_ = cells(
        row(0.77, 0.80, 0.83, published=53.03, features=summarize([0.47, 0.50, 0.53])),
        row(0.6, graph="city", truth="c"),
    )
    assert (full["published"], full["raw features"]) == ("53.03", "50.00 ± 7.45")
    assert (other["published"], other["raw features"]) == ("", "") and "test maximum" not in full


def test_the_table_says_what_its_numbers_are() -> None:
    maxima = {"test_maximum": summarize([0.89, 0.91, 0.93], confidence=0.9)}
    plain = row(0.77, 0.80, 0.83)
    first, _ = cells(replace(plain, confidence=0.9, metrics={**plain.metrics, **maxima}, supervised=True))
    assert "90 % interval" in first and first["test maximum"] == "91.00 ± 3.37"
    assert first["encoders × splits"] == "3 × own split"


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [([0.8], "none: one value"), ([0.79, 0.81], "none: 79.00 and 81.00"), ([0.7, 0.8, 0.9], ", t over 3 splits")],
)
def test_few_values_are_not_called_an_interval(accuracies: list[float], said: str) -> None:
    assert said in cells(row(*accuracies, splits=2))[0]["95 % interval"]


def test_each_graph_has_one_majority_below_its_rows() -> None:
    rows = [row(0.8), row(0.6, graph="city", truth="city's"), row(0.7, method="DGI")]
    assert [(line["graph"], line["method"]) for line in cells(*rows)] == [
        ("town", "FOSSIL"),
        ("city", "FOSSIL"),
        ("city", MAJORITY),
        ("town", "DGI"),
        ("town", MAJORITY),
    ]


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        ([0.5], "FOSSIL on town: the accuracy (50.00 %) does not beat that of always answering"),
        ([0.4, 0.5, 0.45], "FOSSIL on town: the accuracy (45.00 %) does not beat"),
        ([0.45, 0.55, 0.6], "FOSSIL on town: the interval of the accuracy reaches down to"),
        ([0.51], None),
        ([0.79, 0.8, 0.81], None),
    ],
)
def test_who_does_not_beat_the_majority_is_told(accuracies: list[float], said: str | None) -> None:
    table = scores_table([row(*accuracies)])
    told = [note for note in table.notes if "most frequent class" in note]
    assert [said in note for note in told] == ([] if said is None else [True])
    assert table.records[0]["notes"] == told


def test_rows_are_compared_with_the_first_of_their_graph() -> None:
    first, second = row(0.77, 0.80, 0.83), row(0.80, 0.82, 0.87, method="DGI")
    table = scores_table([first, second])
    assert "DGI − FOSSIL on town, paired: +3.00 points, 95 % t-interval over 3 encoders +0.52 to +5.48." in table.notes
    assert table.records[0]["against"] is None
    record = table.records[1]
    assert record["against"] == "FOSSIL" and record["difference"] == pytest.approx(0.03)
    expected = scipy.stats.ttest_rel(second.accuracy.values, first.accuracy.values).confidence_interval(0.95)
    assert (record["difference_low"], record["difference_high"]) == pytest.approx((expected.low, expected.high))
    few = scores_table([row(0.77, 0.80), row(0.80, 0.82, method="DGI")])
    assert "DGI − FOSSIL on town, paired: +2.50 points (two encoders: +3.00, +2.00; no interval)." in few.notes
    apart = scores_table([first, row(0.80, 0.82, 0.87, method="DGI", seeds=(0, 1, 5))])
    assert not any("paired" in note for note in apart.notes) and apart.records[1]["difference"] is None


def test_records_are_fractions_in_full_precision_with_the_same_names() -> None:
    several, single = row(0.1, 0.2, 0.4, published=80.02), row(1 / 3)
    records = scores_table([several, single]).records
    assert records[0].keys() == records[1].keys()
    assert (records[0]["accuracies"], records[0]["seeds"]) == ((0.1, 0.2, 0.4), [0, 1, 2])
    assert several.accuracy.interval is not None
    assert (records[0]["accuracy_low"], records[0]["interval"]) == (several.accuracy.interval.low, "t")
    assert records[0]["published"] == 0.8002
    assert (records[1]["accuracy"], records[1]["accuracy_low"], records[1]["interval"]) == (1 / 3, None, None)


def test_an_interval_ends_where_accuracies_end() -> None:
    assert cells(row(1.0, 1.0, 0.96))[0]["95 % interval"].split(",")[0].endswith("to 100.00")
    assert cells(row(0.0, 0.01, 0.04))[0]["95 % interval"].startswith("0.00 to")
