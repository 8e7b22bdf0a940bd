"""A protocol says how a number comes about: which split, which probe, what chose its setting, which interval.

Five are named. `paper` is the rule of the paper's text with logistic regression; `released` is what the authors'
code does, with the checkpoint chosen on validation nodes, and beside it the test maximum that their table reports;
`converged` has the splits of `released` and a probe that is trained to its end, which methods are compared by;
`public` and `geom_gcn` have that probe on the splits that were published with a graph, which the literature reports.
Whatever the protocol, the reported accuracy is selected on validation nodes alone. A method that was trained on labels
needs no probe: its own class scores are counted, on the test nodes of the split it was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import field_validator

from fossil.datasets.catalog import CATALOG, known_name
from fossil.errors import EvaluationError, nearest
from fossil.evaluation.statistics import FEWEST_FOR_AN_INTERVAL, FEWEST_FOR_THE_BOOTSTRAP, Summary, summarize
from fossil.graph.graph import Array, Graph
from fossil.graph.published import PUBLISHED
from fossil.graph.splits import (
    NODES_PER_CLASS,
    NOTHING_PUBLISHED,
    PER_CLASS_GRAPHS,
    Split,
    SplitName,
    SplitRule,
)
from fossil.settings import Settings, setting

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
    probe: Literal["logistic", "adam"] = setting(
        "logistic", "logistic regression, or a linear layer trained by Adam and looked at every 20 steps"
    )
    rows: Literal["as they are", "of length one", "either"] = setting(
        "as they are",
        "fit rows of the embedding as they are, each divided by its length, or both and let validation nodes choose",
    )
    strengths: tuple[float, ...] = setting(
        tuple(4.0**power for power in range(-3, 7)),
        "values of C tried by logistic regression, the inverse weight of its penalty",
        origin="our choice, for embeddings divided by their root mean square norm",
        min_length=1,
    )
    selection: Literal["validation accuracy"] = setting(
        "validation accuracy", "what chooses a strength or a number of steps"
    )
    resamples: int = setting(
        1000,
        f"bootstrap resamples of the interval of {FEWEST_FOR_THE_BOOTSTRAP} values or more",
        origin="Section 5",
        ge=1,
    )
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
        """Return whether this graph is trained on a number of nodes per class that the rule fixes."""
        if self.split in PUBLISHED and "*" not in self.per_class_graphs:
            return False
        return "*" in self.per_class_graphs or graph_name.lower() in self.per_class_graphs

    def per_class_everywhere(self, nodes_per_class: int) -> Self:
        """Return the protocol that trains on this many nodes of each class, on every graph.

        Raises:
            EvaluationError: its training nodes are published ones.
        """
        SplitRule(self.split, nodes_per_class)  # refuses where that cannot be
        return self.updated({"nodes_per_class": nodes_per_class, "per_class_graphs": ("*",)})

    def rule(self, graph_name: str) -> SplitRule:
        """Return how splits of this graph are drawn."""
        return SplitRule(self.split, self.nodes_per_class if self.is_per_class(graph_name) else None)

    def draw(
        self, labels: Array, seed: int, graph_name: str, published: Mapping[str, Array] = NOTHING_PUBLISHED
    ) -> Split:
        """Return the split that `seed` gives on this graph.

        Args:
            labels: N class numbers, -1 where unknown.
            seed: which split.
            graph_name: catalogue name of the graph, empty for any other.
            published: the splits that come with the graph (`Graph.published_splits`).

        Raises:
            EvaluationError: the graph has too few labelled nodes for the rule, or no such splits.
        """
        return self.rule(graph_name).draw(labels, seed, published)

    def summarize(self, values: Sequence[float]) -> Summary:
        """Return mean and interval of one value per encoder, or per split of a single one."""
        return summarize(values, resamples=self.resamples, confidence=self.confidence)

    def explaining(self, rule: SplitRule, graph_name: str) -> Self:
        """Return this protocol, or one that trains on as many nodes per class as `rule` does on this graph."""
        if rule.nodes_per_class is None or self.rule(graph_name) == rule:
            return self
        return self.per_class_everywhere(rule.nodes_per_class)

    def describe(self, graph_name: str = "", split: Split | None = None, *, supervised: bool = False) -> str:
        """Return the paragraph that belongs beside every number.

        Args:
            graph_name: which of the two split rules to describe; empty for a graph of the user's own.
            split: an example, whose sizes are then given.
            supervised: whether the number is that of a method trained on the labels of its split.
        """
        parts = [f"Protocol {self.name!r}: {self.rule(graph_name).describe()}"]
        if split is not None:
            where = " in one of them" if self.split == "geom_gcn" else ""
            parts.append("{:,} training, {:,} validation and {:,} test nodes{}.".format(*split.sizes, where))
        parts.append(_SUPERVISED if supervised else self._describe_probe())
        parts.append(self._describe_interval(None if split is None else len(split.test), supervised))
        if self.optimistic and not supervised:
            parts.append(
                "The column 'test maximum' is the best test accuracy over all candidates: it is chosen by looking at "
                "test labels, is optimistic, and is given only to compare with the published table."
            )
        return " ".join(parts)

    def _describe_interval(self, test_nodes: int | None, supervised: bool) -> str:
        nodes = "test nodes" if test_nodes is None else f"{test_nodes:,} test nodes"
        over = "" if supervised or self.split == "public" else ", over splits where there is a single encoder"
        counted = (
            "Each split has test nodes of its own, many of them in several splits: an interval over splits includes "
            "part of what another draw of these would change."
            if self.split == "geom_gcn"
            else f"All are counted on the same {nodes}: the interval does not include what another draw of these would "
            "change."
        )
        return (
            f"Mean over encoders{over}, with a "
            f"{100 * self.confidence:g} % interval: Student's t ({self.resamples:,} bootstrap resamples from "
            f"{FEWEST_FOR_THE_BOOTSTRAP} values on), none below {FEWEST_FOR_AN_INTERVAL} values. {counted}"
        )

    def _describe_probe(self) -> str:
        rows = {
            "as they are": "",
            "of length one": "Rows are divided by their length. ",
            "either": f"Rows as they are or divided by their length, whichever {self.selection} prefers. ",
        }[self.rows]
        if self.probe == "logistic":
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
    "released": Protocol(name="released", split="released", probe="adam", optimistic=True),
}
# Without the test maximum, which is there to compare with the published table: that one has rows as they are.
PROTOCOLS |= {
    f"{name}-unit-rows": rule.updated({"name": f"{name}-unit-rows", "rows": "of length one", "optimistic": False})
    for name, rule in PROTOCOLS.items()
}
PROTOCOLS["converged"] = Protocol(name="converged", split="released", rows="either")
PROTOCOLS |= {name: Protocol(name=name, split=name, rows="either") for name in PUBLISHED}


def protocol(name: str) -> Protocol:
    """Return a protocol by name.

    Raises:
        EvaluationError: there is none of that name.
    """
    if name not in PROTOCOLS:
        raise EvaluationError(f"Unknown protocol {name!r}.", remedy=nearest(name, PROTOCOLS))
    return PROTOCOLS[name]


def refuse_missing_splits(graph: Graph, protocol: Protocol) -> None:
    """Raise EvaluationError where the protocol takes splits that did not come with the graph."""
    if protocol.split not in PUBLISHED or protocol.split in graph.published_splits:
        return
    at_hand = [name for name, rule in PROTOCOLS.items() if rule.split in {"paper", "released", *graph.published_splits}]
    having = [entry.name for entry in CATALOG.values() if protocol.split in entry.splits]
    remedy = f"Use --protocol converged, which draws splits itself. Published ones come with {', '.join(having)}."
    if known_name(graph) in having:
        remedy = (
            "The graph was read before this package read them, or with some of its nodes dropped: embed it again with "
            "all of its nodes. Or use --protocol converged, which draws splits itself."
        )
    raise EvaluationError(
        f"{graph.name} comes without the published splits of the protocol {protocol.name!r}; accepted for it are "
        f"{', '.join(at_hand)}.",
        remedy=remedy,
    )
