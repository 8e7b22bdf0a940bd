"""The graph as the rest of the package sees it: plain arrays on the host, never changed.

A method moves what it needs to its device in `Method.prepare`; nothing here knows about devices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.findings import Finding
from fossil.graph.published import checked

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Features: TypeAlias = Any  # an Array or a sp.csr_array; SciPy ships no types to say so

MOST_UNNAMED_CLASSES = 10_000
"""How many classes a graph may have beyond its nodes and the names of its classes; larger numbers are codes."""
_NUMBER_CLASSES = "Number the classes from 0; -1 is unknown."


@dataclass(frozen=True, eq=False)
class Graph:
    """N nodes with features, edges, and the caller's own node ids.

    What is given is brought into the form below. Arrays that have it already are shared, not copied; the caller's own
    are never changed.

    Attributes:
        name: what to call it in tables.
        adjacency: N×N CSR of float32 ones, sorted, without duplicates; row i lists the nodes that i points to (A).
        features: N×F float32, dense and contiguous, or CSR, sorted, without duplicates and stored zeros (X).
        ids: N distinct ids, strings or integers, as the caller wrote them.
        labels: N class numbers, -1 where unknown; N×T zeros and ones for T binary tasks; None without labels.
        label_names: the caller's name of each class.
        feature_names: the name of each feature column; empty when they have none.
        findings: what was noticed while reading, and what was done about it.
        published_splits: splits that were published with the graph, by name (`fossil.graph.published`): S×N, 0 where a
            node is for training, 1 for validation, 2 for test, -1 where it is in no part. They are no part of the
            fingerprint.

    Raises:
        GraphError: the parts do not fit together, an edge has a weight other than 1, or a feature is no finite float32.
    """

    name: str
    adjacency: sp.csr_array
    features: Features
    ids: Array
    labels: Array | None = None
    label_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    published_splits: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.adjacency.shape[0]
        if self.adjacency.shape != (nodes, nodes):
            raise GraphError(f"The adjacency matrix has shape {self.adjacency.shape}.", remedy="It must be square.")
        if self.features.ndim != 2 or self.features.shape[0] != nodes:
            raise GraphError(
                f"Features have shape {self.features.shape} for {nodes} nodes.",
                remedy="Give one row of features to each node.",
            )
        if len(self.ids) != nodes:
            raise GraphError(f"There are {len(self.ids)} ids for {nodes} nodes.", remedy="Give each node one id.")
        if len(np.unique(self.ids)) != nodes:
            values, counts = np.unique(self.ids, return_counts=True)
            raise GraphError(
                f"Node id {str(values[counts > 1][0])!r} occurs {int(counts.max())} times.",
                remedy="Ids must be distinct.",
            )
        if self.labels is not None and len(self.labels) != nodes:
            raise GraphError(f"There are {len(self.labels)} labels for {nodes} nodes.", remedy="Give each node one.")
        for name, value in self._canonical_parts().items():
            object.__setattr__(self, name, value)
        self._check_values()

    def _canonical_parts(self) -> dict[str, Any]:
        """Return every array in its form, read-only."""
        parts: dict[str, Any] = {"adjacency": _canonical_csr(self.adjacency), "ids": _frozen(np.asarray(self.ids))}
        if sp.issparse(self.features):
            parts["features"] = _canonical_csr(self.features)
        else:
            parts["features"] = _frozen(_as_float32(np.asarray(self.features)))
        if self.labels is not None:
            parts["labels"] = _frozen(class_numbers(np.asarray(self.labels), len(self.label_names)))
        splits = checked(self.published_splits, self.num_nodes)
        parts["published_splits"] = {name: _frozen(found) for name, found in splits.items()}
        return parts

    def _check_values(self) -> None:
        weights = self.adjacency.data
        if not (weights == 1).all():
            row = int(np.searchsorted(self.adjacency.indptr, np.argmax(weights != 1), side="right")) - 1
            raise GraphError(
                f"An edge of node {str(self.ids[row])!r} has the weight {weights[weights != 1][0]:g}; edges of a graph "
                "have none.",
                remedy="Give an adjacency matrix of ones, each edge once, or leave the weights out with "
                "fossil.open_graph((adjacency, features), treatment={'edge_weights': 'ignore'}).",
            )
        stored = self.features.data if self.has_sparse_features else self.features
        if not np.isfinite(stored).all():
            row, column = self._first_bad_feature()
            label = self.feature_names[column] if self.feature_names else f"number {column}"
            raise GraphError(
                f"Feature {label} of node {str(self.ids[row])!r} is NaN, infinite or too large for float32.",
                remedy="Fill or drop missing values before reading the graph, and scale large ones.",
            )

    def _first_bad_feature(self) -> tuple[int, int]:
        stored = self.features.data if sp.issparse(self.features) else self.features.ravel()
        place = int(np.argmin(np.isfinite(stored)))
        if not sp.issparse(self.features):
            return divmod(place, self.num_features)
        row = int(np.searchsorted(self.features.indptr, place, side="right")) - 1
        return row, int(self.features.indices[place])

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Stored directed edges; an undirected edge counts twice."""
        return int(self.adjacency.nnz)

    @property
    def num_features(self) -> int:
        """F."""
        return int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of classes, or of binary tasks; 0 without labels."""
        if self.labels is None:
            return 0
        if self.labels.ndim == 2:
            return int(self.labels.shape[1])
        return max(len(self.label_names), int(self.labels.max(initial=-1)) + 1)

    @property
    def has_sparse_features(self) -> bool:
        """Whether the features are stored as CSR."""
        return bool(sp.issparse(self.features))

    @cached_property
    def is_directed(self) -> bool:
        """Whether some edge lacks its reverse."""
        difference = self.adjacency - self.adjacency.T
        return bool(abs(difference).sum() > 0)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of structure, features and ids: equal graphs, equal fingerprints, whatever their names."""
        digest = hashlib.sha256()
        parts: list[Array] = [self.adjacency.indptr.astype(np.int64), self.adjacency.indices.astype(np.int64)]
        if sp.issparse(self.features):
            parts += [
                self.features.indptr.astype(np.int64),
                self.features.indices.astype(np.int64),
                self.features.data,
            ]
        else:
            parts.append(np.ascontiguousarray(self.features))
        for part in parts:
            digest.update(str((part.dtype.str, part.shape)).encode())
            digest.update(part.tobytes())
        digest.update("\n".join(map(str, self.ids.tolist())).encode())
        return digest.hexdigest()[:16]

    def rows(self, ids: Iterable[object]) -> Array:
        """Return the row of each id, in the order asked for.

        Raises:
            GraphError: an id is not in the graph.
        """
        position = self._position
        found = []
        for key in ids:
            row = position.get(str(key))
            if row is None:
                raise GraphError(f"Node {str(key)!r} is not in graph {self.name!r}.", remedy="Check the spelling.")
            found.append(row)
        return np.asarray(found, dtype=np.int64)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {str(key): row for row, key in enumerate(self.ids.tolist())}

    def __contains__(self, key: object) -> bool:
        return str(key) in self._position

    def with_labels(self, labels: Array | None, label_names: Sequence[str] = ()) -> Graph:
        """Return the same graph with other labels."""
        return replace(self, labels=labels, label_names=tuple(label_names))

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes}, edges={self.num_edges}, "
            f"features={self.num_features}{' sparse' if self.has_sparse_features else ''}, classes={self.num_classes})"
        )


