"""Vectors that were made elsewhere, read from a file and matched with the nodes of a graph."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fossil.errors import EvaluationError, warn_the_caller
from fossil.evaluation.leaks import giveaways
from fossil.graph.graph import Array, Graph
from fossil.guard.arrays import Arrays, read_array
from fossil.guard.boundary import check_regular, reading
from fossil.readers.base import TableReader, split_name
from fossil.readers.cells import as_floats, plain_cells
from fossil.readers.frame import id_texts
from fossil.readers.planning import ColumnChoices
from fossil.readers.registry import table_readers
from fossil.readers.tables import id_column
from fossil.runs.folder import CHANNEL

_VECTOR_KEYS = ("vectors", "embeddings")
_ID_KEYS = ("ids", "node_ids")
# Columns that `fossil embed` and `fossil export` write beside the vectors.
_NO_VECTOR = re.compile(f"label|task_.*|fusion|{CHANNEL}.*")


@dataclass(frozen=True, eq=False)
class OutsideVectors:
    """Vectors that no run of this package made.

    Attributes:
        name: what to call them in tables.
        vectors: N×D, a row for each node of `graph`, in its order.
        graph: whose labels they are scored against.
    """

    name: str
    vectors: Array
    graph: Graph


def read_vectors(path: str | Path, graph: Graph) -> OutsideVectors:
    """Read vectors from a file and put them into the order of a graph's nodes.

    Ids are matched as text: in an `.npz` file the array `ids`, in a table the column that would be the id of a node
    table. A file without ids must have one row for each node, in the order of the graph.

    Args:
        path: `.npz` (`vectors` and `ids`, as a run folder has them), `.npy` (N×D), or a table (`.csv`, `.tsv`,
            `.parquet`): a column of ids, and all others numbers. What a run or an export has beside its vectors, such
            as `label` and `fusion`, is left out.
        graph: whose nodes they belong to.

    Raises:
        EvaluationError: the file cannot be read or has no vectors, an id is repeated, a node has none, or a column of a
            table is the class.
        GraphError: a table is malformed.

    Warns:
        FossilWarning: some vectors belong to no node of the graph, and are left out.
    """
    file = Path(path)
    known = table_readers()
    suffix = split_name(file, known)[1]
    reader = known.get(suffix)
    if suffix not in (".npz", ".npy") and reader is None:
        accepted = ", ".join([".npz", ".npy", *sorted(known)])
        raise EvaluationError(f"{file} has a suffix that vectors are not read from.", remedy=f"Use one of {accepted}.")
    check_regular(file, EvaluationError)
    with reading(file, EvaluationError, "Write it again: with numpy.save, numpy.savez, or as a table."):
        ids, vectors, names = (*_from_arrays(file), ()) if reader is None else _from_table(file, reader)
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiub" or vectors.shape[1] == 0:
        raise EvaluationError(
            f"The vectors in {file} have shape {vectors.shape} and type {vectors.dtype}.",
            remedy="Store numbers, one row for each node.",
        )
    if ids is None:
        _check_row_count(file, vectors, graph)
        return OutsideVectors(str(path), vectors, graph)
    found = OutsideVectors(str(path), vectors[_rows(file, ids, vectors, graph)], graph)
    _refuse_classes(found, names)
    return found


def _from_arrays(file: Path) -> tuple[list[str] | None, Array]:
    if not zipfile.is_zipfile(file):
        return None, read_array(file, EvaluationError)
    with Arrays(file, EvaluationError) as arrays:
        key = next((name for name in _VECTOR_KEYS if name in arrays), None)
        if key is None:
            matrices = [name for name, array in arrays.items() if array.ndim == 2]
            key = matrices[0] if len(matrices) == 1 else None
        if key is None:
            raise EvaluationError(
                f"{file} does not say which array holds the vectors; it has {', '.join(sorted(arrays)) or 'nothing'}.",
                remedy="Store them as vectors (N×D), beside ids.",
            )
        ids = next((arrays[name] for name in _ID_KEYS if name in arrays), None)
        return None if ids is None else id_texts(ids), arrays[key]


def _from_table(file: Path, reader: type[TableReader]) -> tuple[list[str], Array, tuple[str, ...]]:
    frame = reader.read_frame(file)
    key, _ = id_column(frame, ColumnChoices(), None)
    columns = {name: cells for name, cells in frame.columns.items() if name != key and not _NO_VECTOR.fullmatch(name)}
    numbers = {name: as_floats(cells) for name, cells in columns.items()}
    for name, values in numbers.items():
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise EvaluationError(
                f"{file}, {frame.unit} {frame.lines[bad[0]]}: column {name!r} holds "
                f"{plain_cells(columns[name])[bad[0]]!r}, not a finite number ({len(bad):,} such cells).",
                remedy=f"Ids are taken from column {key!r}; every other column must be a number of the vector.",
            )
    ids = id_texts(frame.cells(key))
    return ids, np.column_stack(list(numbers.values())) if numbers else np.empty((len(ids), 0)), tuple(numbers)


def _refuse_classes(found: OutsideVectors, names: Sequence[str]) -> None:
    """Raise EvaluationError where columns of a table, of these names, tell the class of every node."""
    labels = found.graph.labels
    if not names or labels is None or labels.ndim == 2:
        return
    columns = [names[i] for i in giveaways(found.vectors, labels)]
    if columns:
        raise EvaluationError(
            f"Column {columns[0]!r} of {found.name} tells the class of every node without exception, so that a score "
            "would measure nothing.",
            remedy="Leave it out: beside the ids, every column is a number of the vector.",
        )


def _check_row_count(file: Path, vectors: Array, graph: Graph) -> None:
    if len(vectors) != graph.num_nodes:
        raise EvaluationError(
            f"{file} has {len(vectors):,} rows and no ids, and {graph.name} has {graph.num_nodes:,} nodes.",
            remedy="Give one row to each node in the order of the graph, or store ids beside the vectors (array ids in "
            "an .npz file, column id in a table).",
        )


def _rows(file: Path, ids: Sequence[str], vectors: Array, graph: Graph) -> list[int]:
    """Return the row of each node of the graph."""
    if len(ids) != len(vectors):
        raise EvaluationError(f"{file} has {len(ids):,} ids for {len(vectors):,} rows.", remedy="Give each row one id.")
    repeated = next((text for text, count in Counter(ids).items() if count > 1), None)
    if repeated is not None:
        raise EvaluationError(f"{file} has two vectors of node {repeated!r}.", remedy="Ids must be distinct.")
    position = {text: row for row, text in enumerate(ids)}
    nodes = [str(node) for node in graph.ids.tolist()]
    missing = [node for node in nodes if node not in position]
    if missing:
        own = f"; its own ids are like {ids[0]!r}" if len(missing) == len(nodes) and ids else ""
        raise EvaluationError(
            f"{file} has no vector of node {missing[0]!r} of {graph.name} ({len(missing):,} such nodes){own}.",
            remedy="Give each node of the graph one vector, under the id it has there.",
        )
    further = len(ids) - len(nodes)
    if further:
        known = set(nodes)
        stranger = next(text for text in ids if text not in known)
        warn_the_caller(
            f"{file} has {further:,} vectors of nodes that are not in {graph.name} (for example {stranger!r}); they "
            "are left out."
        )
    return [position[node] for node in nodes]
