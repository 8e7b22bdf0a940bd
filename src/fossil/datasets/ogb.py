"""The raw node-property format of the Open Graph Benchmark: gzipped tables of numbers without headings."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from fossil.errors import DataError
from fossil.graph.assemble import RawGraph
from fossil.graph.graph import Array
from fossil.guard.budget import check_need


def read_ogb(folder: Path, name: str, *, add_inverse: bool = False) -> RawGraph:
    """Read `edge`, `node-label`, `num-node-list`, `num-edge-list` and `node-feat` or `edge-feat` (all `.csv.gz`).

    A graph without node features takes, for each node, the mean of the features of its edges, as OGB's own examples
    do for ogbn-proteins. Labels of several columns are binary tasks and stay a matrix.

    Args:
        folder: the `raw` folder of an OGB archive.
        name: what to call the graph.
        add_inverse: the file lists each undirected edge once; add the other direction.

    Raises:
        DataError: a file is missing, damaged, or of another length than the lists say.
    """
    nodes = int(_table(folder / "num-node-list.csv.gz", np.int64)[0, 0])
    edges = int(_table(folder / "num-edge-list.csv.gz", np.int64)[0, 0])
    ends = _table(folder / "edge.csv.gz", np.int64, rows=edges, columns=2)
    if edges and (ends.min() < 0 or ends.max() >= nodes):
        raise DataError(f"{folder} has an edge to a node outside 0 to {nodes - 1}.", remedy="Replace the files.")
    source, target = np.ascontiguousarray(ends.T)
    labels = _table(folder / "node-label.csv.gz", np.int64, rows=nodes)
    if (folder / "node-feat.csv.gz").exists():
        features = _table(folder / "node-feat.csv.gz", np.float32, rows=nodes)
    else:
        edge_features = _table(folder / "edge-feat.csv.gz", np.float32, rows=edges)
        features = mean_over_edges(edge_features, source, target, nodes)
    if add_inverse:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    return RawGraph(
        name=name,
        source=source,
        target=target,
        features=features,
        ids=np.arange(nodes),
        labels=labels[:, 0] if labels.shape[1] == 1 else labels,
    )


def mean_over_edges(edge_features: Array, source: Array, target: Array, nodes: int) -> Array:
    """Return N×F: the mean of the features (E×F) of the undirected edges at each node, zero where there are none."""
    degree = np.bincount(source, minlength=nodes) + np.bincount(target, minlength=nodes)
    mean = np.empty((nodes, edge_features.shape[1]), np.float32)
    for column, values in enumerate(edge_features.T):
        total = np.bincount(source, values, nodes) + np.bincount(target, values, nodes)
        mean[:, column] = total / np.maximum(degree, 1)
    return mean


def _table(path: Path, dtype: type[np.generic], *, rows: int | None = None, columns: int | None = None) -> Array:
    """Read a gzipped table of numbers, 2-D, and check its size where it is known."""
    if rows is not None:
        check_need(path, 8 * rows * (columns or 1), kind=DataError)  # NumPy makes room for all rows at once
    try:
        # Given a path, NumPy inflates and parses in C, block by block: 40 million edges take well under a minute.
        # One row more than there may be tells a longer table; a table of unknown length is a single number.
        table = np.loadtxt(str(path), dtype, delimiter=",", ndmin=2, max_rows=(rows if rows is not None else 1) + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}.", remedy="Replace it by the published file.") from error
    if table.shape != (table.shape[0] if rows is None else rows, columns or table.shape[1]) or table.size == 0:
        expected = f"{'some' if rows is None else f'{rows:,}'} rows of {columns or 'some'} columns"
        raise DataError(
            f"{path} has {table.shape[0]:,} rows of {table.shape[1]} columns; expected are {expected}.",
            remedy="Replace it by the published file.",
        )
    return table
