"""Published file formats: geom-gcn's text files (Actor, Chameleon, Squirrel, WebKB), gnn-benchmark's NPZ, two more NPZ.

The first two readers deliver what the dataset classes of PyTorch Geometric deliver. Text files keep their directions,
duplicates and self loops; the NPZ of gnn-benchmark is made undirected and its features are zeros and ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from fossil.errors import DataError
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Finding
from fossil.graph.graph import Array, Features
from fossil.graph.published import from_masks
from fossil.guard.arrays import Arrays, checked_csr
from fossil.guard.boundary import reading

_REPLACE = "Replace it by the published file."

SPARSE_BELOW = 0.25
"""Features are kept as CSR when fewer than this share of their entries differ from zero."""


def read_geom_gcn(
    folder: Path, name: str, layout: Literal["indices", "values"], splits: Sequence[str] = ()
) -> RawGraph:
    """Read `out1_node_feature_label.txt`, `out1_graph_edges.txt` and the files of published splits.

    Args:
        folder: where the files are.
        name: what to call the graph.
        layout: a line lists the `indices` of the features that are one (Actor), or every value (the others).
        splits: names of the files that hold a split each, in order.

    Raises:
        DataError: a file is missing or not of this format.
    """
    table = folder / "out1_node_feature_label.txt"
    with reading(folder, DataError, _REPLACE):
        ids, fields, labels = _read_node_table(table)
        features = _from_indices(fields) if layout == "indices" else _from_values(fields)
        edges = np.loadtxt(folder / "out1_graph_edges.txt", np.int64, delimiter="\t", skiprows=1, ndmin=2)
        source, target = edges.T
    if not np.array_equal(np.sort(ids), np.arange(len(ids))):
        raise DataError(f"{table} does not number its nodes 0 to {len(ids) - 1}.", remedy="Fetch the published file.")
    rows = np.argsort(ids)
    return RawGraph(
        name=name,
        source=source,
        target=target,
        features=compact(features[rows]),
        ids=np.arange(len(ids)),
        labels=labels[rows],
        published_splits=_read_splits([folder / file for file in splits], len(ids)),
    )


def read_benchmark_npz(path: Path, name: str) -> RawGraph:
    """Read an NPZ of gnn-benchmark (Coauthor, Amazon): positive features become one, every edge gets its reverse.

    Raises:
        DataError: the file is missing or not of this format.
    """
    with _arrays(path) as arrays:
        adjacency, features = _csr(arrays, "adj").tocoo(), _csr(arrays, "attr")
        labels = arrays["labels"].astype(np.int64)
        label_names = _class_names(arrays)
    features = features.astype(np.float32)
    features.data[features.data > 0] = 1
    source, target = adjacency.row.astype(np.int64), adjacency.col.astype(np.int64)
    loops = source == target
    keys = np.unique(source[~loops] * len(labels) + target[~loops])
    source, target = np.divmod(keys, len(labels))
    one_way = ~np.isin(target * len(labels) + source, keys)
    noticed = (
        Finding("self loops in the file", int(loops.sum()), "removed"),
        Finding("edges without their reverse in the file", int(one_way.sum()), "reverse added"),
    )
    return RawGraph(
        name=name,
        source=np.concatenate([source, target[one_way]]),
        target=np.concatenate([target, source[one_way]]),
        features=compact(features),
        ids=np.arange(len(labels)),
        labels=labels,
        label_names=label_names,
        findings=tuple(finding for finding in noticed if finding.count),
    )


def read_heterophilous_npz(path: Path, name: str, *, directed: bool) -> RawGraph:
    """Read an NPZ of heterophilous-graphs (Platonov et al., ICLR 2023), its ten splits included.

    Args:
        path: of the file.
        name: what to call the graph.
        directed: keep the edges as they are; otherwise the file has each once, and it gets its reverse.

    Raises:
        DataError: the file is missing or not of this format.
    """
    with _arrays(path) as arrays:
        source, target = arrays["edges"].astype(np.int64).T
        features, labels = compact(arrays["node_features"]), arrays["node_labels"].astype(np.int64)
        splits = {"geom_gcn": from_masks(*(arrays[f"{part}_masks"] for part in ("train", "val", "test")))}
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    return RawGraph(
        name=name,
        source=source,
        target=target,
        features=features,
        ids=np.arange(len(labels)),
        labels=labels,
        published_splits=splits,
    )


def read_wordnet(path: Path, name: str) -> RawGraph:
    """Read the graph of WordNet's synsets: pointers between them, words in their glosses, lexicographer files.

    Raises:
        DataError: the file is missing or not of this format.
    """
    with _arrays(path) as arrays:
        source, target = arrays["edge_index"].astype(np.int64)
        return RawGraph(
            name=name,
            source=source,
            target=target,
            features=compact(_csr(arrays, "attr")),
            ids=arrays["synset_ids"].astype(np.str_),
            labels=arrays["labels"].astype(np.int64),
            label_names=_class_names(arrays),
            feature_names=tuple(map(str, arrays["vocabulary"])),
            published_splits={"public": from_masks(*(arrays[f"{part}_mask"] for part in ("train", "val", "test")))},
        )


def compact(features: Features) -> Features:
    """Return the features as float32, in CSR when few entries differ from zero and dense otherwise.

    >>> type(compact(np.eye(8))).__name__, type(compact(np.ones((2, 2)))).__name__
    ('csr_array', 'ndarray')
    """
    sparse = sp.csr_array(features, dtype=np.float32)
    few = sparse.count_nonzero() < SPARSE_BELOW * sparse.shape[0] * sparse.shape[1]
    return sparse if few else sparse.toarray()


def _read_node_table(path: Path) -> tuple[Array, list[str], Array]:
    """Return ids, undivided feature fields and labels, one per line under the heading."""
    records = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    ids, fields, labels = zip(*records, strict=True)
    return np.asarray(ids, np.int64), list(fields), np.asarray(labels, np.int64)


def _read_splits(paths: Sequence[Path], nodes: int) -> dict[str, Array]:
    """Read a split from each file, all of them or none."""
    rows = []
    for path in paths:
        with _arrays(path) as masks:
            rows.append(from_masks(*(masks[f"{part}_mask"] for part in ("train", "val", "test"))))
        if rows[-1].shape != (1, nodes):
            raise DataError(f"{path} has a split of {rows[-1].shape[1]} nodes in place of {nodes}.", remedy=_REPLACE)
    return {"geom_gcn": np.concatenate(rows)} if rows else {}


def _from_indices(fields: list[str]) -> sp.csr_array:
    columns = [np.unique(np.asarray(field.split(","), np.int64)) for field in fields]
    indices = np.concatenate(columns)
    indptr = np.cumsum([0, *map(len, columns)])
    ones = np.ones(len(indices), np.float32)
    return checked_csr(ones, indices, indptr, (len(fields), int(indices.max()) + 1))


def _from_values(fields: list[str]) -> Array:
    # The values are zeros and ones; as small integers they parse ten times faster than as floats.
    return np.loadtxt(fields, np.int8, delimiter=",", ndmin=2)


@contextmanager
def _arrays(path: Path) -> Iterator[Arrays]:
    with reading(path, DataError, _REPLACE), Arrays(path, DataError) as arrays:
        yield arrays


def _csr(arrays: Arrays, prefix: str) -> sp.csr_array:
    data, indices, indptr, shape = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    return checked_csr(data, indices, indptr, shape.tolist())


def _class_names(arrays: Arrays) -> tuple[str, ...]:
    try:
        return tuple(map(str, arrays["class_names"])) if "class_names" in arrays else ()
    except DataError:  # stored as Python objects, which are not loaded
        return ()
