"""A protocol says how a number comes about: which split, which probe, what chose its setting, which interval.

Two are named. `paper` is the rule of the paper's text with logistic regression; `released` is what the authors'
code does, with the checkpoint chosen on validation nodes, and beside it the test maximum that their table reports.
Whatever the protocol, the reported accuracy is selected on validation nodes alone. A method that was trained on labels
needs no probe: its own class scores are counted, on the test nodes of the split it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import field_validator

from fossil.errors import EvaluationError, nearest
from fossil.evaluation.statistics import Summary, summarize
from fossil.graph.graph import Array
from fossil.graph.splits import NODES_PER_CLASS, PER_CLASS_GRAPHS, Split, SplitName, SplitRule
from fossil.seeding import derive
from fossil.settings import Settings, setting

_MEMORY_BUDGET = 2**30  # bytes for one group of splits fitted together
_SUPERVISED = (
    "No probe: the method was trained on the labels of the training nodes of one split, and its own class scores are "
    "counted on the test nodes of that very split, once per run, however many splits are asked for. The number of "
    "epochs was fixed beforehand; validation labels chose nothing."
)


class Protocol(Settings):
    """Everything that must be said with a score."""

    name: str = setting("paper", "what to call it in tables")
    split: SplitName = setting("paper", "rule that draws training, validation and test nodes")
    per_class_graphs: tuple[str, ...] = setting(
        PER_CLASS_GRAPHS,
        "graphs trained on a fixed number of nodes per class; * for all",
        origin="Section 5: 20 nodes per class for Cora, CiteSeer and PubMed",
    )
    nodes_per_class: int = setting(NODES_PER_CLASS, "training nodes of each class on those graphs", ge=1)
    evaluator: Literal["logistic", "checkpoints"] = setting(
        "logistic", "logistic regression, or a linear layer trained by Adam and looked at every 20 steps"
    )
    unit_rows: bool = setting(False, "divide each row of the embedding by its length before anything is fitted")
    strengths: tuple[float, ...] = setting(
        tuple(4.0**power for power in range(-3, 7)),
        "values of C tried by logistic regression, the inverse weight of its penalty",
        origin="our choice, for embeddings divided by their root mean square norm",
        min_length=1,
    )
    selection: Literal["validation accuracy"] = setting("validation accuracy", "what chooses a strength or checkpoint")
    resamples: int = setting(1000, "bootstrap resamples of the interval", origin="Section 5", ge=1)
    confidence: float = setting(0.95, "confidence of the interval", origin="Section 5", gt=0, lt=1)
    optimistic: bool = setting(False, "also report the maximum over test accuracies, as the published table does")

    @field_validator("strengths")
    @classmethod
    def _positive_and_rising(cls, strengths: tuple[float, ...]) -> tuple[float, ...]:
        # Rising, because the first of equally good candidates wins, and that should be the simplest model.
        if any(not 0 < value < float("inf") for value in strengths) or sorted(set(strengths)) != list(strengths):
            raise ValueError("strengths must be positive, finite and rising")
        return strengths

    def is_per_class(self, graph_name: str) -> bool:
        """Return whether this graph is trained on a fixed number of nodes per class."""
        return "*" in self.per_class_graphs or graph_name.lower() in self.per_class_graphs

    def per_class_everywhere(self, nodes_per_class: int) -> Self:
        """Return the protocol that trains on this many nodes of each class, on every graph."""
        return self.updated({"nodes_per_class": nodes_per_class, "per_class_graphs": ("*",)})

    def rule(self, graph_name: str) -> SplitRule:
        """Return how splits of this graph are drawn."""
        return SplitRule(self.split, self.nodes_per_class if self.is_per_class(graph_name) else None)

    def draw(self, labels: Array, seed: int, graph_name: str) -> Split:
        """Return the split that `seed` gives on this graph.

        Raises:
            EvaluationError: the graph has too few labelled nodes for the rule.
        """
        return self.rule(graph_name).draw(labels, seed)

    def summarize(self, values: Sequence[float]) -> Summary:
        """Return mean and interval of one value per split."""
        return summarize(values, resamples=self.resamples, confidence=self.confidence)

    def describe(self, graph_name: str = "", split: Split | None = None, *, supervised: bool = False) -> str:
        """Return the paragraph that belongs beside every number.

        Args:
            graph_name: which of the two split rules to describe; empty for a graph of the user's own.
            split: an example, whose sizes are then given.
            supervised: whether the number is that of a method trained on the labels of its split.
        """
        parts = [f"Protocol {self.name!r}: {self.rule(graph_name).describe()}"]
        if split is not None:
            parts.append("{:,} training, {:,} validation and {:,} test nodes.".format(*split.sizes))
        parts.append(_SUPERVISED if supervised else self._describe_probe())
        parts.append(
            f"Mean over {'runs' if supervised else 'split seeds'} with its {100 * self.confidence:g} % interval from "
            f"{self.resamples:,} bootstrap resamples."
        )
        if self.optimistic and not supervised:
            parts.append(
                "The column 'test maximum' is the best test accuracy over all candidates: it is chosen by looking at "
                "test labels, is optimistic, and is given only to compare with the published table."
            )
        return " ".join(parts)

    def _describe_probe(self) -> str:
        rows = "Rows are divided by their length. " if self.unit_rows else ""
        if self.evaluator == "logistic":
            return (
                f"{rows}Evaluator: multinomial logistic regression on the embedding divided by its root mean square "
                f"norm, C from {len(self.strengths)} values between {self.strengths[0]:g} and {self.strengths[-1]:g} "
                f"chosen by {self.selection}."
            )
        return (
            f"{rows}Evaluator: linear softmax layer, Adam at 0.01 for 500 full-batch steps, scored every 20 steps, "
            f"checkpoint chosen by {self.selection} (the earliest of equals)."
        )


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(name="paper"),
    "released": Protocol(name="released", split="released", evaluator="checkpoints", optimistic=True),
}
# Without the test maximum, which is there to compare with the published table: that one has rows as they are.
PROTOCOLS |= {
    f"{name}-unit-rows": rule.updated({"name": f"{name}-unit-rows", "unit_rows": True, "optimistic": False})
    for name, rule in PROTOCOLS.items()
}


def protocol(name: str) -> Protocol:
    """Return a protocol by name.

    Raises:
        EvaluationError: there is none of that name.
    """
    if name not in PROTOCOLS:
        raise EvaluationError(f"Unknown protocol {name!r}.", remedy=nearest(name, PROTOCOLS))
    return PROTOCOLS[name]


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
    """

    seed: int
    accuracy: float
    validation_accuracy: float
    chosen: float | None
    macro_f1: float
    test_maximum: float | None


