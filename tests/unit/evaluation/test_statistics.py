"""Intervals against SciPy, against the binomial distribution, and against how often they hold the true mean."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from fossil.errors import EvaluationError
from fossil.evaluation.statistics import paired_difference, sampling_half_width, summarize

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

# A true mean and how to draw values around it; the second is the accuracy of encoders on 200 test nodes.
SHAPES: dict[str, tuple[float, Draw]] = {
    "normal": (0.0, lambda random, size: random.normal(size=size)),
    "accuracy": (0.8, lambda random, size: random.binomial(200, 0.8, size=size) / 200),
}


def coverage(true_mean: float, samples: np.ndarray) -> float:
    """Share of the samples, one a row, whose interval holds the true mean."""
    found = [summarize(sample).interval for sample in samples]
    return float(np.mean([one is not None and one.low <= true_mean <= one.high for one in found]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "repetitions"), [(3, 4000), (5, 4000), (10, 4000), (20, 4000), (100, 800)])
def test_the_interval_holds_the_true_mean_as_often_as_it_says(shape: str, n: int, repetitions: int) -> None:
    true_mean, draw = SHAPES[shape]
    found = coverage(true_mean, draw(np.random.default_rng(n), (repetitions, n)))
    # Three standard errors of the simulation, and half a point for the bootstrap, which is a little narrow at 100.
    tolerance = 3 * np.sqrt(0.95 * 0.05 / repetitions) + (0.005 if n == 100 else 0.0)
    assert abs(found - 0.95) < tolerance


@pytest.mark.parametrize("n", [3, 5, 20, 99])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_few_values_have_the_t_interval_of_scipy(n: int, confidence: float) -> None:
    values = np.random.default_rng(n).gamma(2.0, size=n)
    ours = summarize(values.tolist(), confidence=confidence).interval
    assert ours is not None and ours.kind == "t" and ours.confidence == confidence
    expected = scipy.stats.t.interval(confidence, n - 1, values.mean(), scipy.stats.sem(values))
    np.testing.assert_allclose((ours.low, ours.high), expected)


def test_the_bootstrap_of_zeros_and_ones_has_binomial_ends() -> None:
    ones, n = 30, 100
    summary = summarize([1.0] * ones + [0.0] * (n - ones), resamples=50_000)
    low, high = scipy.stats.binom.ppf([0.025, 0.975], n, ones / n) / n
    assert summary.mean == pytest.approx(0.3)
    assert summary.interval is not None and summary.interval.kind == "bootstrap"
    assert summary.interval.low == pytest.approx(low, abs=0.0101)
    assert summary.interval.high == pytest.approx(high, abs=0.0101)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_a_hundred_values_have_the_percentile_bootstrap_of_scipy(confidence: float) -> None:
    values = np.random.default_rng(1).gamma(2.0, size=100)
    ours = summarize(values.tolist(), resamples=20_000, confidence=confidence).interval
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=confidence, method="percentile", rng=0
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours is not None and ours.kind == "bootstrap"
    assert ours.low == pytest.approx(theirs.low, abs=0.05 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.05 * width)


def test_half_width_is_the_larger_distance_and_std_the_sample_one() -> None:
    values = np.random.default_rng(3).gamma(0.5, size=120).tolist()
    summary = summarize(values)
    assert summary.interval is not None
    low, high = summary.interval.low, summary.interval.high
    assert summary.half_width == max(summary.mean - low, high - summary.mean)
    assert low < summary.mean < high and summary.mean - low != pytest.approx(high - summary.mean, rel=1e-3)
    assert summary.std == pytest.approx(np.std(values, ddof=1))
    assert (summary.n, summary.values) == (120, tuple(values))


def test_two_values_have_a_standard_deviation() -> None:
    assert summarize([0.1, 0.4]).std == pytest.approx(0.3 / 2**0.5)


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    values = np.random.default_rng(0).random(100).tolist()
    assert summarize(values) == summarize(values)
    assert summarize(values).interval != summarize(values, seed=1).interval


@pytest.mark.parametrize(
    ("values", "said"), [([0.7], "0.7000 (one value)"), ([0.7, 0.8], "0.7500 (two values: 0.7000, 0.8000)")]
)
def test_one_or_two_values_have_no_interval(values: list[float], said: str) -> None:
    summary = summarize(values)
    assert (summary.interval, summary.half_width) == (None, None)
    assert str(summary) == said and "±" not in summary.percent()


def test_equal_values_have_an_interval_of_no_width() -> None:
    summary = summarize([0.1] * 7)
    assert summary.interval is not None
    assert summary.interval.low == summary.mean == summary.interval.high == 0.1


def test_an_interval_says_what_it_is_and_over_what() -> None:
    few, many = summarize([0.1, 0.2, 0.4], confidence=0.9), summarize(np.arange(100) / 100)
    assert few.interval is not None and many.interval is not None
    assert few.interval.describe(3, "encoders") == "90 % t-interval over 3 encoders"
    assert many.interval.describe(100, "encoders") == "95 % bootstrap interval over 100 encoders"


def test_pairing_removes_what_both_share() -> None:
    generator = np.random.default_rng(2)
    shared = generator.normal(size=50)
    a, b = shared + 0.1 + 0.01 * generator.normal(size=50), shared
    difference = paired_difference(a.tolist(), b.tolist())
    assert difference.mean == pytest.approx(a.mean() - b.mean())
    theirs = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    assert difference.interval is not None
    np.testing.assert_allclose(difference.interval[:2], (theirs.low, theirs.high))
    assert difference.half_width is not None
    assert difference.half_width < (summarize(a.tolist()).half_width or 0) / 10


@pytest.mark.parametrize(("right", "test_nodes"), [(323, 400), (0, 12), (12, 12)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_error_of_a_test_set_is_that_of_the_binomial_distribution(
    right: int, test_nodes: int, confidence: float
) -> None:
    theirs = scipy.stats.binomtest(right, test_nodes).proportion_ci(confidence, method="wilson")
    expected = (theirs.high - theirs.low) / 2
    assert sampling_half_width(right / test_nodes, test_nodes, confidence) == pytest.approx(expected)


def test_impossible_input_is_refused() -> None:
    with pytest.raises(EvaluationError, match="no scores"):
        summarize([])
    with pytest.raises(EvaluationError, match="NaN"):
        summarize([0.1, float("nan")])
    with pytest.raises(EvaluationError, match="confidence"):
        summarize([0.1, 0.2], confidence=1.0)
    with pytest.raises(EvaluationError, match="paired"):
        paired_difference([0.1], [0.1, 0.2])
