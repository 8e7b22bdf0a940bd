"""Can a linear model tell the classes of nodes from their vectors?

A probe is fitted on the training nodes of a split, its strength or its number of steps is chosen on the validation
nodes, and what counts is its accuracy on the test nodes. A method that was trained on labels needs no probe: its own
class scores are counted, on the test nodes of the split it was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fossil.datasets.catalog import known_name
from fossil.errors import EvaluationError
from fossil.evaluation.leaks import refuse_leaks
from fossil.evaluation.probes.fitting import fitted
from fossil.evaluation.protocol import PROTOCOLS, Protocol, refuse_missing_splits
from fossil.evaluation.tasks.base import Metric, Task
from fossil.graph.graph import Array, Graph
from fossil.graph.splits import NOTHING_PUBLISHED, Split, TrainingSplit
from fossil.progress import Progress, silent


@dataclass(frozen=True)
class SplitScore:
    """The score of one embedding on one split.

    Attributes:
        seed: of the split.
        accuracy: on test nodes, under the candidate chosen on validation nodes.
        validation_accuracy: of that candidate.
        chosen: its strength C, or its number of training steps; None where nothing was to be chosen.
        macro_f1: on test nodes, under that candidate.
        test_maximum: best test accuracy over all candidates, where the protocol is `optimistic`; not a fair score.
        test_nodes: how many were counted.
    """

    seed: int
    accuracy: float
    validation_accuracy: float
    chosen: float | None
    macro_f1: float
    test_maximum: float | None
    test_nodes: int


class NodeClassification(Task):
    """Accuracy of a linear probe on the classes of nodes.

    Args:
        protocol: how to split, fit and choose.
    """

    name = "node_classification"
    metrics = (
        Metric("accuracy", "accuracy"),
        Metric("macro_f1", "macro F1"),
        Metric("test_maximum", "test maximum", fair=False),
    )

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol

    def check(self, graph: Graph) -> None:
        """Raise EvaluationError unless nodes have one class each, known or not, that no feature gives away.

        So it does where the protocol takes splits that the graph does not have.
        """
        labels = class_numbers(graph)
        refuse_missing_splits(graph, self.protocol)
        refuse_leaks(graph, labels)

    def can_score(self, graph: Graph, seed: int) -> bool:
        """Tell whether the graph has the labels that a split with this seed needs."""
        try:
            self.protocol.draw(class_numbers(graph), seed, known_name(graph), graph.published_splits)
        except EvaluationError:
            return False
        return True

    def score(
        self,
        vectors: Array,
        graph: Graph,
        seeds: Sequence[int],
        *,
        trained_on: TrainingSplit | None = None,
        device: str = "cpu",
        progress: Progress = silent,
    ) -> list[SplitScore]:
        """Score vectors by a probe, on one split per seed; a method that was trained on labels by itself, on its split.

        Raises:
            EvaluationError: the vectors were trained on another split than the protocol would score them on, or as in
                `score`.
        """
        self.check(graph)
        labels, known = class_numbers(graph), known_name(graph)
        if trained_on is None:
            return score(
                vectors,
                labels,
                self.protocol,
                graph_name=known,
                seeds=seeds,
                published=graph.published_splits,
                device=device,
                progress=progress,
            )
        asked = self.protocol.rule(known)
        if trained_on.rule != asked:
            usual, count = PROTOCOLS[trained_on.rule.name].rule(known), trained_on.rule.nodes_per_class
            per_class = "" if trained_on.rule == usual or count is None else f" --nodes-per-class {count}"
            raise EvaluationError(
                f"This run was trained on labels of another split than protocol {self.protocol.name!r} scores it on. "
                f"Trained: {trained_on.rule.describe()} Asked for: {asked.describe()}",
                remedy=f"Score it with --protocol {trained_on.rule.name}{per_class}, or train it anew with --set "
                "split=RULE and --set nodes_per_class=N.",
            )
        number = trained_on.rule.number(trained_on.seed, graph.published_splits)
        scores = [score_classes(vectors, labels, trained_on.draw(labels, graph.published_splits), number)]
        progress(1.0)
        return scores

    def baseline(self, graph: Graph, seeds: Sequence[int]) -> list[SplitScore]:
        """Score the answer that is always the most frequent class of the training nodes, the first of equals."""
        labels, known = class_numbers(graph), known_name(graph)
        scores = []
        for seed in seeds:
            split = self.protocol.draw(labels, seed, known, graph.published_splits)
            majority = np.bincount(labels[split.train]).argmax()
            scores.append(_score_answers(np.full(len(labels), majority), labels, split, seed))
        return scores

    def describe(self, graph: Graph, *, seed: int | None = None, trained_on: TrainingSplit | None = None) -> str:
        """Return how the numbers came about."""
        known = known_name(graph)
        split = None
        if seed is not None:
            split = self.protocol.draw(class_numbers(graph), seed, known, graph.published_splits)
        return self.protocol.describe(known, split, supervised=trained_on is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return the protocol as plain values."""
        return self.protocol.model_dump()


def class_numbers(graph: Graph) -> Array:
    """Return the class of each node, -1 where it is unknown.

    Raises:
        EvaluationError: the graph has no labels, or several binary tasks.
    """
    if graph.labels is None:
        raise EvaluationError(
            f"{graph.name} has no labels to score against.",
            remedy="Embed again with --label COLUMN; where that column was no feature, --resume trains nothing anew.",
        )
    if graph.labels.ndim == 2:
        raise EvaluationError(
            f"{graph.name} has {graph.labels.shape[1]} binary tasks; accuracy needs one class per node.",
            remedy="Score its embeddings.npz with a metric for such tasks.",
        )
    return graph.labels


