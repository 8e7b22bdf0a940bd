"""NPZ files: the package's own, which are lossless, and other people's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Finding, Treatment
from fossil.graph.graph import Array, Features, Graph
from fossil.guard.arrays import Arrays, checked_csr
from fossil.guard.boundary import reading
from fossil.guard.budget import check_need
from fossil.readers.arrays import raw_from_adjacency, raw_from_arrays
from fossil.readers.base import Found, Reader, Request
from fossil.readers.weights import edge_values
from fossil.storage import write_arrays

FORMAT_KEY, FORMAT_VERSION = "fossil_graph", 1
SPLITS_PREFIX = "published_splits_"
EDGE_KEYS = ("edge_index", "edges")
FEATURE_KEYS = ("x", "features", "node_features", "attr", "attr_matrix")
LABEL_KEYS = ("y", "labels", "node_labels")
ID_KEYS = ("ids", "node_ids")
WEIGHT_KEYS = ("edge_weight", "edge_weights", "weights", "edge_attr")
_BYTES_A_NODE = 64  # an id, a row of the adjacency, and what finding isolated nodes takes


class NpzFile(Reader):
    """A graph in arrays: our own file, or `edge_index`, `edges` or `adj_*` beside `x`, `y` and the like."""

    name = "npz"
    form = "an .npz file"
    suffixes = (".npz",)

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read the arrays; nothing in the file is executed."""
        return Found(load_npz(source, request.treatment))


def write_npz(path: Path, graph: Graph) -> None:
    """Write `graph` so that `read_npz` returns an equal one; no Python objects are stored.

    Raises:
        RunError: the file cannot be written.
    """
    arrays: dict[str, Array] = {
        FORMAT_KEY: np.asarray(FORMAT_VERSION),
        "name": np.asarray(graph.name),
        "adjacency_indptr": graph.adjacency.indptr,
        "adjacency_indices": graph.adjacency.indices,
        "adjacency_data": graph.adjacency.data,
        "ids": graph.ids,
        "label_names": np.asarray(graph.label_names, dtype=np.str_),
        "feature_names": np.asarray(graph.feature_names, dtype=np.str_),
        "findings": np.asarray(json.dumps([asdict(finding) for finding in graph.findings])),
    }
    arrays |= {f"{SPLITS_PREFIX}{name}": parts for name, parts in graph.published_splits.items()}
    if graph.labels is not None:
        arrays["labels"] = graph.labels
    if sp.issparse(graph.features):
        stored = sp.csr_array(graph.features)
        arrays |= {"features_indptr": stored.indptr, "features_indices": stored.indices, "features_data": stored.data}
        arrays["features_shape"] = np.asarray(stored.shape)
    else:
        arrays["features"] = np.asarray(graph.features)
    write_arrays(path, arrays)


def read_npz(path: Path, treatment: Treatment | None = None) -> Graph:
    """Read a graph from an NPZ file; `treatment` applies to files that this package did not write.

    Raises:
        GraphError: the file is missing, damaged, too large, holds Python objects, or has no edges under a known key.
    """
    with reading(path):
        found = load_npz(path, treatment)
        return found if isinstance(found, Graph) else assemble(found, treatment)


def load_npz(path: Path, treatment: Treatment | None = None) -> Graph | RawGraph:
    """Return the finished graph of an own file, or the raw parts of somebody else's."""
    with Arrays(path) as arrays:
        return _own_graph(path, arrays) if FORMAT_KEY in arrays else _plain_graph(path, arrays, treatment)


def _own_graph(path: Path, arrays: Mapping[str, Array]) -> Graph:
    version = int(arrays[FORMAT_KEY])
    if version != FORMAT_VERSION:
        raise GraphError(
            f"{path} is of format {version}; this version reads {FORMAT_VERSION}.", remedy="Update fossil-gnn."
        )
    nodes = len(arrays["ids"])
    # Files that were written before graphs had published splits have none.
    splits = {key.removeprefix(SPLITS_PREFIX): arrays[key] for key in arrays if key.startswith(SPLITS_PREFIX)}
    features: Features
    if "features" in arrays:
        features = arrays["features"]
    else:
        features = _csr(arrays, "features", tuple(arrays["features_shape"].tolist()))
    return Graph(
        name=str(arrays["name"]),
        adjacency=_csr(arrays, "adjacency", (nodes, nodes)),
        features=features,
        ids=arrays["ids"],
        labels=arrays.get("labels"),
        label_names=tuple(arrays["label_names"].tolist()),
        feature_names=tuple(arrays["feature_names"].tolist()),
        findings=tuple(_finding(part) for part in json.loads(str(arrays["findings"]))),
        published_splits=splits,
    )


