"""The scikit-learn face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fossil.errors import GraphError, SettingError, nearest
from fossil.evaluation.leaks import giveaways
from fossil.graph.assemble import encode_labels
from fossil.graph.findings import Treatment
from fossil.graph.graph import Array, Features
from fossil.graph.troubles import listed
from fossil.methods import DEFAULT_METHOD
from fossil.methods.registry import Kind, get_method
from fossil.readers.cells import NodeTable, cell_texts, read_numbers
from fossil.readers.column import ColumnPlan
from fossil.readers.read import LoadedGraph
from fossil.readers.source import open_graph
from fossil.runs.embeddings import Embeddings, as_arrays, not_finite
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.settings import LARGEST_SEED, check_seed

_MAPPINGS = ("settings", "roles", "treatment")


class FossilEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learns node embeddings; follows scikit-learn's conventions with a graph in place of a matrix.

    `fit(X)` takes whatever `fossil.embed` takes: a catalogue name, a path, a `Graph`, a pair (adjacency, features), ...
    Training never looks at `y`; where it is given, it must not be among the features.

    A graph cannot be cut into folds of rows. For cross-validation and searches, give the graph as `graph` and node ids
    as `X`: every fit learns from the whole graph, without labels, and returns the vectors of the nodes in `X`.

    Parameters that are mappings can be set one by one: `set_params(settings__alpha=0.3)`.

    Args:
        method: name of the method, or its class.
        preset: named set of switches; the method's first when None.
        epochs: training steps; the method's own when None.
        settings: single settings of the method.
        device: `auto`, `cpu`, `cuda`.
        random_state: the seed, 0 to 2³² - 1; a `RandomState` or None to draw one, which `seed_` keeps.
        label: the column of classes, which is no feature; `label`, `class`, `target` or `y` when nothing is said.
        roles: what other columns are (`numeric`, `boolean`, `categorical`, `drop`, `id`), by name.
        treatment: what is done about self loops, direction and other oddities.
        structural_features: add features computed from the edges.
        graph: the graph whose nodes `X` names; `X` is the graph itself when None.

    Attributes:
        embedding_: N×D vectors of the graph it was fitted to.
        fusion_: λ per node, where the method has it.
        channels_: how far each node trusts each channel, by name, where the method has them.
        ids_: node ids, in the order of the rows.
        n_features_in_: F.
        history_: one record an epoch.
        plan_: how columns became features, None where the input had no columns.
        seed_: the seed it was trained with.

    >>> from fossil import FossilEmbedder
    >>> model = FossilEmbedder(epochs=2, settings={"hidden": 32, "width": 16})
    >>> model.fit_transform("digits").shape
    (1797, 400)
    >>> model.set_params(settings__width=8).settings
    {'hidden': 32, 'width': 8}

    A search over settings, scored by a classifier on held-out nodes:

    >>> import numpy as np
    >>> from fossil import open_graph
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> graph = open_graph("csbm:nodes=60,features=8").graph
    >>> embedder = FossilEmbedder("dgi", epochs=2, graph=graph)
    >>> choices = {"fossilembedder__settings__width": [4, 8]}
    >>> search = GridSearchCV(make_pipeline(embedder, LogisticRegression()), choices, cv=2).fit(graph.ids, graph.labels)
    >>> sorted(search.best_params_)
    ['fossilembedder__settings__width']
    """

    def __init__(
        self,
        method: str | Kind = DEFAULT_METHOD,
        preset: str | None = None,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        label: str | None = None,
        roles: Mapping[str, str] | None = None,
        treatment: Treatment | Mapping[str, Any] | None = None,
        structural_features: bool = False,
        graph: Any = None,
    ) -> None:
        self.method = method
        self.preset = preset
        self.epochs = epochs
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.label = label
        self.roles = roles
        self.treatment = treatment
        self.structural_features = structural_features
        self.graph = graph

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a graph.

        Raises:
            GraphError: the graph cannot be read, `X` is a table of rows without one, or `y` is among the features.
            SettingError: a setting is unknown or impossible, or the method trains on labels that folds should hide.
        """
        if self.graph is None:
            _refuse_rows(X)
        seed = _seed(self.random_state)
        plan = plan_run(
            X if self.graph is None else self.graph,
            method=self.method,
            preset=self.preset,
            settings=self.settings,
            training={"epochs": self.epochs, "device": self.device},
            seed=seed,
            treatment=self.treatment,
            label=self.label,
            roles=self.roles,
            structural_features=self.structural_features,
        )
        if self.graph is not None and plan.kind.needs_labels:
            raise SettingError(
                f"{plan.kind.title} trains on the labels of its graph, and rows that are held out would not be hidden.",
                remedy="Choose a method that needs no labels, or score it with fossil.evaluate.",
            )
        rows = np.arange(plan.graph.num_nodes) if self.graph is None else plan.graph.rows(_ids(X))
        if y is not None:
            _refuse_as_feature(np.asarray(y).ravel(), rows, plan.loaded)
        result = fit(plan)
        self.embedding_, self.fusion_, self.ids_ = result.vectors, result.fusion, result.ids
        self.channels_ = result.channels
        self.n_features_in_ = result.graph.num_features
        self.history_ = result.history
        self.plan_ = plan.loaded.plan
        self.seed_ = seed
        self._method, self._graph = result.method, result.graph
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: object) -> Any:
        """Learn from a graph and return its embeddings, or those of the nodes in `X` where `graph` is given."""
        self.fit(X, y)
        return self._shown(self.ids_, self.embedding_) if self.graph is None else self.transform(X)

    def transform(self, X: Any) -> Any:
        """Embed a graph with the same feature columns, without learning from it.

        Where `graph` is given, return the vectors of the nodes in `X`.

        Raises:
            GraphError: it has another number of features, there is no node of some id, or a vector is not finite.
        """
        check_is_fitted(self, "embedding_")
        if self.graph is not None:
            rows = self._graph.rows(_ids(X))
            return self._shown(self.ids_[rows], self.embedding_[rows])
        _refuse_rows(X)
        # Columns are encoded as they were in `fit`: with its means, scales and categories.
        columns: dict[str, Any] = {} if self.plan_ is None else {"plan": self.plan_}
        treatment = None if self.treatment is None else Treatment.build(dict(self.treatment))
        graph = open_graph(X, treatment=treatment, structural_features=self.structural_features, **columns).graph
        if graph.num_features != self.n_features_in_:
            raise GraphError(
                f"Graph {graph.name!r} has {graph.num_features} features, the embedder {self.n_features_in_}.",
                remedy="Give the same columns, in the same order.",
            )
        device = self._method.progress.device
        vectors, _, _ = as_arrays(self._method.encode(self._method.prepare(graph, device)))
        wrong = not_finite(Embeddings(graph.ids, vectors, None))
        if wrong is not None:
            raise GraphError(
                f"Graph {graph.name!r} gets numbers that are not finite: {wrong}.",
                remedy="Scale features that are far larger than those it was fitted to.",
            )
        return self._shown(graph.ids, vectors)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, what is in the mappings too, as `settings__alpha`."""
        found: dict[str, Any] = super().get_params(deep)
        for name in _MAPPINGS if deep else ():
            if isinstance(found[name], Mapping):
                found |= {f"{name}__{key}": value for key, value in found[name].items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; `settings__alpha` sets one setting and leaves the others.

        Raises:
            ValueError: there is no such parameter; a SettingError if the method has no such setting.
        """
        single: dict[str, dict[str, Any]] = {}
        for key in list(params):
            name, _, part = key.partition("__")
            if part and name in _MAPPINGS:
                single.setdefault(name, {})[part] = params.pop(key)
        super().set_params(**params)
        for name, values in single.items():
            if name == "settings":
                _check_names(values, get_method(self.method))
            setattr(self, name, dict(getattr(self, name) or {}) | values)  # a new one: the old may be the caller's
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def _shown(self, ids: Array, vectors: Array) -> Any:
        """Return vectors as they are, or where pandas is asked for, in rows under their ids.

        scikit-learn makes the frame itself otherwise, and knows no ids.
        """
        own: dict[str, str] = getattr(self, "_sklearn_output_config", {})
        wanted = own.get("transform", sklearn.get_config()["transform_output"])
        return Embeddings(ids, vectors, None).to_frame() if wanted == "pandas" else vectors


def _seed(random_state: int | np.random.RandomState | None) -> int:
    """Return the seed that a `random_state` stands for."""
    if random_state is None:
        return int(np.random.default_rng().integers(LARGEST_SEED + 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(LARGEST_SEED + 1, dtype=np.int64))
    return check_seed(random_state)


def _refuse_rows(X: object) -> None:
    """Raise GraphError for a table of rows, such as a fold of scikit-learn's, in place of a graph."""
    if isinstance(X, list | np.ndarray) or hasattr(X, "iloc"):
        raise GraphError(
            f"A graph cannot be cut into rows, and this {type(X).__name__} has rows and no edges.",
            remedy="Fit to the whole graph; for cross-validation and searches give the graph as "
            "FossilEmbedder(graph=...), and node ids as X.",
        )


def _ids(X: Any) -> list[object]:
    """Return the node ids in one column of rows."""
    column = np.asarray(X)
    if column.ndim == 0 or column.size != len(column):
        raise GraphError(
            f"X has shape {column.shape}, and beside a graph it names nodes.", remedy="Give one id a row in X."
        )
    return list(column.ravel().tolist())


def _check_names(settings: Mapping[str, Any], kind: Kind) -> None:
    known = kind.Config.model_fields
    for name in settings:
        if name not in known:
            raise SettingError(f"{kind.title} has no setting {name!r}.", remedy=nearest(name, known))


def _refuse_as_feature(y: Array, rows: Array, loaded: LoadedGraph) -> None:
    """Raise GraphError where `y` is among the columns that became features, or follows from them.

    A score would measure a leak.
    """
    if loaded.plan is None or y.shape != rows.shape:
        return
    given, start = loaded.graph.features[rows], 0
    features: Features = sp.csc_array(given) if sp.issparse(given) else given
    for column in loaded.plan.columns:
        width = len(column.feature_names)
        if width and _holds(column, features[:, start : start + width], y):
            raise GraphError(
                f"Column {column.name!r} is a feature, and it is y itself.",
                remedy=f"Say label={column.name!r}, or leave it out with roles={{{column.name!r}: 'drop'}}.",
            )
        start += width
    telling = [loaded.graph.feature_names[i] for i in giveaways(given, encode_labels(cell_texts(y))[0])]
    if telling:
        raise GraphError(
            f"The features tell y of every node without exception: {listed(telling, len(telling))}.",
            remedy="Leave out the column that y is made of: label=COLUMN, or roles={COLUMN: 'drop'}.",
        )


def _holds(column: ColumnPlan, features: Features, y: Array) -> bool:
    """Tell whether the cells that these features were made from are `y`."""
    dense: Array = features.toarray() if sp.issparse(features) else features
    # `y` is read as a column of a table is: what is 1 in the one may be "1" or True in the other.
    if column.role == "categorical":
        names = np.array(["", *column.categories])
        given = names[np.where(dense.any(axis=1), dense.argmax(axis=1) + 1, 0)]
        return bool((given == cell_texts(y)).all())
    given = dense[:, 0] * column.scale + column.mean
    numbers = read_numbers(NodeTable("y", np.arange(len(y)), {"y": y}), "y", column.role, column.day_first).values
    return bool(np.allclose(given, numbers - column.start, rtol=1e-4, atol=1e-6))
