"""A row of a table of scores: one method on one graph, and how two rows compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import TypeAlias

from fossil.evaluation.statistics import Summary, paired_difference, sampling_half_width
from fossil.evaluation.tasks.node_classification import SplitScore

ByEncoder: TypeAlias = Mapping[int, Sequence[SplitScore]]
"""The scores of each encoder, by its seed, a score for each split."""


@dataclass(frozen=True)
class Row:
    """The scores of one method on one graph.

    Attributes:
        graph: name of the graph.
        method: title of the method, with what sets these runs apart from its defaults on this graph.
        scores: every raw score, by the seed of the encoder.
        metrics: the task's metrics by name, `accuracy` first, selected on validation nodes; the interval is over
            encoders, over splits if there is one encoder. `test_maximum` is the optimistic figure, where the protocol
            has it.
        majority: the same metrics of the answer that is always the most frequent training class, on the same splits.
        truth: digest of node ids, labels and published splits, if these are taken, and how many nodes of each class
            train; rows that have it in common draw the same splits.
        published: figure printed in the paper for exactly these settings, or None.
        protocol: how all this came about, in words.
        confidence: of the intervals.
        supervised: whether each run was trained on labels, and is scored on the one split they come from.
        trained: whether anything was trained for these vectors.
        untrained: features and propagated features of the same graph on the same splits, under the seeds of this
            row's encoders; empty where they were not looked at.
    """

    graph: str
    method: str
    scores: ByEncoder
    metrics: Mapping[str, Summary]
    majority: Mapping[str, Summary]
    truth: str = field(repr=False)
    published: float | None
    protocol: str = field(repr=False)
    confidence: float
    supervised: bool = False
    trained: bool = True
    untrained: tuple[Row, ...] = ()

    @property
    def accuracy(self) -> Summary:
        """What methods are compared by."""
        return self.metrics["accuracy"]

    @property
    def encoders(self) -> int:
        """Number of encoders, each trained with a seed of its own."""
        return len(self.scores)

    @property
    def splits(self) -> int:
        """Splits per encoder."""
        return len(next(iter(self.scores.values())))

    @property
    def over(self) -> str:
        """What the values of a metric are one each of, and an interval is over: `encoders` or `splits`."""
        return "encoders" if self.encoders > 1 or self.supervised else "splits"

    @property
    def test_nodes(self) -> int:
        """How many test nodes all its splits share; those of the first where each published one has its own."""
        return next(iter(self.scores.values()))[0].test_nodes

    @property
    def test_half_width(self) -> float:
        """How far another draw of the test nodes would move the accuracy; no interval over encoders includes it."""
        return sampling_half_width(self.accuracy.mean, self.test_nodes, self.confidence)

    def minus(self, other: Row) -> Summary | None:
        """Return the paired difference in accuracy; None where the two do not share nodes, encoder seeds and splits."""
        if self.truth != other.truth or self._pairing != other._pairing:
            return None
        ours, theirs = ([value for seed in sorted(row.scores) for value in row._values(seed)] for row in (self, other))
        return paired_difference(ours, theirs, confidence=self.confidence)

    @property
    def to_beat(self) -> Row | None:
        """The better of the untrained rows; None where there are none."""
        return max(self.untrained, key=lambda row: row.accuracy.mean, default=None)

    @property
    def beats_untrained(self) -> bool | None:
        """Whether it is above the better of the untrained rows; None where there are none.

        The difference is paired split by split, or encoder by encoder. Where there are enough values for an interval,
        it must lie above zero; else the mean must.
        """
        found = None if self.to_beat is None else self.minus(self.to_beat)
        if found is None:
            return None
        return (found.mean if found.interval is None else found.interval.low) > 0

    @property
    def _pairing(self) -> dict[int, list[int]]:
        return {seed: [score.seed for score in scores] for seed, scores in self.scores.items()}

    def _values(self, seed: int) -> list[float]:
        """Return what one encoder adds to the accuracies: its mean, or each of its splits where it is the only one."""
        found = [score.accuracy for score in self.scores[seed]]
        return found if self.encoders == 1 else [mean(found)]


def against_the_first(rows: Sequence[Row]) -> list[tuple[Row, Row, Summary]]:
    """Return each row, the first one on the same nodes, and the paired difference, where the two can be paired."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.truth, row)
    pairs = [(row, first[row.truth]) for row in rows if first[row.truth] is not row]
    return [(row, other, found) for row, other in pairs if (found := row.minus(other)) is not None]
