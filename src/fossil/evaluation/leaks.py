"""Do the input features say the class of a node outright? Then no score against it means anything."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fossil.errors import EvaluationError
from fossil.graph.graph import Array, Features, Graph

# With fewer labelled nodes a few columns may fit the classes by accident.
_LEAST_NODES, _LEAST_PER_CLASS = 20, 5
_SHOWN = 3


def refuse_leaks(graph: Graph, labels: Array) -> None:
    """Raise EvaluationError where feature columns tell the class of every labelled node without exception.

    That is so for a class column that became a feature, as one-hot columns or as a number, under whatever name.
    """
    columns = giveaways(graph.features, labels)
    if not len(columns):
        return
    names = [graph.feature_names[i] if graph.feature_names else f"number {i}" for i in columns]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise EvaluationError(
        f"The features of {graph.name} contain its classes: {', '.join(names[:_SHOWN])}{more} tell the class of every "
        "labelled node without exception, so that a score would measure nothing.",
        remedy="Embed again without it: --label COLUMN if it is the class, --column COLUMN=drop if it is a copy.",
    )


def giveaways(features: Features, labels: Array) -> Array:
    """Return the columns that are constant within every class and, taken together, differ between any two.

    Args:
        features: N×F, dense or sparse.
        labels: N class numbers, -1 where unknown.
    """
    known = np.flatnonzero(labels >= 0)
    classes = np.unique(labels[known])
    nothing = np.empty(0, dtype=np.int64)
    if len(classes) < 2 or len(known) < max(_LEAST_NODES, _LEAST_PER_CLASS * len(classes)):
        return nothing
    lowest, highest = (
        np.stack([_extreme(features, np.flatnonzero(labels == one), which) for one in classes])
        for which in ("min", "max")
    )
    columns = np.flatnonzero((lowest == highest).all(axis=0) & (lowest != lowest[0]).any(axis=0))
    return columns if len(np.unique(lowest[:, columns], axis=0)) == len(classes) else nothing


def _extreme(features: Features, nodes: Array, which: str) -> Array:
    """Return the least or the greatest value of every column over some nodes (F)."""
    found = getattr(features[nodes], which)(axis=0)
    values: Array = found.toarray().ravel() if sp.issparse(features) else found
    return values
