"""Scores as the page has them."""

from __future__ import annotations

from dataclasses import replace

from test_scores_table import row

from fossil.report.score_page import describe_scores


def test_an_interval_ends_where_accuracies_end() -> None:
    high, low = row(1.0, 1.0, 0.96), row(0.0, 0.01, 0.04, graph="city", truth="c")
    first, second = (one.accuracy for one in describe_scores([high, low]).rows if one.kind == "run")
    assert high.accuracy.interval is not None and high.accuracy.interval.high > 1  # what is to be cut
    assert (first.low, first.high) == (high.accuracy.interval.low, 1.0)
    assert low.accuracy.interval is not None
    assert (second.low, second.high) == (0.0, low.accuracy.interval.high)


def test_differences_say_of_which_graph_they_are_and_may_be_below_zero() -> None:
    town = [row(0.77, 0.80, 0.83), row(0.80, 0.82, 0.87, method="DGI")]
    city = [replace(one, graph="city", truth="c") for one in reversed(town)]
    found = describe_scores([*town, *city]).differences
    assert [(each.graph, each.first, each.second) for each in found] == [
        ("town", "DGI", "FOSSIL"),
        ("city", "FOSSIL", "DGI"),
    ]
    below = found[1].difference
    assert below.low is not None and below.low < below.mean < 0
