"""The mean over splits and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fossil.errors import EvaluationError
from fossil.seeding import numpy_generator


@dataclass(frozen=True)
class Summary:
    """A mean with its bootstrap interval and every value behind it.

    Attributes:
        mean: arithmetic mean of `values`.
        low: lower end of the interval; equals `mean` when there is a single value.
        high: upper end of the interval; equals `mean` when there is a single value.
        half_width: the larger distance from the mean to an end, the number the paper prints after ±.
        std: sample standard deviation of the values (0 for a single value).
        n: number of values.
        values: the values, in the order given.
    """

    mean: float
    low: float
    high: float
    half_width: float
    std: float
    n: int
    values: tuple[float, ...]

    @property
    def has_interval(self) -> bool:
        """Whether there were enough values for an interval at all."""
        return self.n > 1

    def __str__(self) -> str:
        if not self.has_interval:
            return f"{self.mean:.4f} (one value, no interval)"
        return f"{self.mean:.4f} ± {self.half_width:.4f} (n = {self.n})"


def summarize(values: Sequence[float], *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0) -> Summary:
    """Summarise `values` by their mean and its bootstrap percentile interval.

    Args:
        values: one number per split.
        resamples: how many times the values are drawn anew, with replacement.
        confidence: share of resampled means inside the interval.
        seed: of the resampling; the same seed gives the same interval.

    Raises:
        EvaluationError: there is no value, one is not finite, or a parameter is out of range.

    >>> summarize([0.8, 0.8, 0.8]).half_width
    0.0
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise EvaluationError(
            f"confidence={confidence} with resamples={resamples} is not accepted.",
            remedy="Use a confidence between 0 and 1 and at least one resample.",
        )
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) == 0:
        raise EvaluationError("There are no scores to summarise.", remedy="Score at least one split.")
    if not np.isfinite(sample).all():
        raise EvaluationError("A score is NaN or infinite.", remedy="Look at the embedding it comes from.")
    # The offset keeps the means of equal values exactly equal, whatever the order of summation.
    offset = sample[0]
    centred = sample - offset
    mean, n = float(offset + centred.mean()), len(sample)
    low = high = mean
    if n > 1:
        drawn = numpy_generator(seed, "bootstrap").integers(n, size=(resamples, n))
        tail = (1 - confidence) / 2
        low, high = (float(offset + end) for end in np.quantile(centred[drawn].mean(axis=1), [tail, 1 - tail]))
    return Summary(
        mean=mean,
        low=low,
        high=high,
        half_width=max(abs(mean - low), abs(high - mean)),
        std=float(centred.std(ddof=1)) if n > 1 else 0.0,
        n=n,
        values=tuple(sample.tolist()),
    )


def paired_difference(
    a: Sequence[float], b: Sequence[float], *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Summary:
    """Summarise `a - b`, score by score, for two embeddings scored on the same splits in the same order.

    An interval that does not contain 0 says that one embedding is better on these splits.

    Raises:
        EvaluationError: the two do not have the same number of scores.
    """
    if len(a) != len(b):
        raise EvaluationError(
            f"{len(a)} scores cannot be paired with {len(b)}.", remedy="Score both embeddings on the same splits."
        )
    differences = [first - second for first, second in zip(a, b, strict=True)]
    return summarize(differences, resamples=resamples, confidence=confidence, seed=seed)
