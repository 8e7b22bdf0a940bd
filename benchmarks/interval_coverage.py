"""How often does an interval of a paired difference hold the truth, and how often does a family of tests cry wolf?

Draws differences of encoders whose true mean is known, and prints for several numbers of encoders

- the share of 95 % intervals that hold it: Student's t, the percentile bootstrap, SciPy's BCa bootstrap;
- the family-wise error: of tables of equal methods, all pairs compared with Holm's correction, the share in which some
  pair is called different. 14 methods make 91 pairs.

The shapes are those of accuracies: normal; on 200 test nodes; and skewed, as where one encoder in ten diverges.

    python benchmarks/interval_coverage.py
    python benchmarks/interval_coverage.py --repetitions 2000 --families 500

The table in decision 35 was made by the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import scipy.stats

from fossil.evaluation.comparison import holm, t_p

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]
SHAPES: dict[str, Draw] = {
    "normal": lambda random, size: random.normal(scale=0.01, size=size),
    "on 200 nodes": lambda random, size: random.binomial(200, 0.8, size=size) / 200 - 0.8,
    "one in ten fails": lambda random, size: (
        random.normal(scale=0.01, size=size) - np.where(random.random(size) < 0.1, 0.1, 0.0) + 0.01
    ),
}
NUMBERS = (3, 5, 10, 20, 100)
METHODS = 14


def t_interval(samples: Any) -> tuple[Any, Any]:
    """Return the ends of Student's interval of each row."""
    n = samples.shape[1]
    reach = scipy.stats.t.ppf(0.975, n - 1) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return samples.mean(axis=1) - reach, samples.mean(axis=1) + reach


def bootstrap_interval(samples: Any, method: str, resamples: int) -> tuple[Any, Any]:
    """Return the ends of SciPy's bootstrap interval of each row."""
    if method == "BCa" and samples.shape[1] > 20:
        return t_interval(samples * np.nan)  # as many jackknife samples as values: too slow, and known to be right
    with np.errstate(all="ignore"):
        found = scipy.stats.bootstrap(
            (samples,), np.mean, axis=1, n_resamples=resamples, method=method, rng=np.random.default_rng(0), batch=100
        ).confidence_interval
    return found.low, found.high


def coverage(draw: Draw, n: int, repetitions: int, resamples: int) -> dict[str, float]:
    """Return which share of the intervals of differences of two equal methods holds zero."""
    random = np.random.default_rng(n)
    samples = draw(random, (repetitions, n)) - draw(random, (repetitions, n))
    kinds = {
        "t": t_interval(samples),
        "percentile": bootstrap_interval(samples, "percentile", resamples),
        "BCa": bootstrap_interval(samples, "BCa", resamples),
    }
    return {name: float(np.mean((low <= 0) & (high >= 0))) for name, (low, high) in kinds.items()}


def family_error(draw: Draw, n: int, families: int, resamples: int) -> dict[str, float]:
    """Return the share of tables of equal methods in which some pair is called different after Holm's correction."""
    random = np.random.default_rng(n)
    pairs = np.array(list(combinations(range(METHODS), 2)))
    wrong = {"t": 0, "percentile": 0}
    for _ in range(families):
        scores = draw(random, (METHODS, n))
        differences = scores[pairs[:, 0]] - scores[pairs[:, 1]]  # 91×n
        counts = random.multinomial(n, np.full(n, 1 / n), size=resamples)
        means = differences @ counts.T / n
        rarer = np.minimum((means <= 0).sum(1), (means >= 0).sum(1))
        p = {
            "t": np.array([t_p(row) for row in differences]),
            "percentile": np.minimum(1, 2 * (1 + rarer) / (1 + resamples)),
        }
        for name, values in p.items():
            wrong[name] += min(holm(values.tolist())) < 0.05
    return {name: count / families for name, count in wrong.items()}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=4000, help="samples for each coverage")
    parser.add_argument("--families", type=int, default=1000, help="tables for each family-wise error")
    parser.add_argument("--resamples", type=int, default=1000, help="of a bootstrap interval")
    parser.add_argument("--family-resamples", type=int, default=10_000, help="of a bootstrap p-value")
    arguments = parser.parse_args()
    print("share of 95 % intervals that hold the true difference")
    print("| differences | encoders | t | percentile bootstrap | BCa bootstrap |\n|---|---|---|---|---|")
    for name, draw in SHAPES.items():
        for n in NUMBERS:
            repetitions = arguments.repetitions // (4 if n == 100 else 1)
            found = coverage(draw, n, repetitions, arguments.resamples)
            cells = [f"{100 * value:.1f} %" if n <= 20 or key != "BCa" else "" for key, value in found.items()]
            print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)
    print(
        f"\nshare of tables of {METHODS} equal methods with some pair called different at 5 % after Holm's correction"
    )
    print("| scores | encoders | t | percentile bootstrap |\n|---|---|---|---|")
    for name, draw in SHAPES.items():
        for n in NUMBERS:
            families = arguments.families // (4 if n == 100 else 1)
            found = family_error(draw, n, families, arguments.family_resamples)
            print(f"| {name} | {n} | {' | '.join(f'{100 * value:.1f} %' for value in found.values())} |", flush=True)


if __name__ == "__main__":
    main()
