"""Comparisons of methods against SciPy, Demšar's worked example, networkx's cliques, and how often they cry wolf."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from fossil.errors import EvaluationError
from fossil.evaluation.comparison import (
    Ranks,
    Spread,
    bootstrap_p,
    compare_all,
    holm,
    letters,
    mean_ranks,
    p_of_zero,
    significance_letters,
)
from fossil.evaluation.statistics import paired_difference


def by_seed(values: object) -> dict[int, float]:
    return dict(enumerate(np.asarray(values, dtype=float).tolist()))


# One pair.


@pytest.mark.parametrize("n", [3, 5, 10, 99])
def test_few_differences_have_the_p_value_of_scipys_paired_t_test(n: int) -> None:
    random = np.random.default_rng(n)
    a, b = random.normal(0.8, 0.02, size=(2, n))
    assert p_of_zero((a - b).tolist()) == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue)


def test_a_hundred_differences_have_the_p_value_that_scipys_bootstrap_turns_at() -> None:
    differences = np.random.default_rng(2).gamma(2.0, size=120) - 1.75
    p = p_of_zero(differences.tolist(), resamples=40_000)
    assert p is not None and 0.01 < p < 0.5
    # The percentile interval of confidence 1 - p is the one that just touches zero.
    for factor, holds_zero in ((0.8, True), (1.25, False)):
        found = scipy.stats.bootstrap(
            (differences,), np.mean, confidence_level=1 - factor * p, n_resamples=40_000, method="percentile", rng=3
        ).confidence_interval
        assert (found.low <= 0 <= found.high) == holds_zero


@pytest.mark.parametrize("n", [10, 150])
def test_interval_and_p_value_agree_about_zero(n: int) -> None:
    random = np.random.default_rng(n)
    for shift in np.linspace(-0.5, 0.5, 21):
        differences = (random.normal(size=n) + shift * 4 / np.sqrt(n)).tolist()
        interval = paired_difference(differences, [0.0] * n, resamples=20_000).interval
        p = p_of_zero(differences)
        assert interval is not None and p is not None
        if abs(p - 0.05) > 0.003:  # two counts of one resampling round differently at the edge
            assert (interval.low <= 0 <= interval.high) == (p > 0.05)


def test_differences_without_spread_have_the_p_value_of_the_sign_test() -> None:
    assert p_of_zero([0.3 - 0.2, 0.1, 0.4 - 0.3]) == pytest.approx(scipy.stats.binomtest(3, 3).pvalue)
    assert p_of_zero([0.0] * 5) == 1.0
    assert p_of_zero([0.1, 0.2]) is None


def test_pairs_share_the_seeds_that_both_have() -> None:
    scores = {"a": {0: 0.5, 1: 0.6, 2: 0.7, 9: 0.9}, "b": {2: 0.4, 1: 0.5, 0: 0.3}}
    [found] = compare_all(scores)
    assert found.difference.values == pytest.approx((0.2, 0.1, 0.3))
    with pytest.raises(EvaluationError, match="no encoder seed in common"):
        compare_all({"a": {0: 0.5}, "b": {1: 0.5}})
    [unknown] = compare_all({"a": {0: 0.9, 1: 0.9}, "b": {0: 0.1, 1: 0.1}})
    assert unknown.adjusted is None and not unknown.is_significant()


# Holm's correction: an example worked by hand, and what Bonferroni's would not find.


def test_holm_by_hand() -> None:
    # 4 values: 0.005·4, 0.011·3, then 0.02·2 = 0.04, and 0.04·1 = 0.04 (not below the one before it).
    assert holm([0.04, 0.005, 0.02, 0.011]) == pytest.approx([0.04, 0.02, 0.04, 0.033])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_no_correction_and_bonferroni_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(one <= found <= min(1, len(p) * one) + 1e-12 for one, found in zip(p, adjusted, strict=True))
    assert all((a <= b) or (x >= y) for a, x in zip(p, adjusted, strict=True) for b, y in zip(p, adjusted, strict=True))


# Letters.


def test_letters_by_hand() -> None:
    # A textbook case: the ends differ from each other, neighbours do not.
    assert letters(["w", "x", "y", "z"], [("w", "y"), ("w", "z"), ("z", "x")]) == {
        "w": "a", "x": "ab", "y": "bc", "z": "c",
    }  # fmt: skip
    assert letters(["x", "y"], []) == {"x": "a", "y": "a"}
    assert letters([], []) == {}
    with pytest.raises(EvaluationError, match="'q'"):
        letters(["x"], [("x", "q")])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], set[tuple[str, str]]]:
    names = [f"m{i}" for i in range(draw(st.integers(1, 9)))]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    chosen = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    turned = draw(st.booleans())
    return names, {(b, a) if turned else (a, b) for a, b in chosen}


@given(tables())
@settings(deadline=None)
def test_two_share_a_letter_exactly_where_they_do_not_differ(table: tuple[list[str], set[tuple[str, str]]]) -> None:
    names, different = table
    found = letters(names, different)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            differ = (a, b) in different or (b, a) in different
            assert bool(set(found[a]) & set(found[b])) != differ
    # No letter too many: each is a largest set of names that do not differ, and each such set has one.
    alike = networkx.complete_graph(names)
    alike.remove_edges_from(different)
    groups = {frozenset(name for name in names if letter in found[name]) for letter in "".join(found.values())}
    assert groups == set(map(frozenset, networkx.find_cliques(alike)))
    assert found[names[0]].startswith("a")


def test_letters_of_scores_begin_at_the_highest_mean() -> None:
    random = np.random.default_rng(0)
    noise = random.normal(scale=0.002, size=(4, 10))
    scores = {name: by_seed(level + row) for name, level, row in zip("wxyz", (0.5, 0.8, 0.8, 0.7), noise, strict=True)}
    assert significance_letters(scores) == {"x": "a", "y": "a", "z": "b", "w": "c"}


# How often a table of equal methods has a difference in it that is not there.


def test_a_family_of_equal_methods_errs_no_more_often_than_it_says_and_a_bootstrap_of_ten_would() -> None:
    random, wrong, wrong_by_bootstrap, families = np.random.default_rng(0), 0, 0, 200
    for _ in range(families):
        scores = random.normal(0.8, 0.01, size=(8, 10))
        compared = compare_all({str(i): by_seed(row) for i, row in enumerate(scores)})
        wrong += any(one.is_significant() for one in compared)
        resampled = [bootstrap_p(np.array(one.difference.values), 2000) for one in compared]
        wrong_by_bootstrap += min(holm(resampled)) < 0.05
    limit = families * 0.05 + 3 * np.sqrt(families * 0.05 * 0.95)
    assert wrong <= limit
    assert wrong_by_bootstrap > 2 * limit


# Ranks: values whose mean ranks are those of the example of Demšar (JMLR 2006), four classifiers on fourteen data sets.

DEMSAR = {
    "C4.5": [0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957],
    "C4.5+m": [0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978],
    "C4.5+cf": [0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609, 0.563, 0.866, 1.000, 0.965, 0.614, 0.9751, 0.946],
    "C4.5+m+cf": [0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685, 0.625, 0.875, 1.000, 0.962, 0.669, 0.975, 0.970],
}


def test_mean_ranks_of_demsars_example() -> None:
    scores = {name: {str(i): value for i, value in enumerate(values)} for name, values in DEMSAR.items()}
    found = mean_ranks(scores)
    assert found.mean == pytest.approx({"C4.5": 3.143, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}, abs=5e-4)
    assert next(iter(found.mean)) == "C4.5+m+cf" and found.graphs == 14
    # χ² = 9.28 in the paper, which does not correct for ties; SciPy does.
    assert found.p_value == pytest.approx(scipy.stats.friedmanchisquare(*DEMSAR.values()).pvalue)
    assert found.critical_difference == pytest.approx(1.25, abs=0.005)
    assert found.warning is None
    # "The post-hoc test is not powerful enough"; at 90 % C4.5 is worse than the two best.
    assert found.groups == [("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")]
    looser = mean_ranks(scores, confidence=0.9)
    assert looser.critical_difference == pytest.approx(1.12, abs=0.005)
    assert looser.groups == [("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5")]


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_demsars_table(k: int, q: float) -> None:
    scores = {str(i): {"g": float(i), "h": float(i)} for i in range(k)}
    assert mean_ranks(scores).critical_difference == pytest.approx(q * np.sqrt(k * (k + 1) / 12), abs=2e-3 * k)


def test_what_differs_by_rounding_alone_shares_its_rank() -> None:
    scores = {"a": {"g": 0.1 + 0.2, "h": 0.5}, "b": {"g": 0.3, "h": 0.4}, "c": {"g": 0.2, "h": 0.3}}
    assert scores["a"]["g"] != scores["b"]["g"]
    assert mean_ranks(scores).by_graph == {"a": {"g": 1.5, "h": 1}, "b": {"g": 1.5, "h": 2}, "c": {"g": 3, "h": 3}}


def test_few_graphs_are_warned_of() -> None:
    scores = {f"m{i}": {f"g{j}": i + 0.1 * j for j in range(7)} for i in range(14)}
    found = mean_ranks(scores)
    assert found.warning is not None and "14 methods over 7 graphs" in found.warning
    assert "7.5 apart" in found.warning and found.reading == found.warning


def test_many_graphs_are_told_how_to_read_them() -> None:
    scores = {f"m{i}": {f"g{j}": i + 0.1 * j for j in range(60)} for i in range(4)}
    found = mean_ranks(scores)
    assert found.warning is None and "few" not in found.reading
    apart = f"4 methods over 60 graphs: mean ranks more than {found.critical_difference:.1f} apart differ"
    assert found.reading.startswith(apart)


def test_ranks_refuse_holes_and_nothing_to_rank() -> None:
    with pytest.raises(EvaluationError, match="b has no score on h"):
        mean_ranks({"a": {"g": 1.0, "h": 1.0}, "b": {"g": 1.0}})
    with pytest.raises(EvaluationError, match="1 methods over 2 graphs"):
        mean_ranks({"a": {"g": 1.0, "h": 1.0}})
    equal = mean_ranks({name: {"g": 0.5, "h": 0.5} for name in "abc"})
    assert equal.p_value == 1.0 and set(equal.mean.values()) == {2.0}
    two = mean_ranks({"a": {"g": 1.0, "h": 1.0}, "b": {"g": 0.0, "h": 0.0}})
    assert two.p_value is None and isinstance(two, Ranks)


def test_the_spread_over_settings() -> None:
    values = (0.5, 0.7, 0.8, 0.6, 0.9)
    spread = Spread(values, usual=0.7)
    assert (spread.best, spread.worst) == (0.9, 0.5)
    assert spread.quartiles == pytest.approx(tuple(np.percentile(values, [25, 50, 75])))