def _plain_graph(path: Path, arrays: Mapping[str, Array], treatment: Treatment | None) -> RawGraph:
    features = _plain_features(arrays)
    labels = _first(arrays, LABEL_KEYS)
    ids = _first(arrays, ID_KEYS)
    if "adj_indptr" in arrays:
        edges = raw_from_adjacency(_csr(arrays, "adj", tuple(arrays["adj_shape"].tolist())), treatment=treatment)
    elif {"format", "shape"} <= arrays.keys() or {"data", "indices", "indptr", "shape"} <= arrays.keys():
        edges = raw_from_adjacency(_saved_matrix(path, arrays), treatment=treatment)
    else:
        key = next((name for name in EDGE_KEYS if name in arrays), None)
        if key is None:
            raise GraphError(
                f"{path} has no edges under a known key; it has {', '.join(sorted(arrays)) or 'nothing'}.",
                remedy="Store edge_index (two rows of node numbers), edges (two columns), or adj_data, adj_indices, "
                "adj_indptr and adj_shape.",
            )
        pairs = arrays[key] if key == "edge_index" else arrays[key].T
        if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
            raise GraphError(
                f"Array {key!r} of {path} has the shape {arrays[key].shape} and the type {arrays[key].dtype}.",
                remedy="Store whole numbers of nodes: edge_index in two rows, or edges in two columns.",
            )
        sized = next((part for part in (features, labels, ids) if part is not None), None)
        nodes = int(pairs.max(initial=-1)) + 1 if sized is None else int(sized.shape[0])
        check_need(path, _BYTES_A_NODE * nodes, f"Node {nodes - 1:,} in an edge")
        edges = raw_from_arrays(source=pairs[0], target=pairs[1], nodes=nodes, features=None)
    return raw_from_arrays(
        source=edges.source,
        target=edges.target,
        nodes=len(edges.ids),
        features=features,
        labels=labels,
        label_names=[str(name) for name in arrays.get("class_names", np.empty(0)).tolist()],
        ids=ids,
        name=path.stem,
        findings=(*edges.findings, *edge_values(str(path), _on_edges(arrays), treatment)),
    )


def _on_edges(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {key: arrays[key] for key in WEIGHT_KEYS if key in arrays}


def _plain_features(arrays: Mapping[str, Array]) -> Any:
    dense = _first(arrays, FEATURE_KEYS)
    prefix = next((key for key in FEATURE_KEYS if f"{key}_indptr" in arrays), None)
    if dense is not None or prefix is None:
        return dense
    return _csr(arrays, prefix, tuple(arrays[f"{prefix}_shape"].tolist()))


def _csr(arrays: Mapping[str, Array], prefix: str, shape: tuple[int, ...]) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{prefix}_{part}".lstrip("_")] for part in ("data", "indices", "indptr"))
    return checked_csr(data, indices, indptr, shape)


def _saved_matrix(path: Path, arrays: Mapping[str, Array]) -> sp.csr_array:
    """Return the matrix that `scipy.sparse.save_npz` wrote, row by row or column by column."""
    form = arrays["format"].astype(np.str_).item() if "format" in arrays else "csr"
    if form not in ("csr", "csc"):
        raise GraphError(
            f"{path} is a sparse matrix in the form {form!r}; csr and csc are read.",
            remedy="Save it with scipy.sparse.save_npz(path, matrix.tocsr()).",
        )
    rows, columns = arrays["shape"].tolist()
    if form == "csr":
        return _csr(arrays, "", (rows, columns))
    return sp.csr_array(_csr(arrays, "", (columns, rows)).T)


def _first(arrays: Mapping[str, Array], keys: tuple[str, ...]) -> Array | None:
    return next((arrays[key] for key in keys if key in arrays), None)


def _finding(part: Mapping[str, Any]) -> Finding:
    return Finding(part["kind"], part["count"], part["done"], tuple(part["examples"]))