def score(
    embedding: Array,
    labels: Array,
    protocol: Protocol,
    *,
    graph_name: str,
    seeds: Sequence[int],
    device: str = "cpu",
) -> list[SplitScore]:
    """Score an embedding on one split per seed.

    Args:
        embedding: N×D.
        labels: N class numbers, -1 where unknown.
        protocol: how to split, fit and choose.
        graph_name: decides whether training takes a fixed number of nodes per class.
        seeds: one split each.
        device: where the probes are fitted.

    Raises:
        EvaluationError: embedding and labels do not fit, a value is not finite, or a split cannot be drawn.
    """
    _check(embedding, labels, seeds)
    if protocol.unit_rows:
        lengths = np.linalg.norm(embedding, axis=1, keepdims=True)
        embedding = embedding / np.where(lengths > 0, lengths, 1)
    splits = [protocol.draw(labels, seed, graph_name) for seed in seeds]
    fit = _fit_strengths if protocol.evaluator == "logistic" else _fit_checkpoints
    scores = []
    for group in _groups(embedding, labels, splits, protocol):
        chunk = [(seeds[i], splits[i]) for i in group]
        candidates, predictions = fit(embedding, labels, chunk, protocol, device)
        for (seed, split), predicted in zip(chunk, predictions, strict=True):
            scores.append(_score_split(seed, split, labels, candidates, predicted, protocol.optimistic))
    return scores


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
    predicted = class_scores.argmax(axis=1)
    right = predicted == labels
    return SplitScore(
        seed=seed,
        accuracy=float(right[split.test].mean()),
        validation_accuracy=float(right[split.validation].mean()),
        chosen=None,
        macro_f1=macro_f1(labels[split.test], predicted[split.test]),
        test_maximum=None,
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
    validation = (predicted[:, split.validation] == labels[split.validation]).mean(axis=1)
    best = choose(validation)
    test = (predicted[:, split.test] == labels[split.test]).mean(axis=1)
    return SplitScore(
        seed=seed,
        accuracy=float(test[best]),
        validation_accuracy=float(validation[best]),
        chosen=float(candidates[best]),
        macro_f1=macro_f1(labels[split.test], predicted[best, split.test]),
        test_maximum=float(test.max()) if optimistic else None,
    )


def _fit_strengths(
    embedding: Array, labels: Array, chunk: Sequence[tuple[int, Split]], protocol: Protocol, device: str
) -> tuple[Sequence[float], Iterator[Array]]:
    from fossil.evaluation.probe import fit_probe

    probes = fit_probe(embedding, labels, [split.train for _, split in chunk], protocol.strengths, device=device)
    return protocol.strengths, (probes.predict(embedding, row) for row in range(len(chunk)))


def _fit_checkpoints(
    embedding: Array, labels: Array, chunk: Sequence[tuple[int, Split]], protocol: Protocol, device: str
) -> tuple[Sequence[float], Iterator[Array]]:
    from fossil.evaluation.checkpoints import checkpoint_probe

    seeds = [derive(seed, "evaluation", "probe") for seed, _ in chunk]
    looks = checkpoint_probe(embedding, labels, [split for _, split in chunk], seeds, device=device)
    return looks.steps, iter(looks.predictions)


def _groups(embedding: Array, labels: Array, splits: Sequence[Split], protocol: Protocol) -> Iterator[range]:
    """Yield ranges of splits that fit in memory together."""
    nodes, width = embedding.shape
    rows, classes = max(len(split.train) for split in splits), int(labels.max()) + 1
    if protocol.evaluator == "logistic":
        candidates = len(protocol.strengths)
        # Rows and their rotation; about 25 sets of parameters; about 8 sets of logits; all in float64.
        numbers = 3 * rows * width + candidates * classes * (25 * width + 8 * rows)
    else:
        numbers = rows * width + 25 * nodes
    size = max(1, _MEMORY_BUDGET // (8 * numbers))
    return (range(start, min(start + size, len(splits))) for start in range(0, len(splits), size))


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
