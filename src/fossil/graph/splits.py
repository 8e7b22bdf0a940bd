"""Which nodes train a probe or a supervised method, which choose a setting, and which are counted.

Two rules draw splits of any labelled graph: the test set is drawn once and stays the same for every seed; a seed only
divides the development set (everything else) into training and validation. Two more take splits that were published
with the graph: a seed chooses among them. Nodes without a label are in no part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from fossil.errors import EvaluationError
from fossil.graph.graph import Array
from fossil.graph.published import PUBLISHED, TEST, TRAINING, VALIDATION, PublishedName
from fossil.seeding import numpy_generator
from fossil.settings import LARGEST_SEED

SplitName: TypeAlias = Literal["paper", "released"] | PublishedName

NOTHING_PUBLISHED: Mapping[str, Array] = MappingProxyType({})

PER_CLASS_GRAPHS = ("cora", "citeseer", "pubmed")  # trained on a fixed number of nodes per class in every table
NODES_PER_CLASS = 20
DEVELOPMENT_SEED = 1684992425  # fixes the test sets of the published tables
DEVELOPMENT_NODES = 1500  # what the released code takes in place of 80 % on Cora, CiteSeer and PubMed


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint sets of node positions.

    Raises:
        EvaluationError: a part is empty or two parts share a node.
    """

    train: Array
    validation: Array
    test: Array

    def __post_init__(self) -> None:
        for name, part in (("train", self.train), ("validation", self.validation), ("test", self.test)):
            if len(part) == 0:
                raise EvaluationError(f"The {name} part of the split is empty.", remedy="Label more nodes.")
            part.flags.writeable = False
        everything = np.sort(np.concatenate([self.train, self.validation, self.test]))
        if (everything[1:] == everything[:-1]).any():
            raise EvaluationError("A node is in two parts of the split.", remedy="The three parts must be disjoint.")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of training, validation and test nodes."""
        return len(self.train), len(self.validation), len(self.test)


@dataclass(frozen=True)
class SplitRule:
    """All of a split but its seed: equal rules and equal seeds draw equal splits of the same labels.

    Attributes:
        name: `paper` for the rule of the paper's text, `released` for that of the authors' code, `public` or `geom_gcn`
            for splits that were published with the graph.
        nodes_per_class: training nodes of each class; None to train on a share of all nodes, or on those published.

    Raises:
        EvaluationError: published training nodes cannot be a chosen number per class.
    """

    name: SplitName
    nodes_per_class: int | None

    def __post_init__(self) -> None:
        if self.is_published and self.nodes_per_class is not None:
            raise EvaluationError(
                f"The training nodes of {self.name!r} are published, so that their number per class cannot be chosen.",
                remedy="Leave out nodes_per_class (--nodes-per-class), or use 'paper' or 'released'.",
            )

    @property
    def is_published(self) -> bool:
        """Whether splits come with the graph, and a seed only chooses among them."""
        return self.name in PUBLISHED

    def number(self, seed: int, published: Mapping[str, Array] = NOTHING_PUBLISHED) -> int:
        """Return what tells the split of a seed from others: the seed, or its remainder by the number of splits.

        Raises:
            EvaluationError: the graph has no such splits.
        """
        return seed % len(self._of(published)) if self.is_published else seed

    def seeds(self, seed: int, count: int, published: Mapping[str, Array] = NOTHING_PUBLISHED) -> list[int]:
        """Return the seeds of the splits that an encoder with this seed is scored on: no split twice.

        Args:
            seed: of the encoder, and of its first split, so that several encoders see several splits.
            count: how many splits are asked for; there are fewer where fewer are published.
            published: what the graph has.

        Raises:
            EvaluationError: the graph has no such splits.
        """
        if not self.is_published:
            return [(seed + 1000 * i) % (LARGEST_SEED + 1) for i in range(count)]
        splits = len(self._of(published))
        return [(seed + i) % splits for i in range(min(count, splits))]

    def draw(self, labels: Array, seed: int, published: Mapping[str, Array] = NOTHING_PUBLISHED) -> Split:
        """Return the split that `seed` gives.

        Args:
            labels: N class numbers, -1 where unknown.
            seed: which split.
            published: the splits that come with the graph (`Graph.published_splits`).

        Raises:
            EvaluationError: there are too few labelled nodes for the rule, or the graph has no such splits.
        """
        if self.is_published:
            parts = self._of(published)[self.number(seed, published)]
            labelled = labelled_nodes(labels)
            return Split(*(labelled[parts[labelled] == part] for part in (TRAINING, VALIDATION, TEST)))
        draw = paper_split if self.name == "paper" else released_split
        return draw(labels, seed, self.nodes_per_class is not None, self.nodes_per_class or NODES_PER_CLASS)

    def _of(self, published: Mapping[str, Array]) -> Array:
        if self.name not in published:
            raise EvaluationError(
                f"The graph has no published splits {self.name!r}; it has {', '.join(published) or 'none at all'}.",
                remedy="Use 'paper' or 'released', which draw splits of any labelled graph.",
            )
        return published[self.name]

    def describe(self) -> str:
        """Return the rule in words."""
        if self.name == "public":
            return "training, validation and test nodes as published with the graph: one split, whatever the seed."
        if self.name == "geom_gcn":
            return (
                "the splits published with the graph, about 48 % training, 32 % validation and 20 % test nodes; a seed "
                "takes the one whose number is its remainder by how many there are, and none counts twice."
            )
        share = None if self.nodes_per_class is None else f"{self.nodes_per_class} per class"
        if self.name == "released":
            development = "80 % development nodes" if share is None else "1,500 development nodes"
            return (
                f"{development} drawn once with the authors' seed, all others test; "
                f"train on {share or '60 % of all nodes'}, rest validation."
            )
        return f"20 % test nodes drawn once; of the other 80 %, train on {share or '60 %'}, rest validation."


@dataclass(frozen=True)
class TrainingSplit:
    """The split whose training labels a method reads: a rule and a seed."""

    rule: SplitRule
    seed: int

    def draw(self, labels: Array, published: Mapping[str, Array] = NOTHING_PUBLISHED) -> Split:
        """Return the split of a graph's labels, given the splits that come with the graph."""
        return self.rule.draw(labels, self.seed, published)


