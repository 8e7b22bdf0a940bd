from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import scipy.stats

from fossil.evaluation.rows import Row
from fossil.evaluation.statistics import Summary, summarize
from fossil.evaluation.tasks.node_classification import SplitScore
from fossil.report.scores import MAJORITY, MARK, scores_table


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
    assert not {"test maximum", "published"} & first.keys()
    assert (first["accuracy"], first["macro F1"], first["encoders × splits"]) == ("80.00", "40.00", "3 × 1")
    assert first["95 % interval"] == "72.55 to 87.45, t over 3 encoders" and first["test set ±"] == "3.91"
    assert (majority["method"], majority["accuracy"], majority["macro F1"]) == (MAJORITY, "50.00", "25.00")
    full, other, *_ = cells(
        row(0.77, 0.80, 0.83, published=53.03),
        row(0.6, graph="city", truth="c"),
    )
    assert (full["published"], other["published"]) == ("53.03", "") and "test maximum" not in full


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


def beside(*accuracies: float, method: str = "Features") -> Row:
    return row(*accuracies, method=method, trained=False)


def test_untrained_rows_stand_once_between_the_methods_and_the_majority() -> None:
    floors = (beside(0.7, 0.6, 0.8), beside(0.72, 0.62, 0.82, method="Propagated features"))
    rows = [row(0.8, 0.8, 0.9, untrained=floors), row(0.75, 0.7, 0.8, method="DGI", untrained=floors)]
    lines = cells(*rows)
    assert [line["method"] for line in lines] == ["FOSSIL", "DGI", "Features", "Propagated features", MAJORITY]
    assert lines[2]["accuracy"] == "70.00" and lines[2]["encoders × splits"] == "1 × 3"
    assert lines[2]["95 % interval"] == "none: not trained"
    # A run of its own has its own line.
    lines = cells(*rows, row(0.7, 0.6, 0.8, method="Features", trained=False))
    assert [line["method"] for line in lines].count("Features") == 1


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        ([0.8, 0.7, 0.91], None),
        ([0.9, 0.5, 0.95], "95 % t-interval over 3 encoders -33.59 to +46.26, and that interval is not above zero."),
        ([0.6, 0.5, 0.7], "-12.00 points, 95 % t-interval over 3 encoders -12.00 to -12.00, and that interval"),
        ([0.5, 0.9], "-2.00 points (two encoders: -22.00, +18.00; no interval), and the mean difference is not"),
    ],
)
def test_who_does_not_beat_the_better_untrained_row_is_marked(accuracies: list[float], said: str | None) -> None:
    count = len(accuracies)
    lower, better = [0.1, 0.2, 0.1][:count], [0.72, 0.62, 0.82][:count] if count == 3 else [0.72, 0.72]
    floors = (beside(*lower), beside(*better, method="Propagated features"))
    table = scores_table([row(*accuracies, untrained=floors)])
    told = [note for note in table.notes if "nothing was trained" in note]
    assert len(told) == (said is not None) and table.records[0]["notes"][-1:] == told
    assert table.rows[0][3].endswith(MARK) == (said is not None)
    assert table.records[0]["beats_untrained"] == (said is None)
    assert table.records[0]["untrained"] == ["Features", "Propagated features"]
    if said is not None:
        assert (
            told[0].startswith(f"{MARK} FOSSIL on town does not beat propagated features, for which")
            and said in told[0]
        )


def test_that_nobody_looked_at_untrained_rows_is_said() -> None:
    assert any("were not scored; --features adds them" in note for note in scores_table([row(0.8)]).notes)
    for looked in (row(0.8, untrained=(beside(0.7),)), row(0.8, trained=False)):
        assert not any("were not scored" in note for note in scores_table([looked]).notes)
    record = scores_table([row(0.8)]).records[0]
    assert (record["untrained"], record["beats_untrained"], record["above_untrained"]) == ([], None, None)


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
