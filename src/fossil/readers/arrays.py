"""From arrays, as files and objects hold them, to the parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, encode_labels
from fossil.graph.findings import Finding, Treatment
from fossil.graph.graph import Array, Features
from fossil.readers.frame import as_ids, id_texts
from fossil.readers.weights import edge_values


def raw_from_arrays(
    *,
    source: Array,
    target: Array,
    nodes: int,
    features: Any,
    labels: Any = None,
    label_names: Sequence[str] = (),
    feature_names: Sequence[str] = (),
    ids: Array | None = None,
    name: str = "graph",
    findings: tuple[Finding, ...] = (),
) -> RawGraph:
    """Collect the arrays of a graph; N×0 features when there are none, row numbers when there are no ids.

    Raises:
        GraphError: features, labels or ids of a kind that cannot be used, or classes without a name beside others
            with one.
    """
    numbers, names = (None, ()) if labels is None else class_labels(labels, len(label_names))
    if labels is None or np.asarray(labels).dtype.kind in "fiub":  # texts are names already
        names = tuple(label_names) or names
    if numbers is not None and names and len(names) <= numbers.max(initial=-1):
        raise GraphError(
            f"There are {len(names)} class names, and class numbers up to {numbers.max()}.",
            remedy="Name every class, or none.",
        )
    return RawGraph(
        name=name,
        source=np.asarray(source),
        target=np.asarray(target),
        features=_feature_matrix(features, nodes),
        ids=np.arange(nodes) if ids is None else _node_ids(np.asarray(ids), nodes),
        labels=numbers,
        label_names=names,
        feature_names=tuple(feature_names),
        findings=findings,
    )


def raw_from_adjacency(
    adjacency: Any, features: Any = None, name: str = "graph", treatment: Treatment | None = None
) -> RawGraph:
    """Read an N×N SciPy sparse matrix (row i points to its columns) and N×F features, dense or sparse.

    Raises:
        GraphError: the matrix is not square, its entries differ and `treatment` does not ignore that, or the features
            are not numbers.
    """
    if not sp.issparse(adjacency) or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(
            f"The adjacency is a {type(adjacency).__name__} of shape {getattr(adjacency, 'shape', None)}.",
            remedy="Give a square SciPy sparse matrix, one row and one column a node.",
        )
    entries = sp.coo_array(adjacency)
    present = entries.data != 0
    weights = entries.data[present]
    return raw_from_arrays(
        source=entries.row[present],
        target=entries.col[present],
        nodes=int(adjacency.shape[0]),
        features=features,
        name=name,
        findings=edge_values("The adjacency matrix", {"entries": weights}, treatment) if (weights != 1).any() else (),
    )


def class_labels(values: Any, named: int = 0) -> tuple[Array, tuple[str, ...]]:
    """Return class numbers (N, -1 unknown) or binary tasks (N×T) from an array of numbers or texts.

    Numbers that count 0, 1, 2 and so on without a gap are class numbers. Others are codes, such as years: they are
    numbered in their order, and become the names of the classes. NaN and -1 are unknown; no other negative number is
    taken, since one that means unknown elsewhere, such as -100, would become a class.

    Args:
        values: N or N×T.
        named: how many classes have names already; numbers below that are class numbers, with gaps or without.

    >>> class_labels(np.array([2021.0, np.nan, 1999.0]))
    (array([ 1, -1,  0]), ('1999', '2021'))
    >>> class_labels(np.array([1, -1, 0]))
    (array([ 1, -1,  0]), ())

    Raises:
        GraphError: numbers that are not whole, negative and not -1, or in several columns and above 1.
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "fiub":
        return encode_labels(id_texts(array))
    unknown = np.isnan(array) if array.dtype.kind == "f" else array == -1
    whole = np.where(unknown, array.dtype.type(0), array)
    if array.ndim > 2 or not (np.isfinite(whole) & (whole == np.floor(whole))).all():
        raise GraphError(
            f"Labels of shape {array.shape} are not whole numbers.", remedy="Labels are classes; leave out targets."
        )
    unknown |= whole == -1
    codes = np.unique(whole[~unknown])
    if len(codes) and codes[0] < 0:
        count = int((whole == codes[0]).sum())
        raise GraphError(
            f"{count:,} label{'s are' if count > 1 else ' is'} {int(codes[0])}; of the negative numbers, only -1 is "
            "taken, for nodes whose class is not known.",
            remedy="Write -1 where the class is not known, and number classes from 0 or name them.",
        )
    if array.ndim == 2 and len(codes) and codes[-1] > 1:
        raise GraphError(
            f"Labels of shape {array.shape} hold {int(codes[-1])}; several columns are binary tasks, of 0 and 1.",
            remedy="Give one column of classes, or a column of 0 and 1 for each task.",
        )
    if array.ndim == 2 or len(codes) == 0 or codes[-1] < max(len(codes), named):
        return np.where(unknown, -1, whole).astype(np.int64), ()
    numbers = np.searchsorted(codes, whole)
    return np.where(unknown, -1, numbers), tuple(str(int(code)) for code in codes)


def _node_ids(ids: Array, nodes: int) -> Array:
    """Return whole numbers and texts as they are, others as the ids of a table are read: bytes as text, 3.0 as 3."""
    if ids.shape != (nodes,):
        raise GraphError(f"Ids have shape {ids.shape} for {nodes} nodes.", remedy="Give each node one id.")
    return ids.copy() if ids.dtype.kind in "iuU" else as_ids(id_texts(ids))


def _feature_matrix(features: Any, nodes: int) -> Features:
    if features is None:
        return np.zeros((nodes, 0), np.float32)
    matrix: Features = sp.csr_array(features) if sp.issparse(features) else np.asarray(features)
    if matrix.ndim != 2 or matrix.shape[0] != nodes or matrix.dtype.kind not in "fiub":
        raise GraphError(
            f"Features have shape {matrix.shape} and type {matrix.dtype} for {nodes} nodes.",
            remedy="Give a matrix of numbers with one row a node.",
        )
    return matrix
