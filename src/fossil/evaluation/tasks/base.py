"""The contract of a task: what vectors are scored by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from fossil.graph.graph import Array, Graph
from fossil.graph.splits import TrainingSplit
from fossil.progress import Progress, silent


class Metric(NamedTuple):
    """A number that a task reports.

    Attributes:
        name: attribute of a score that holds it.
        title: heading in tables.
        higher_is_better: its direction.
        fair: whether it was found without looking at what is tested on; one that was not is for comparison alone.
    """

    name: str
    title: str
    higher_is_better: bool = True
    fair: bool = True


class Score(Protocol):
    """The metrics of one embedding on one split, as attributes; None where a metric was not asked for."""

    @property
    def seed(self) -> int:
        """Of the split."""


class Task(ABC):
    """Something to score vectors by.

    Class attributes:
        name: of the task.
        metrics: what it reports; the first is what methods are compared by.
        version: raised whenever a change moves the scores of equal vectors, so that a study scores them anew.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    metrics: ClassVar[tuple[Metric, ...]]

    @abstractmethod
    def check(self, graph: Graph) -> None:
        """Raise EvaluationError, with the reason and a remedy, where the graph has not what the task needs."""

    @abstractmethod
    def score(
        self,
        vectors: Array,
        graph: Graph,
        seeds: Sequence[int],
        *,
        trained_on: TrainingSplit | None = None,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> Sequence[Score]:
        """Score vectors (N×D) of a graph's nodes, on one split per seed.

        Args:
            vectors: one row for each node.
            graph: the graph, labels included.
            seeds: of the splits.
            trained_on: the split whose labels made the vectors; None for vectors that no label made.
            device: where to compute.
            progress: told which share of the work is done.

        Raises:
            EvaluationError: vectors and graph do not fit, a value is not finite, or a split cannot be drawn.
        """

    @abstractmethod
    def baseline(self, graph: Graph, seeds: Sequence[int]) -> Sequence[Score]:
        """Score what knows the training labels and nothing of the nodes, on the same splits: what is to be beaten.

        Raises:
            EvaluationError: a split cannot be drawn.
        """

    @abstractmethod
    def describe(self, graph: Graph, *, seed: int | None = None, trained_on: TrainingSplit | None = None) -> str:
        """Return the paragraph that belongs beside every number; with `seed` the sizes of that split are given."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain values that say how a score came about, for the record."""