def paper_split(labels: Array, seed: int, per_class: bool, nodes_per_class: int = NODES_PER_CLASS) -> Split:
    """Split as the paper describes it: 20 % test, fixed once; the rest into training and validation by `seed`.

    Args:
        labels: N class numbers, -1 where unknown.
        seed: divides the development set; the test set does not depend on it.
        per_class: train on `nodes_per_class` nodes of each class; otherwise on 60 % of the development set.
        nodes_per_class: training nodes of each class when `per_class` is set.

    Raises:
        EvaluationError: there are too few labelled nodes, of one class or altogether.
    """
    labelled = labelled_nodes(labels)
    shuffled = numpy_generator(0, "evaluation", "test set").permutation(labelled)
    num_development = int(0.8 * len(labelled))
    development, test = shuffled[:num_development], np.sort(shuffled[num_development:])
    generator = numpy_generator(seed, "evaluation", "training set")
    if per_class:
        train = _draw_per_class(generator, labels, development, nodes_per_class)
    else:
        train = generator.choice(development, int(0.6 * num_development), replace=False)
    return Split(train, _without(development, train), test)


def ratio_split(labels: Array, seed: int) -> Split:
    """Split any labelled graph 48 % / 32 % / 20 %: the paper's rule for graphs without a fixed number per class.

    Raises:
        EvaluationError: there are too few labelled nodes.

    >>> ratio_split(np.arange(100) % 3, seed=0).sizes
    (48, 32, 20)
    """
    return paper_split(labels, seed, per_class=False)


def released_split(labels: Array, seed: int, per_class: bool, nodes_per_class: int = NODES_PER_CLASS) -> Split:
    """Split as the authors' code does, with the same random numbers, so the test sets are those of their table.

    With `per_class` the development set has 1,500 nodes whatever the size of the graph; otherwise it has 80 % of
    the nodes, and training takes 60 % of all nodes (not of the development set).

    Args:
        labels: N class numbers, -1 where unknown.
        seed: divides the development set, 0 to 2³² - 1.
        per_class: train on `nodes_per_class` nodes of each class.
        nodes_per_class: training nodes of each class when `per_class` is set.

    Raises:
        EvaluationError: the seed is out of range, or there are too few labelled nodes.
    """
    if not 0 <= seed < 2**32:
        raise EvaluationError(f"Split seed {seed} is out of range.", remedy="Choose one from 0 to 4294967295.")
    labelled = labelled_nodes(labels)
    num_development = DEVELOPMENT_NODES if per_class else int(0.8 * len(labelled))
    if num_development >= len(labelled):
        raise EvaluationError(
            f"The released split sets {num_development:,} nodes aside before it takes test nodes, "
            f"but only {len(labelled):,} are labelled.",
            remedy="Use the protocol 'paper', whose test set is a fraction of the graph.",
        )
    # The legacy generator and the order of these calls are what the published test sets depend on.
    chosen = np.random.RandomState(DEVELOPMENT_SEED).choice(len(labelled), num_development, replace=False)
    development = labelled[chosen]
    generator = np.random.RandomState(seed)
    if per_class:
        train = _draw_per_class(generator, labels, development, nodes_per_class)
    else:
        train = generator.choice(development, int(0.6 * len(labelled)), replace=False)
    return Split(train, _without(development, train), np.setdiff1d(labelled, development))


def labelled_nodes(labels: Array) -> Array:
    """Return the positions of nodes with a known class, in order.

    Raises:
        EvaluationError: `labels` is not one class number per node, or fewer than two classes or five nodes are known.
    """
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise EvaluationError(
            f"Labels have shape {labels.shape} and type {labels.dtype}.",
            remedy="Give one class number to each node, -1 where it is unknown.",
        )
    labelled = np.flatnonzero(labels >= 0)
    num_classes = len(np.unique(labels[labelled]))
    if num_classes < 2 or len(labelled) < 5:
        raise EvaluationError(
            f"The graph has {len(labelled)} labelled nodes of {num_classes} classes.",
            remedy="A score needs at least five labelled nodes of at least two classes.",
        )
    return labelled


def _draw_per_class(
    generator: np.random.Generator | np.random.RandomState, labels: Array, development: Array, count: int
) -> Array:
    parts = []
    for label in np.unique(labels[labels >= 0]):
        members = development[labels[development] == label]
        if len(members) < count:
            raise EvaluationError(
                f"Class {label} has {len(members)} nodes outside the test set, but {count} are needed for training.",
                remedy=f"Lower nodes_per_class (--nodes-per-class) to {len(members)} or less."
                if len(members)
                else "Remove the class, label more of its nodes, or do not train on a fixed number per class.",
            )
        parts.append(generator.choice(members, count, replace=False))
    return np.concatenate(parts)


def _without(nodes: Array, removed: Array) -> Array:
    return nodes[~np.isin(nodes, removed)]
