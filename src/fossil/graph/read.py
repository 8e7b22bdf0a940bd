"""The one door through which a user's own graph comes in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.cells import NodeTable
from fossil.graph.encoding import LABEL_NAMES, ColumnChoices, ColumnPlan, EncodingPlan, Scale, encode_table
from fossil.graph.findings import Finding, Treatment
from fossil.graph.formats import load_npz, read_graphml
from fossil.graph.graph import Array, Features, Graph
from fossil.graph.objects import from_frames, from_networkx, from_pyg, from_scipy
from fossil.graph.structural_features import STRUCTURAL_NAMES, structural_matrix
from fossil.graph.tables import (
    SUFFIXES,
    as_ids,
    edge_positions,
    id_column,
    node_table,
    read_frame,
    read_tables,
    table_paths,
)


@dataclass(frozen=True, eq=False)
class LoadedGraph:
    """A graph and the plan that turned its columns into features (None where there were no columns)."""

    graph: Graph
    plan: EncodingPlan | None = None


def read_graph(
    source: Any,
    *,
    edges: str | Path | None = None,
    treatment: Treatment | None = None,
    roles: Mapping[str, str] | None = None,
    label: str | None = None,
    structural_features: bool = False,
    plan: EncodingPlan | None = None,
    name: str | None = None,
    scale: Scale = "auto",
    allow_no_edges: bool = False,
) -> LoadedGraph:
    """Read a graph from wherever it is.

    Args:
        source: a folder with `nodes` and `edges` tables, a node table (CSV, TSV, Parquet), an `.npz` or `.graphml`
            file, a `Graph`, a NetworkX graph, a PyTorch Geometric `Data`, a SciPy sparse matrix, or a pair
            (adjacency, features) or (nodes, edges) of data frames.
        edges: the edge table, when `source` is a node table; `edges.*` beside it when nothing is said.
        treatment: what is done about duplicate edges, self loops and other oddities.
        roles: what a column is (`numeric`, `boolean`, `categorical`, `drop`, `label`, `id`), by name.
        label: the column of classes.
        structural_features: add features computed from the edges.
        plan: a saved plan, to encode new data like the old.
        name: what to call the graph.
        scale: whether numeric columns are standardised.
        allow_no_edges: accept a graph without a single edge.

    Raises:
        GraphError: the source cannot be read, or is no graph that can be learnt from.

    >>> import numpy as np, scipy.sparse as sp
    >>> ring = sp.csr_array(np.roll(np.eye(4), 1, axis=1))
    >>> read_graph((ring, np.eye(4)), name="ring").graph
    Graph('ring', nodes=4, edges=4, features=4, classes=0)
    """
    choices = ColumnChoices(roles=roles or {}, label=label, plan=plan, scale=scale)
    found, made = _read(source, None if edges is None else Path(edges), choices, name)
    if isinstance(found, Graph) and treatment is None and not structural_features:
        graph = found if name is None else replace(found, name=name)
    else:
        raw = _as_raw(found) if isinstance(found, Graph) else found
        raw, made = _with_structure(raw, made, treatment, structural_features, plan)
        graph = assemble(raw if name is None else replace(raw, name=name), treatment)
    _check_size(graph, allow_no_edges)
    return LoadedGraph(graph, made)


def _read(
    source: Any, edges: Path | None, choices: ColumnChoices, name: str | None
) -> tuple[Graph | RawGraph, EncodingPlan | None]:
    """Find out what `source` is and let its reader read it."""
    title = name or "graph"
    first, second = source if isinstance(source, tuple) and len(source) == 2 else (source, None)
    if isinstance(source, str | Path):
        return _read_path(Path(source), edges, choices, name)
    if edges is not None:
        raise GraphError(
            f"An edge table was given with a {type(source).__name__}.", remedy="Give it with a node table."
        )
    if _is_a(source, "networkx", "Graph"):
        return from_networkx(source, choices, title)
    if second is not None and _is_a(first, "pandas", "DataFrame") and _is_a(second, "pandas", "DataFrame"):
        return from_frames(first, second, choices, title)
    _refuse_column_choices(choices, type(source).__name__)
    if isinstance(source, Graph):
        return source, None
    if sp.issparse(first):
        return from_scipy(first, second, title), None
    if _is_a(source, "torch_geometric.data.data", "BaseData"):
        return from_pyg(source, title), None
    raise GraphError(
        f"A {type(source).__name__} is not a graph that can be read.",
        remedy="Give a path, a Graph, a NetworkX graph, a PyTorch Geometric Data, a SciPy sparse matrix, "
        "(adjacency, features), or (nodes, edges) as data frames.",
    )


def _read_path(
    path: Path, edges: Path | None, choices: ColumnChoices, name: str | None
) -> tuple[Graph | RawGraph, EncodingPlan | None]:
    if not path.exists():
        raise GraphError(
            f"{str(path)!r} is no existing file or folder.",
            remedy="Check the spelling; a path may be a folder with nodes.csv and edges.csv, a node table, "
            "an .npz or a .graphml file.",
        )
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in SUFFIXES:
        nodes_path, edges_path = table_paths(path, edges)
        folder_names_it = path.is_dir() or path.stem == "nodes"
        title = name or (nodes_path.resolve().parent.name if folder_names_it else path.stem)
        return read_tables(nodes_path, edges_path, choices, title)
    if edges is not None:
        raise GraphError(f"{path} holds its own edges, but an edge table was given.", remedy="Leave out one of them.")
    if suffix == ".npz":
        _refuse_column_choices(choices, "NPZ file")
        return load_npz(path), None
    if suffix == ".graphml":
        return read_graphml(path, choices, name or path.stem)
    raise GraphError(
        f"{path} has a suffix this package does not read.", remedy=f"Use {', '.join(SUFFIXES)}, .npz or .graphml."
    )


def _is_a(value: object, module: str, name: str) -> bool:
    """Whether `value` is an instance of a class of a package that may not be installed, without importing it."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _refuse_column_choices(choices: ColumnChoices, what: str) -> None:
    if choices.plan is not None and choices.plan.columns:
        raise GraphError(
            f"This {what} has a feature matrix, but the plan to apply encodes columns.",
            remedy="Give a graph with the columns that the plan was made for.",
        )
    if choices.roles or choices.label:
        raise GraphError(
            f"This {what} has a feature matrix, no columns to choose from.", remedy="Leave out column roles."
        )