def _frozen(array: Array) -> Array:
    """Return a read-only view; the caller's own array stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view


def _canonical_csr(matrix: sp.csr_array) -> sp.csr_array:
    """Return float32 CSR with sorted indices, no duplicates and no stored zeros, of read-only parts.

    Operations of SciPy sort and sum in place where that was not done before, which read-only parts do not allow.
    """
    view = sp.csr_array(matrix)  # shares the parts of a CSR matrix
    if not (view.has_canonical_format and view.data.all()):
        view = sp.csr_array(matrix, copy=True)
        view.sum_duplicates()
        view.eliminate_zeros()
    parts = (_as_float32(view.data), view.indices, view.indptr)
    view.data, view.indices, view.indptr = (_frozen(np.ascontiguousarray(part)) for part in parts)
    return view


def _as_float32(array: Array) -> Array:
    with np.errstate(over="ignore"):  # what does not fit is refused by its node and column
        return np.ascontiguousarray(array, np.float32)


def class_numbers(labels: Array, names: int) -> Array:
    """Return labels of N nodes as int64.

    Args:
        labels: class numbers, -1 where unknown.
        names: how many classes have a name.

    Raises:
        GraphError: they are no class numbers.
    """
    if labels.dtype.kind not in "iubf" or not (labels == np.floor(labels)).all():
        raise GraphError(f"Labels of type {labels.dtype} are not class numbers.", remedy=_NUMBER_CLASSES)
    lowest, highest = (labels.min(initial=0), labels.max(initial=0))
    most = max(MOST_UNNAMED_CLASSES, len(labels), names)
    if lowest < -1 or highest >= most:
        raise GraphError(
            f"Label {lowest if lowest < -1 else highest} is no class number of {len(labels):,} nodes.",
            remedy=f"{_NUMBER_CLASSES} Codes are renumbered by fossil.graph.assemble.encode_labels.",
        )
    return np.ascontiguousarray(labels, np.int64)
