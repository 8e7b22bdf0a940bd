"""The bootstrap interval against SciPy and against the binomial distribution."""

import numpy as np
import pytest
import scipy.stats

from fossil.errors import EvaluationError
from fossil.evaluation.statistics import paired_difference, summarize


def test_interval_of_zeros_and_ones_has_binomial_ends():
    ones, n = 30, 100
    summary = summarize([1.0] * ones + [0.0] * (n - ones), resamples=50_000)
    low, high = scipy.stats.binom.ppf([0.025, 0.975], n, ones / n) / n
    assert summary.mean == pytest.approx(0.3)
    assert summary.low == pytest.approx(low, abs=0.0101)
    assert summary.high == pytest.approx(high, abs=0.0101)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_interval_agrees_with_scipy(confidence):
    values = np.random.default_rng(1).gamma(2.0, size=60)
    ours = summarize(values.tolist(), resamples=20_000, confidence=confidence)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=confidence, method="percentile", rng=0
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.05 * width)


def test_half_width_is_the_larger_distance_and_std_the_sample_one():
    values = [0.1, 0.2, 0.2, 0.9]
    summary = summarize(values)
    assert summary.half_width == max(summary.mean - summary.low, summary.high - summary.mean)
    assert summary.low < summary.mean < summary.high
    assert summary.std == pytest.approx(np.std(values, ddof=1))
    assert (summary.n, summary.values) == (4, tuple(values))


def test_the_same_seed_gives_the_same_interval_and_another_does_not():
    values = np.random.default_rng(0).random(40).tolist()
    assert summarize(values) == summarize(values)
    assert summarize(values).low != summarize(values, seed=1).low


def test_one_value_has_no_interval():
    summary = summarize([0.7])
    assert not summary.has_interval
    assert (summary.mean, summary.low, summary.high, summary.half_width, summary.std) == (0.7, 0.7, 0.7, 0.0, 0.0)
    assert "no interval" in str(summary)


def test_equal_values_have_an_interval_of_no_width():
    summary = summarize([0.1] * 7)
    assert summary.has_interval
    assert summary.low == summary.mean == summary.high == 0.1


def test_pairing_removes_what_both_share():
    generator = np.random.default_rng(2)
    shared = generator.normal(size=50)
    a, b = shared + 0.1 + 0.01 * generator.normal(size=50), shared
    difference = paired_difference(a.tolist(), b.tolist())
    assert difference.mean == pytest.approx(a.mean() - b.mean())
    assert 0.09 < difference.low < difference.high < 0.11
    assert difference.half_width < summarize(a.tolist()).half_width / 10


def test_impossible_input_is_refused():
    with pytest.raises(EvaluationError, match="no scores"):
        summarize([])
    with pytest.raises(EvaluationError, match="NaN"):
        summarize([0.1, float("nan")])
    with pytest.raises(EvaluationError, match="confidence"):
        summarize([0.1, 0.2], confidence=1.0)
    with pytest.raises(EvaluationError, match="paired"):
        paired_difference([0.1], [0.1, 0.2])
