"""Test labels under seal: what chooses settings is given a graph that does not have them.

A search looks at many scores and keeps the best, so that whatever it looks at is used up. One set of test nodes is
put aside before it begins, the same for all of its splits. Labels of these nodes are taken out of the graph that the
search is given; which nodes they are is no secret. Protocols that draw splits have one such set for all seeds.
Published splits with test sets of their own would give away in one split what another one tests on: a search takes one
of them (decision 35).

`Openings` keeps in the search's folder how often the labels were looked at afterwards.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fossil.datasets.catalog import known_name
from fossil.errors import EvaluationError, RunError
from fossil.evaluation.protocol import Protocol, refuse_missing_splits
from fossil.evaluation.tasks.node_classification import NodeClassification, class_numbers, validation_accuracies
from fossil.graph.graph import Array, Graph
from fossil.graph.published import NOWHERE, TEST, TRAINING, VALIDATION
from fossil.graph.splits import Split
from fossil.storage import write_text


@dataclass(frozen=True, eq=False)
class SealedGraph:
    """A graph without the labels of its test nodes, with splits of the others.

    Attributes:
        graph: labels are -1 on test nodes; no published splits.
        protocol: how vectors are scored.
        splits: by the seed of the encoder, with the seed of the split; all have the same test nodes.
    """

    graph: Graph
    protocol: Protocol
    splits: Mapping[int, tuple[int, Split]]

    @property
    def labels(self) -> Array:
        """The labels that are left."""
        return class_numbers(self.graph)

    @property
    def test_nodes(self) -> Array:
        """Positions of the nodes whose labels are under seal."""
        return next(iter(self.splits.values()))[1].test

    def for_training(self, seed: int, *, with_labels: bool) -> Graph:
        """Return what an encoder is trained on: no labels at all, or for a method that needs some, those of its split.

        That split is published with the graph as `public`. Methods read its training part; validation nodes stand in
        for the test nodes that a split has to have, because those have no label.
        """
        if not with_labels:
            return self.graph.with_labels(None)
        split = self.splits[seed][1]
        parts = np.full((1, self.graph.num_nodes), NOWHERE)
        parts[0, split.train], parts[0, split.validation] = TRAINING, VALIDATION
        parts[0, split.validation[::2]] = TEST
        labels = np.full(self.graph.num_nodes, -1)
        known = np.concatenate([split.train, split.validation])
        labels[known] = self.labels[known]
        return replace(self.graph, labels=labels, published_splits={"public": parts})

    def score(self, vectors: Array, seed: int, *, are_classes: bool = False, device: str = "cpu") -> float:
        """Return the validation accuracy of an encoder's vectors.

        Args:
            vectors: one row for each node.
            seed: of the encoder.
            are_classes: whether the rows are class scores of a method that was trained on labels.
            device: where a probe is fitted.
        """
        number, split = self.splits[seed]
        if are_classes:
            return float((vectors[split.validation].argmax(axis=1) == self.labels[split.validation]).mean())
        [accuracy] = validation_accuracies(vectors, self.labels, [(number, split)], self.protocol, device)
        return accuracy

    @cached_property
    def digest(self) -> str:
        """A hash of the labels that are left and of the splits; what is under seal does not count."""
        digest = hashlib.sha256(self.labels.tobytes())
        for seed, (number, split) in self.splits.items():
            digest.update(f"{seed} {number}".encode())
            for part in (split.train, split.validation, split.test):
                digest.update(part.astype(np.int64).tobytes())
        return digest.hexdigest()[:16]


def seal(graph: Graph, protocol: Protocol, seeds: Sequence[int], *, published: int = 0) -> SealedGraph:
    """Draw the splits of some encoders and take the labels of their test nodes out of the graph.

    Args:
        graph: with all of its labels.
        protocol: how splits are drawn.
        seeds: of the encoders.
        published: which of the published splits is searched on, where the protocol takes these.

    Raises:
        EvaluationError: the graph has no labels or not the published splits, a split cannot be drawn, features give the
            labels away, or the splits do not share their test nodes.
    """
    known = known_name(graph)
    rule = protocol.rule(known)
    task = NodeClassification(protocol)
    labels = class_numbers(graph)
    refuse_missing_splits(graph, protocol)
    numbers = {seed: rule.number(published if rule.is_published else seed, graph.published_splits) for seed in seeds}
    splits = {
        seed: (number, protocol.draw(labels, number, known, graph.published_splits)) for seed, number in numbers.items()
    }
    tests = [split.test for _, split in splits.values()]
    if any(not np.array_equal(test, tests[0]) for test in tests):
        raise EvaluationError(
            f"The splits of {protocol.name!r} differ in their test nodes, so that no set of them can be put aside.",
            remedy="Use another protocol.",
        )
    left = labels.copy()
    left[tests[0]] = -1
    sealed = graph.with_labels(left, graph.label_names)
    task.check(sealed)  # by the labels that are left: a test label decides nothing here
    return SealedGraph(replace(sealed, published_splits={}), protocol, splits)


class Openings:
    """How often test labels were looked at after a search, kept in its folder.

    Args:
        folder: of the search.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "openings.jsonl"

    @property
    def all(self) -> list[dict[str, Any]]:
        """Every opening, the first one first.

        Raises:
            RunError: the file is damaged.
        """
        if not self.path.exists():
            return []
        try:
            return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise RunError(
                f"{self.path} is damaged, so that nobody knows how often test labels were opened.",
                remedy="Search again in another folder.",
            ) from error

    def add(self, what: Mapping[str, Any]) -> int:
        """Write down that labels are opened now, before anybody has seen them; return how often that makes."""
        found = [*self.all, {"opened": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **what}]
        write_text(self.path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found))
        return len(found)

    def describe(self) -> str:
        """Return what belongs under every table that was made from the search.

        >>> Openings(Path("nowhere")).describe()
        'Test labels are sealed: opened 0 times.'
        """
        times = len(self.all)
        state = "are sealed" if times == 0 else "are no longer sealed"
        return f"Test labels {state}: opened {times} time{'' if times == 1 else 's'}."
