"""Which methods differ on a graph, and how do they rank over graphs?

On one graph two methods are compared encoder by encoder: the same seeds, hence the same splits. Interval and p-value
follow the rule of every interval here (`fossil.evaluation.statistics`): Student's t of the differences, from 100 of
them on the paired bootstrap. A bootstrap of ten differences finds ten of one sign significant whatever their size,
which happens by chance in one case of 512; with Holm's correction over 91 pairs it would have to be one of 1,820.
`benchmarks/interval_coverage.py` measures both (decision 35).

Over graphs there are ranks. They say who is ahead more often, not by how much, and few graphs separate almost nothing.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from fossil.errors import EvaluationError
from fossil.evaluation.statistics import (
    FEWEST_FOR_AN_INTERVAL,
    FEWEST_FOR_THE_BOOTSTRAP,
    Summary,
    paired_difference,
)
from fossil.graph.graph import Array
from fossil.seeding import numpy_generator

RESAMPLES = 20_000
"""Of a paired bootstrap: enough that 91 pairs can be told apart after Holm's correction."""

_FEW_GRAPHS = 10
_NO_SPREAD = 1e-9  # of accuracies whose differences are equal but for rounding
DIGITS = 9
"""After the point, of scores that are ranked: what differs behind them differs by rounding alone."""


class Comparison(NamedTuple):
    """Two methods on one graph.

    Attributes:
        first: name of the one.
        second: name of the other.
        difference: of the first minus the second, one value for each encoder seed that both have.
        p_value: of the hypothesis that the mean difference is zero; None where fewer than three seeds are shared.
        adjusted: the same after Holm's correction over all pairs that were compared with it.
    """

    first: str
    second: str
    difference: Summary
    p_value: float | None
    adjusted: float | None

    def is_significant(self, confidence: float = 0.95) -> bool:
        """Tell whether the two differ, after the correction."""
        return self.adjusted is not None and self.adjusted < 1 - confidence


def compare_all(values: Mapping[str, Mapping[int, float]]) -> list[Comparison]:
    """Compare every two methods on one graph, paired by the seed of the encoder.

    Args:
        values: the score of each encoder by its seed, by the name of the method.

    Returns:
        The pairs, each with its difference, whose interval is not corrected for their number; its p-value; and that
        after Holm's correction.

    Raises:
        EvaluationError: two methods have no seed in common.

    >>> scores = {"a": {0: 0.80, 1: 0.81, 2: 0.79}, "b": {0: 0.70, 1: 0.72, 2: 0.69}}
    >>> [found] = compare_all(scores)
    >>> round(found.difference.mean, 3), found.is_significant()
    (0.097, True)
    """
    found = []
    for first, second in combinations(values, 2):
        shared = sorted(values[first].keys() & values[second].keys())
        if not shared:
            raise EvaluationError(
                f"{first} and {second} have no encoder seed in common.", remedy="Train both with the same seeds."
            )
        ours, theirs = ([values[name][one] for one in shared] for name in (first, second))
        difference = paired_difference(ours, theirs, resamples=RESAMPLES)
        found.append(Comparison(first, second, difference, p_of_zero(difference.values), None))
    adjusted = iter(holm([one.p_value for one in found if one.p_value is not None]))
    return [one if one.p_value is None else one._replace(adjusted=next(adjusted)) for one in found]


def p_of_zero(differences: Sequence[float], *, resamples: int = RESAMPLES) -> float | None:
    """Return the two-sided p-value of a mean of zero; None below three values.

    Student's t, from 100 values on the paired bootstrap: twice the share of resampled means on the rarer side of zero.
    The interval of the same differences (`paired_difference`) holds zero where it is above one minus the confidence,
    but for values without any spread (`t_p`), whose interval has no length.
    """
    sample = np.asarray(differences, dtype=np.float64)
    if len(sample) < FEWEST_FOR_AN_INTERVAL:
        return None
    return t_p(sample) if len(sample) < FEWEST_FOR_THE_BOOTSTRAP else bootstrap_p(sample, resamples)


