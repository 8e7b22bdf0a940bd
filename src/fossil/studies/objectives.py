"""What a search maximises: validation accuracy under a protocol, or a criterion that needs no labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from fossil.errors import SettingError, nearest
from fossil.graph.graph import Graph
from fossil.graph.heldout import HeldOut, hold_out
from fossil.runs.embeddings import FitResult
from fossil.studies.sealed import SealedGraph
from fossil.training import criteria


class Objective(Protocol):
    """What is maximised."""

    name: str
    """In words."""
    percent: bool
    """Whether it is a share, shown in percent."""

    def graph_for(self, seed: int, *, with_labels: bool) -> Graph:
        """Return the graph that the encoder of this seed is trained on."""

    def value(self, result: FitResult, seed: int, device: str) -> float:
        """Return what the encoder of this seed reached."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that two sittings of one search must agree on."""

    def describe(self) -> str:
        """Return in a sentence what it is and what is known of it."""


class ValidationAccuracy:
    """Accuracy of a probe on the validation nodes of a sealed graph.

    Args:
        sealed: the graph, without labels of its test nodes.
    """

    name = "validation accuracy"
    percent = True

    def __init__(self, sealed: SealedGraph) -> None:
        self.sealed = sealed

    def graph_for(self, seed: int, *, with_labels: bool) -> Graph:
        """Return the graph without labels, or with those of the seed's split."""
        return self.sealed.for_training(seed, with_labels=with_labels)

    def value(self, result: FitResult, seed: int, device: str) -> float:
        """Return the validation accuracy."""
        trained = result.method.needs_labels
        return self.sealed.score(result.vectors, seed, are_classes=trained, device=device)

    def to_dict(self) -> dict[str, Any]:
        """Return the protocol, and a hash of the labels that are left."""
        return {
            "name": self.name,
            "protocol": self.sealed.protocol.model_dump(mode="json"),
            "labels": self.sealed.digest,
        }

    def describe(self) -> str:
        """Return the split, and that test labels are sealed."""
        _, split = next(iter(self.sealed.splits.values()))
        train, validation, test = split.sizes
        return (
            f"{self.name} under protocol {self.sealed.protocol.name!r}: {train:,} training and {validation:,} "
            f"validation nodes; the labels of {test:,} test nodes are sealed, and nothing of the search can read them"
        )


Criterion: TypeAlias = Callable[[Tensor, HeldOut], float]


def _edges(vectors: Tensor, held: HeldOut) -> float:
    return criteria.edges_found(vectors, torch.from_numpy(held.edges), torch.from_numpy(held.non_edges))


def _features(vectors: Tensor, held: HeldOut) -> float:
    return criteria.features_found(vectors, torch.from_numpy(held.values))


def _both(vectors: Tensor, held: HeldOut) -> float:
    return (_edges(vectors, held) + _features(vectors, held)) / 2


def _rank(vectors: Tensor, held: HeldOut) -> float:
    return criteria.rankme(vectors)


CRITERIA: dict[str, tuple[str, Criterion]] = {
    "held-out": ("mean of the next two", _both),
    "held-out-edges": ("how well cosines tell edges that were taken out from pairs that are none (AUC)", _edges),
    "held-out-features": ("how well a linear map predicts feature columns that were taken out (R²)", _features),
    "rankme": ("effective number of directions the vectors use (RankMe)", _rank),
}
"""Criteria without labels, by name: what each measures, and how."""


class WithoutLabels:
    """A criterion on a graph from which 5 % of the edges and 10 % of the feature columns were taken out.

    Args:
        graph: its labels are not looked at.
        criterion: name of one of `CRITERIA`.

    Raises:
        SettingError: there is none of that name.
        GraphError: the graph has too few edges or columns to take some out.
    """

    percent = False

    def __init__(self, graph: Graph, criterion: str) -> None:
        if criterion not in CRITERIA:
            raise SettingError(f"Unknown criterion {criterion!r}.", remedy=nearest(criterion, CRITERIA))
        self.name = criterion
        self.held = hold_out(graph.with_labels(None), seed=0)
        self.meaning, self.measure = CRITERIA[criterion]

    def graph_for(self, seed: int, *, with_labels: bool) -> Graph:
        """Return the graph without what was held out."""
        return self.held.graph

    def value(self, result: FitResult, seed: int, device: str) -> float:
        """Return the criterion."""
        return self.measure(torch.from_numpy(result.vectors), self.held)

    def to_dict(self) -> dict[str, Any]:
        """Return its name."""
        return {"name": self.name}

    def describe(self) -> str:
        """Return what it measures, and that it is no accuracy."""
        return (
            f"criterion {self.name!r}, without labels: {self.meaning}. It is a stand-in: settings that it likes are "
            "not always those that suit your task"
        )