def score(
    embedding: Array,
    labels: Array,
    protocol: Protocol,
    *,
    graph_name: str,
    seeds: Sequence[int],
    published: Mapping[str, Array] = NOTHING_PUBLISHED,
    device: str = "cpu",
    progress: Progress = silent,
) -> list[SplitScore]:
    """Score an embedding on one split per seed.

    Args:
        embedding: N×D.
        labels: N class numbers, -1 where unknown.
        protocol: how to split, fit and choose.
        graph_name: decides whether training takes a fixed number of nodes per class.
        seeds: one split each.
        published: the splits that come with the graph (`Graph.published_splits`).
        device: where the probes are fitted.
        progress: told which share of the work is done.

    Raises:
        EvaluationError: embedding and labels do not fit, a value is not finite, or a split cannot be drawn.
    """
    rule = protocol.rule(graph_name)
    seeds = [rule.number(seed, published) for seed in seeds]
    _check(embedding, labels, seeds)
    splits = [(seed, protocol.draw(labels, seed, graph_name, published)) for seed in seeds]
    return [
        _score_split(seed, split, labels, candidates, predicted, protocol.optimistic)
        for seed, split, candidates, predicted in fitted(embedding, labels, splits, protocol, device, progress)
    ]


def validation_accuracies(
    embedding: Array,
    labels: Array,
    splits: Sequence[tuple[int, Split]],
    protocol: Protocol,
    device: str = "cpu",
) -> list[float]:
    """Return the validation accuracy of what `score` would choose on splits that are given, each with its seed.

    No label of a test node is read: `labels` may say -1 there.

    Raises:
        EvaluationError: embedding and labels do not fit, or a value is not finite.
    """
    _check(embedding, labels, [seed for seed, _ in splits])
    found = fitted(embedding, labels, splits, protocol, device, silent)
    return [float(validation_of(predicted, labels, split).max()) for _, split, _, predicted in found]


def validation_of(predicted: Array, labels: Array, split: Split) -> Array:
    """Return the validation accuracy of every candidate."""
    accuracies: Array = (predicted[:, split.validation] == labels[split.validation]).mean(axis=1)
    return accuracies


def score_classes(class_scores: Array, labels: Array, split: Split, seed: int) -> SplitScore:
    """Score a method by its own class scores, the greatest of each test node, on the split it was trained on.

    Args:
        class_scores: N×C.
        labels: N class numbers, -1 where unknown.
        split: the split whose training labels the method has seen, and no others.
        seed: of that split, for the record.

    Raises:
        EvaluationError: scores and labels do not fit, or a value is not finite.
    """
    _check(class_scores, labels, [seed])
    return _score_answers(class_scores.argmax(axis=1), labels, split, seed)


def _score_answers(predicted: Array, labels: Array, split: Split, seed: int) -> SplitScore:
    """Score one answer for each node (N), among which nothing was chosen."""
    right = predicted == labels
    return SplitScore(
        seed=seed,
        accuracy=float(right[split.test].mean()),
        validation_accuracy=float(right[split.validation].mean()),
        chosen=None,
        macro_f1=macro_f1(labels[split.test], predicted[split.test]),
        test_maximum=None,
        test_nodes=len(split.test),
    )


def choose(validation_accuracy: Array) -> int:
    """Return the candidate with the best validation accuracy, the first of equals."""
    return int(np.argmax(validation_accuracy))


def macro_f1(truth: Array, predicted: Array) -> float:
    """Return the unweighted mean of F1 over the classes that occur in either array."""
    size = int(max(truth.max(), predicted.max())) + 1
    hits = np.bincount(truth[truth == predicted], minlength=size)
    occurrences = np.bincount(truth, minlength=size) + np.bincount(predicted, minlength=size)
    occurs = occurrences > 0
    return float((2 * hits[occurs] / occurrences[occurs]).mean())


def _score_split(
    seed: int, split: Split, labels: Array, candidates: Sequence[float], predicted: Array, optimistic: bool
) -> SplitScore:
    validation = validation_of(predicted, labels, split)
    best = choose(validation)
    test = (predicted[:, split.test] == labels[split.test]).mean(axis=1)
    return SplitScore(
        seed=seed,
        accuracy=float(test[best]),
        validation_accuracy=float(validation[best]),
        chosen=float(candidates[best]),
        macro_f1=macro_f1(labels[split.test], predicted[best, split.test]),
        test_maximum=float(test.max()) if optimistic else None,
        test_nodes=len(split.test),
    )


def _check(embedding: Array, labels: Array, seeds: Sequence[int]) -> None:
    if embedding.ndim != 2 or embedding.shape[0] != len(labels) or embedding.shape[1] == 0:
        raise EvaluationError(
            f"The embedding has shape {embedding.shape} for {len(labels)} labels.", remedy="Give one row to each node."
        )
    if not np.isfinite(embedding).all():
        row = int(np.flatnonzero(~np.isfinite(embedding).all(axis=1))[0])
        raise EvaluationError(
            f"Row {row} of the embedding is NaN or infinite.", remedy="The training that made it has diverged."
        )
    if len(seeds) == 0:
        raise EvaluationError("No split seed was given.", remedy="Give at least one.")
    if len(set(seeds)) != len(seeds):
        raise EvaluationError(
            f"A split is given twice by the seeds {', '.join(map(str, seeds))}, and would count as two.",
            remedy="Give each seed once; of published splits, no more than there are.",
        )
