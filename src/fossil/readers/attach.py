"""New nodes beside a graph that is already known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Finding, Treatment
from fossil.graph.graph import Array, Features, Graph
from fossil.graph.troubles import Troubles, listed
from fossil.guard.boundary import reading
from fossil.readers.cells import NodeTable
from fossil.readers.column import ColumnPlan
from fossil.readers.edges import edge_positions, edge_table
from fossil.readers.encoding import EncodingPlan
from fossil.readers.folder import read_frame, table_paths
from fossil.readers.frame import Frame, as_ids
from fossil.readers.planning import LABEL_NAMES, ColumnChoices, encode_table
from fossil.readers.read import with_structure
from fossil.readers.tables import id_column, node_table, refuse_unusable_ids


def attach_tables(
    base: Graph, plan: EncodingPlan | None, source: Any, edges: Path | None, *, treatment: Treatment | None = None
) -> Graph:
    """Return `base` and the new nodes that a folder, or a node table, holds; see `attach`.

    Raises:
        GraphError: as `attach` does, or `source` is no path.
    """
    if not isinstance(source, str | Path):
        raise GraphError(
            f"New nodes come in tables, and this is a {type(source).__name__}.",
            remedy="Give a folder with nodes and edges, or a node table.",
        )
    with reading(source):
        nodes_path, edges_path = table_paths(Path(source), edges)
        if nodes_path is None:
            raise GraphError(
                f"{source} has edges and no table of the new nodes.",
                remedy="Put a node table there; the ids alone will do where the run has no other columns.",
            )
        return attach(base, plan, nodes_path, edges_path, treatment=treatment)


def attach(
    base: Graph,
    plan: EncodingPlan | None,
    nodes_path: str | Path,
    edges_path: str | Path | None = None,
    *,
    treatment: Treatment | None = None,
    name: str | None = None,
) -> Graph:
    """Return `base` and new nodes in one graph: the rows of `base` first, then the new ones.

    Args:
        base: the graph that is already known.
        plan: the plan its columns were encoded with; None when its features were a plain matrix, in which case the
            new table must have the same numeric columns.
        nodes_path: a table of the new nodes.
        edges_path: a table of edges between new nodes, or between new and old ones; without it, new nodes are isolated.
        treatment: the treatment that `base` was read with.
        name: what to call the union; the name of `base` when nothing is said.

    Raises:
        GraphError: a new node has the id of an old one, an edge names a node that is in neither table, or the columns
            do not fit the plan.
    """
    frame, troubles = read_frame(Path(nodes_path)), Troubles(str(nodes_path))
    ties = None if edges_path is None else edge_table(read_frame(Path(edges_path)))
    id_name, noted = id_column(frame, ColumnChoices(plan=plan), ties)
    table = node_table(frame, id_name)
    new, old = [str(key) for key in table.ids.tolist()], [str(key) for key in base.ids.tolist()]
    with troubles.gathered():
        refuse_unusable_ids(frame, id_name)
    with troubles.gathered():
        _refuse_old(base, frame, [row for row, key in enumerate(new) if key in base], new)
    with troubles.gathered():
        plan = plan or _plan_of_matrix(base, table)
        encoded = encode_table(table, ColumnChoices(plan=plan))
    with troubles.gathered():
        positions = {key: row for row, key in enumerate([*old, *new])}
        source, target, seen = edge_positions(ties, positions, treatment)
    troubles.raise_any()
    assert plan is not None
    labels, label_names, odd = _join_labels(base, encoded.labels, encoded.label_names, len(new))
    old_source, old_target = base.adjacency.nonzero()
    if treatment is not None and treatment.direction == "reverse":  # those of `base` are reversed by now
        old_source, old_target = old_target, old_source
    raw = RawGraph(
        name=name or base.name,
        source=np.concatenate([old_source, source]),
        target=np.concatenate([old_target, target]),
        features=_below(base, encoded.features, len(plan.structural)),
        ids=as_ids([*old, *new]),
        labels=labels,
        label_names=label_names,
        feature_names=base.feature_names[: base.num_features - len(plan.structural)],
        findings=(*noted, *encoded.findings, *seen, *odd),
    )
    raw, _ = with_structure(raw, plan, treatment, False, plan)
    return assemble(raw, treatment)


def _refuse_old(base: Graph, frame: Frame, rows: list[int], ids: list[str]) -> None:
    """Raise GraphError if some of the nodes are known already."""
    if rows:
        nodes = f"{len(rows):,} nodes of {frame.where} are" if len(rows) > 1 else f"1 node of {frame.where} is"
        shown = listed((repr(ids[row]) for row in rows), len(rows))
        raise GraphError(
            f"{nodes} already in graph {base.name!r}: {shown} ({frame.places(rows)}).",
            remedy="List only new nodes; edges may name old ones.",
        )


def _plan_of_matrix(base: Graph, table: NodeTable) -> EncodingPlan:
    """Return the plan that takes numbers as they are, in the column order of `base`."""
    given = [column for column in table.columns if column.lower() not in LABEL_NAMES]
    names = base.feature_names or tuple(given)
    if len(names) != base.num_features:
        raise GraphError(
            f"{table.where} has {len(names)} feature columns, but {base.name!r} has {base.num_features} features.",
            remedy="Give one numeric column a feature, in the same order.",
        )
    label = next((column for column in table.columns if column not in given and column not in names), None)
    columns = [ColumnPlan(column, "numeric") for column in names]
    return EncodingPlan((*columns, *([ColumnPlan(label, "label")] if label else [])))


def _below(base: Graph, new: Features, structural: int) -> Features:
    """Stack old and new rows; structural columns are left out, because the union is described afresh."""
    old = base.features[:, : base.num_features - structural]
    if old.shape[1] != new.shape[1]:
        raise GraphError(
            f"The plan makes {new.shape[1]} features, but graph {base.name!r} has {old.shape[1]}.",
            remedy="Use the plan that was made with this graph.",
        )
    if sp.issparse(old):
        return sp.csr_array(sp.vstack([old, sp.csr_array(new)], format="csr"))
    return np.vstack([old, sp.csr_array(new).toarray() if sp.issparse(new) else new])


def _join_labels(
    base: Graph, new: Array | None, new_names: tuple[str, ...], count: int
) -> tuple[Array | None, tuple[str, ...], tuple[Finding, ...]]:
    """Number the classes of the new nodes like those of the old ones; unknown stays -1."""
    if base.labels is not None and base.labels.ndim == 2:
        return None, (), (Finding("binary tasks", base.num_classes, "left out: new nodes have none"),)
    if base.labels is None and new is None:
        return None, (), ()
    names = {name: i for i, name in enumerate(base.label_names or map(str, range(base.num_classes)))}
    for name in new_names:
        names.setdefault(name, len(names))
    number = np.asarray([*(names[name] for name in new_names), -1], dtype=np.int64)
    old_labels = np.full(base.num_nodes, -1) if base.labels is None else base.labels
    new_labels = np.full(count, -1) if new is None else number[new]
    return np.concatenate([old_labels, new_labels]), tuple(names), ()
