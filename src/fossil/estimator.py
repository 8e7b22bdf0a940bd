"""The scikit-learn face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fossil.errors import GraphError
from fossil.graph.graph import Array
from fossil.methods.registry import Kind
from fossil.readers.source import open_graph
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run


class FossilEmbedder(TransformerMixin, BaseEstimator):
    """Learns node embeddings; follows scikit-learn's conventions with a graph in place of a matrix.

    `fit(X)` takes whatever `fossil.embed` takes: a catalogue name, a path, a `Graph`, a pair (adjacency, features), ...
    Labels (`y`) are never looked at.

    Args:
        method: name of the method, or its class.
        preset: named set of switches; the method's first when None.
        epochs: training steps; the method's own when None.
        settings: single settings of the method.
        device: `auto`, `cpu`, `cuda`.
        random_state: the seed, 0 to 2³² - 1.

    Attributes:
        embedding_: N×D vectors of the graph it was fitted to.
        fusion_: λ per node, where the method has it.
        ids_: node ids, in the order of the rows.
        n_features_in_: F.
        history_: one record an epoch.
        plan_: how columns became features, None where the input had no columns.

    >>> from fossil import FossilEmbedder
    >>> model = FossilEmbedder(epochs=2, settings={"hidden": 32, "width": 16})
    >>> model.fit_transform("digits").shape
    (1797, 16)
    """

    def __init__(
        self,
        method: str | Kind = "fossil",
        preset: str | None = None,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.preset = preset
        self.epochs = epochs
        self.settings = settings
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn from a graph."""
        plan = plan_run(
            X,
            method=self.method,
            preset=self.preset,
            settings=self.settings,
            training={"epochs": self.epochs, "device": self.device},
            seed=self.random_state,
        )
        result = fit(plan)
        self.embedding_, self.fusion_, self.ids_ = result.vectors, result.fusion, result.ids
        self.n_features_in_ = result.graph.num_features
        self.history_ = result.history
        self.plan_ = plan.loaded.plan
        self._method = result.method
        return self

    def fit_transform(self, X: Any, y: object = None, **_: object) -> Array:
        """Learn from a graph and return its embeddings."""
        return self.fit(X).embedding_

    def transform(self, X: Any) -> Array:
        """Embed a graph with the same feature columns, without learning from it.

        Raises:
            GraphError: it has another number of features.
        """
        check_is_fitted(self, "embedding_")
        # Columns are encoded as they were in `fit`: with its means, scales and categories.
        graph = open_graph(X).graph if self.plan_ is None else open_graph(X, plan=self.plan_).graph
        if graph.num_features != self.n_features_in_:
            raise GraphError(
                f"Graph {graph.name!r} has {graph.num_features} features, the embedder {self.n_features_in_}.",
                remedy="Give the same columns, in the same order.",
            )
        device: torch.device = next(self._method.parameters()).device
        vectors: Array = self._method.encode(self._method.prepare(graph, device)).vectors.cpu().numpy()
        return vectors
