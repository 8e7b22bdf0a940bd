"""What the probe answers about each node, split by split: not only how often it is right, but where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fossil.datasets.catalog import known_name
from fossil.evaluation.probes.fitting import fitted
from fossil.evaluation.protocol import Protocol
from fossil.evaluation.subjects import Subject
from fossil.evaluation.tasks.node_classification import choose, class_numbers, validation_of
from fossil.graph.graph import Array
from fossil.progress import silent


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers about the test nodes of some splits.

    Attributes:
        splits: how many.
        tested: in how many of them each node is a test node (N).
        wrong: in how many of these the answer was another class than its own (N).
        usual: the wrong answer that was given most often about each node (N); -1 where there was none.
        confusion: test nodes by their class and the answer, over all splits (C×C).
    """

    splits: int
    tested: Array
    wrong: Array
    usual: Array
    confusion: Array

    @property
    def errors(self) -> Array:
        """Share of the splits that test a node in which the answer was wrong (N); NaN where none tests it."""
        return np.where(self.tested > 0, self.wrong / np.maximum(self.tested, 1), np.nan)


def answers(subject: Subject, protocol: Protocol, splits: int, device: str = "cpu") -> Answers:
    """Fit the probe as scoring does and count its answers, those of the candidate that validation nodes choose.

    A run that was trained on labels answers itself, on the split that it was trained on.

    Raises:
        EvaluationError: there are no classes, or a split cannot be drawn.
    """
    graph, labels = subject.graph, class_numbers(subject.graph)
    known, published, trained_on = known_name(graph), graph.published_splits, subject.trained_on
    if trained_on is not None:
        given = [(trained_on.draw(labels, published), subject.vectors.argmax(axis=1))]
    else:
        rule = protocol.rule(known)
        numbers = [rule.number(seed, published) for seed in subject.split_seeds(splits, protocol)]
        drawn = [(number, protocol.draw(labels, number, known, published)) for number in numbers]
        given = [
            (split, predicted[choose(validation_of(predicted, labels, split))])
            for _, split, _, predicted in fitted(subject.vectors, labels, drawn, protocol, device, silent)
        ]
    classes, nodes = graph.num_classes, graph.num_nodes
    votes = np.zeros((nodes, classes), np.int32)
    tested, confusion = np.zeros(nodes, np.int64), np.zeros((classes, classes), np.int64)
    for split, predicted in given:
        test = split.test
        tested[test] += 1
        votes[test, predicted[test]] += 1
        np.add.at(confusion, (labels[test], predicted[test]), 1)
    right = np.where(labels >= 0, votes[np.arange(nodes), np.maximum(labels, 0)], 0)
    votes[np.arange(nodes), np.maximum(labels, 0)] = 0
    wrong = tested - right
    return Answers(len(given), tested, wrong, np.where(wrong > 0, votes.argmax(axis=1), -1), confusion)