def t_p(sample: Array) -> float:
    """Return the p-value of Student's t; for values without any spread that of the sign test, 2 in 2ⁿ.

    Accuracies are counts: three equal differences are no rarity, and t would be infinite.
    """
    n = len(sample)
    if np.ptp(sample) < _NO_SPREAD:
        return 1.0 if abs(sample[0]) < _NO_SPREAD else 2.0 ** (1 - n)
    t = sample.mean() / (sample.std(ddof=1) / np.sqrt(n))
    return float(2 * stdtr(n - 1, -abs(t)))


def bootstrap_p(sample: Array, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return twice the share of resampled means on the rarer side of zero, the sample itself counted among them."""
    drawn = numpy_generator(seed, "bootstrap").integers(len(sample), size=(resamples, len(sample)))
    means = sample[drawn].mean(axis=1)
    rarer = min((means <= 0).sum(), (means >= 0).sum())
    return float(min(1.0, 2 * (1 + rarer) / (1 + resamples)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down rule, in the order given.

    The least of m is multiplied by m, the next by m - 1, and so on; none becomes less than one before it. Rejecting all
    below a level errs once or more in at most that share of families, whatever their dependence.

    >>> [round(p, 6) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, stepped)
    return [float(one) for one in adjusted]


def letters(names: Sequence[str], different: Collection[tuple[str, str]]) -> dict[str, str]:
    """Return letters such that two names share one exactly where they are not known to differ.

    A compact letter display, by inserting each difference and absorbing what became redundant (Piepho 2004).

    Args:
        names: in the order of the table, the best first; `a` belongs to the first.
        different: pairs that differ significantly, in either order.

    Raises:
        EvaluationError: a pair names something else.

    >>> letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    place = {name: number for number, name in enumerate(names)}
    if strangers := {name for pair in different for name in pair} - place.keys():
        raise EvaluationError(f"{sorted(strangers)[0]!r} is compared and not in the table.", remedy="Name it too.")
    columns = [frozenset(names)] if names else []
    for first, second in different:
        split = [part for one in columns for part in _without_both(one, first, second)]
        unique = list(dict.fromkeys(split))
        columns = [one for one in unique if not any(one < other for other in unique)]
    ordered = sorted(columns, key=lambda members: sorted(place[name] for name in members))
    return {name: "".join(_letter(number) for number, one in enumerate(ordered) if name in one) for name in names}


def _without_both(members: frozenset[str], first: str, second: str) -> list[frozenset[str]]:
    """Return the group, or where it holds both of two that differ, the group without the one and without the other."""
    if first in members and second in members:
        return [members - {first}, members - {second}]
    return [members]


def _letter(number: int) -> str:
    return string.ascii_letters[number] if number < len(string.ascii_letters) else f"[{number + 1}]"


def significance_letters(values: Mapping[str, Mapping[int, float]]) -> dict[str, str]:
    """Return the letters of the methods on one graph, `a` for the group of the highest mean; see `compare_all`."""
    means = {name: float(np.mean(list(of_one.values()))) for name, of_one in values.items()}
    pairs = [(one.first, one.second) for one in compare_all(values) if one.is_significant()]
    return letters(sorted(means, key=lambda name: -means[name]), pairs)


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over graphs.

    Attributes:
        graphs: how many.
        mean: rank 1 is the best on a graph, equals share theirs; by method, the best first.
        p_value: of Friedman's test that all methods rank alike; None for two methods, which it does not take.
        critical_difference: Nemenyi's: mean ranks further apart than this differ significantly.
        confidence: of both.
        by_graph: the rank on each graph, by method.
    """

    graphs: int
    mean: Mapping[str, float]
    p_value: float | None
    critical_difference: float
    confidence: float
    by_graph: Mapping[str, Mapping[str, float]]

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The largest sets of methods, neighbours in rank, whose ranks are not further apart than that."""
        names = list(self.mean)
        reach = [
            sum(self.mean[other] - self.mean[first] <= self.critical_difference for other in names[start:])
            for start, first in enumerate(names)
        ]
        ends = [start + length for start, length in enumerate(reach)]
        spans = [(start, end) for start, end in enumerate(ends) if start == 0 or end > ends[start - 1]]
        return [tuple(names[start:end]) for start, end in spans if end - start > 1]

    @property
    def warning(self) -> str | None:
        """What must stand beside them where graphs are few for so many methods; None where they are not."""
        possible = len(self.mean) - 1
        if self.graphs >= _FEW_GRAPHS and self.critical_difference < possible / 2:
            return None
        return (
            f"{len(self.mean)} methods over {self.graphs} graphs: mean ranks must be {self.critical_difference:.1f} "
            f"apart to differ, of at most {possible}. Methods that are nearer (under one bar of the picture) are not "
            "shown to be equal; there are too few graphs to tell. A rank does not say by how much: read the "
            "differences on each graph."
        )

    @property
    def reading(self) -> str:
        """What must stand beside them in any case: the warning, or how they are read."""
        return self.warning or (
            f"{len(self.mean)} methods over {self.graphs} graphs: mean ranks more than {self.critical_difference:.1f} "
            f"apart differ significantly, of at most {len(self.mean) - 1}. Methods that are nearer (under one bar of "
            "the picture) are not shown to differ. A rank does not say by how much: read the differences on each graph."
        )


def mean_ranks(scores: Mapping[str, Mapping[str, float]], *, confidence: float = 0.95) -> Ranks:
    """Rank methods on each graph and compare their mean ranks (Friedman's test, Nemenyi's critical difference).

    Args:
        scores: the mean score by graph, by the name of the method; greater is better.
        confidence: of the test.

    Raises:
        EvaluationError: there are fewer than two methods or graphs, or a method lacks a graph.
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    names = list(scores)
    graphs = list(dict.fromkeys(graph for of_one in scores.values() for graph in of_one))
    if len(names) < 2 or len(graphs) < 2:
        raise EvaluationError(
            f"Ranks of {len(names)} methods over {len(graphs)} graphs say nothing.",
            remedy="Give at least two methods and two graphs.",
        )
    for name in names:
        if missing := [graph for graph in graphs if graph not in scores[name]]:
            raise EvaluationError(
                f"{name} has no score on {missing[0]}, so that its ranks cannot be compared.",
                remedy="Leave out the method, or the graph for all methods.",
            )
    table = np.round([[scores[name][graph] for graph in graphs] for name in names], DIGITS)  # methods × graphs
    ranks = rankdata(-table, axis=0)
    means = ranks.mean(axis=1)
    k, n = len(names), len(graphs)
    q = studentized_range.ppf(confidence, k, np.inf) / np.sqrt(2)
    alike = (table == table[:1]).all()
    p_value = None if k < 3 else 1.0 if alike else float(friedmanchisquare(*table).pvalue)
    order = np.argsort(means, kind="stable")
    return Ranks(
        graphs=n,
        mean={names[i]: float(means[i]) for i in order},
        p_value=p_value,
        critical_difference=float(q * np.sqrt(k * (k + 1) / (6 * n))),
        confidence=confidence,
        by_graph={names[i]: dict(zip(graphs, map(float, ranks[i]), strict=True)) for i in order},
    )


@dataclass(frozen=True)
class Spread:
    """How scores spread over the settings that were tried: how much a method depends on being tuned.

    Attributes:
        values: one for each setting that was tried.
        usual: of the method's own defaults; None where they were not among them.
    """

    values: tuple[float, ...]
    usual: float | None = None

    @property
    def best(self) -> float:
        """The greatest; as the greatest of many it is above what it would score again."""
        return max(self.values)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """What a quarter, half and three quarters of the settings stay below."""
        low, median, high = np.quantile(self.values, [0.25, 0.5, 0.75])
        return float(low), float(median), float(high)

    @property
    def worst(self) -> float:
        """The least."""
        return min(self.values)