def _as_raw(graph: Graph) -> RawGraph:
    source, target = graph.adjacency.nonzero()
    return RawGraph(
        graph.name,
        source,
        target,
        graph.features,
        graph.ids,
        graph.labels,
        graph.label_names,
        graph.feature_names,
        tuple(finding for finding in graph.findings if finding.done != "kept"),  # what was kept is found again
    )


def _with_structure(
    raw: RawGraph, made: EncodingPlan | None, treatment: Treatment | None, wanted: bool, saved: EncodingPlan | None
) -> tuple[RawGraph, EncodingPlan | None]:
    """Add structural features where they are asked for, or where the saved plan has them."""
    if saved is not None:
        if wanted and not saved.structural:
            raise GraphError("The saved plan has no structural features.", remedy="Leave out --structural-features.")
        wanted = bool(saved.structural)
    if not wanted:
        if raw.features.shape[1] == 0:
            raise GraphError(
                f"{raw.name} has no features: no column is left to describe a node.",
                remedy="Add columns to the node table, or build features from the edges with --structural-features.",
            )
        return raw, made
    values, scaling = structural_matrix(_adjacency(raw, treatment), saved.structural if saved else ())
    plan = replace(made or EncodingPlan(), structural=scaling)
    named = len(raw.feature_names) == raw.features.shape[1]
    names = (*raw.feature_names, *STRUCTURAL_NAMES) if named else ()
    return replace(raw, features=_beside(raw.features, values), feature_names=names), plan


def _adjacency(raw: RawGraph, treatment: Treatment | None) -> sp.csr_array:
    """Return the edges as `assemble` will leave them, before any node is dropped."""
    everyone = (treatment or Treatment()).updated({"isolated": "keep", "zero_features": "keep"})
    return assemble(replace(raw, features=np.ones((len(raw.ids), 1), np.float32), feature_names=()), everyone).adjacency


def _beside(left: Features, right: Array) -> Features:
    if sp.issparse(left):
        return sp.csr_array(sp.hstack([left, sp.csr_array(right)], format="csr"))
    return np.hstack([left, right]).astype(np.float32)


def _check_size(graph: Graph, allow_no_edges: bool) -> None:
    if graph.num_nodes < 2:
        raise GraphError(f"{graph.name} has a single node.", remedy="There is nothing to compare it with: add nodes.")
    if graph.num_edges == 0 and not allow_no_edges:
        raise GraphError(
            f"{graph.name} has no edges between different nodes.",
            remedy="Check edges.csv beside the node table, or name it with --edges (allow_no_edges=True in Python).",
        )


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
    frame = read_frame(Path(nodes_path))
    table = node_table(frame, id_column(frame, ColumnChoices(plan=plan)))
    new, old = [str(key) for key in table.ids.tolist()], [str(key) for key in base.ids.tolist()]
    for key, line in zip(new, frame.lines, strict=True):
        if key in base:
            raise GraphError(
                f"{frame.where}, {frame.unit} {line}: node {key!r} is already in graph {base.name!r}.",
                remedy="List only new nodes; edges may name old ones.",
            )
    plan = plan or _plan_of_matrix(base, table)
    encoded = encode_table(table, ColumnChoices(plan=plan))
    positions = {key: row for row, key in enumerate([*old, *new])}
    source, target, ignored = edge_positions(None if edges_path is None else read_frame(Path(edges_path)), positions)
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
        findings=(*encoded.findings, *ignored, *odd),
    )
    raw, _ = _with_structure(raw, plan, treatment, False, plan)
    return assemble(raw, treatment)


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
    names = list(base.label_names) or [str(number) for number in range(base.num_classes)]
    names += [name for name in new_names if name not in names]
    number = np.asarray([names.index(name) for name in new_names] + [-1], dtype=np.int64)
    old_labels = np.full(base.num_nodes, -1) if base.labels is None else base.labels
    new_labels = np.full(count, -1) if new is None else number[new]
    return np.concatenate([old_labels, new_labels]), tuple(names), ()
