"""The one door through which a user's own graph comes in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.disk import DiskGraph
from fossil.graph.findings import Treatment
from fossil.graph.graph import Array, Features, Graph
from fossil.guard.boundary import check_regular, exists, reading
from fossil.guard.budget import free_host_memory, in_bytes
from fossil.readers.base import Found, Request, TableReader
from fossil.readers.encoding import EncodingPlan
from fossil.readers.folder import Folder
from fossil.readers.planning import ColumnChoices, Scale
from fossil.readers.registry import forms, reader_for
from fossil.readers.structural_features import STRUCTURAL_NAMES, structural_matrix

_BYTES_AN_EDGE = 64  # both ends, a key, its order, and the matrix that is made of them


@dataclass(frozen=True, eq=False)
class LoadedGraph:
    """A graph and the plan that turned its columns into features (None where there were no columns)."""

    graph: Graph
    plan: EncodingPlan | None = None


def read_graph(
    source: Any,
    *,
    edges: str | Path | None = None,
    treatment: Treatment | Mapping[str, Any] | None = None,
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
        source: a path or an object that one of the readers takes; `fossil data formats` lists them.
        edges: the edge table, when `source` is a node table; `edges.*` beside it when nothing is said.
        treatment: what is done about empty cells, duplicate edges, self loops and other oddities; a `Treatment`, or
            some of its settings by name.
        roles: what a column is (`numeric`, `boolean`, `categorical`, `date`, `calendar`, `drop`, `label`, `id`), by
            name; `numeric:zero` also says how the empty cells of this one column are filled.
        label: the column of classes.
        structural_features: add features computed from the edges; a node table is then not needed.
        plan: a saved plan, to encode new data like the old.
        name: what to call the graph.
        scale: whether numeric columns are standardised.
        allow_no_edges: accept a graph without a single edge.

    Raises:
        GraphError: the source cannot be read, or is no graph that can be learnt from.
        SettingError: the treatment is unknown.

    >>> import numpy as np, scipy.sparse as sp
    >>> ring = sp.csr_array(np.roll(np.eye(4), 1, axis=1))
    >>> read_graph((ring, np.eye(4)), name="ring").graph
    Graph('ring', nodes=4, edges=4, features=4, classes=0)
    """
    treatment = Treatment.of(treatment)
    if not isinstance(edges, str | Path | None):
        raise GraphError(
            f"The edge table is a {type(edges).__name__}, not a path.", remedy="Give objects as a pair: (nodes, edges)."
        )
    said = treatment or Treatment()
    choices = ColumnChoices(
        roles=roles or {},
        label=label,
        plan=plan,
        scale=scale,
        missing=said.missing,
        missing_indicator=said.missing_indicator,
    )
    structural = structural_features or (plan is not None and bool(plan.structural))
    request = Request(choices, None if edges is None else Path(edges), name, said, structural)
    source = Path(source) if isinstance(source, str) else source
    # What goes wrong with an object of the caller's is his own to see; a file may be anybody's.
    with reading(source) if isinstance(source, Path) else nullcontext():
        found, made = _read(source, request)
        if isinstance(found, DiskGraph) and said == Treatment() and not structural_features:
            graph: Graph = found if name is None else found.named(name)
        elif isinstance(found, Graph) and treatment is None and not structural_features:
            graph = found if name is None else replace(found, name=name)
        else:
            if isinstance(found, DiskGraph):
                _check_fits(found)
            raw = _as_raw(found) if isinstance(found, Graph) else found
            raw, made = with_structure(raw, made, treatment, structural_features, plan)
            graph = assemble(raw if name is None else replace(raw, name=name), treatment)
    check_size(graph.name, graph.num_nodes, graph.num_edges, allow_no_edges)
    return LoadedGraph(graph, made)


def _read(source: Any, request: Request) -> Found:
    """Let the reader for this path or object read it."""
    if isinstance(source, Path) and not exists(source):
        raise GraphError(
            f"{str(source)!r} is no existing file or folder.", remedy=f"Check the spelling; readable are {forms()}."
        )
    reader = reader_for(source)
    is_file = isinstance(source, Path)
    if reader.suffixes and not (issubclass(reader, TableReader) and source.is_dir()):
        check_regular(source)
    if request.edges is not None and not issubclass(reader, TableReader | Folder):
        raise GraphError(
            f"{source if is_file else f'A {type(source).__name__}'} holds its own edges, but an edge table was given.",
            remedy="Give that with a node table alone.",
        )
    if not reader.has_columns:
        _refuse_column_choices(request, _kind_of(source))
    return reader.read(source, request)


def _kind_of(source: Any) -> str:
    if not isinstance(source, Path):
        return type(source).__name__
    return "converted graph" if source.is_dir() else f"{source.suffix} file"


def _refuse_column_choices(request: Request, what: str) -> None:
    choices = request.choices
    if choices.plan is not None and choices.plan.columns:
        raise GraphError(
            f"This {what} has a feature matrix, but the plan to apply encodes columns.",
            remedy="Give a graph with the columns that the plan was made for.",
        )
    if choices.roles or choices.label:
        raise GraphError(
            f"This {what} has a feature matrix, no columns to choose from.", remedy="Leave out column roles."
        )
    if request.treatment.of_cells:
        raise GraphError(
            f"This {what} has a feature matrix, which has no empty cells to fill ({request.treatment.of_cells[0]}).",
            remedy="Leave that out; it is for tables.",
        )


def _check_fits(graph: DiskGraph) -> None:
    """Refuse to change a converted graph that is larger than memory: its arrays stay as they are, so it is loaded."""
    need = _BYTES_AN_EDGE * graph.num_edges + 8 * graph.features.size
    free = free_host_memory()
    if free is not None and need > free:
        raise GraphError(
            f"{graph.folder} is a converted graph, which takes about {in_bytes(need)} in memory to be treated in "
            f"another way, and {in_bytes(free)} are free.",
            remedy="Give these choices to fossil data convert.",
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
        tuple(f for f in graph.findings if not f.done.startswith("kept")),  # what was kept is found again
        graph.published_splits,
    )


def with_structure(
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


def check_size(name: str, nodes: int, edges: int, allow_no_edges: bool = False) -> None:
    """Raise GraphError where a graph is too small to learn from."""
    if nodes < 2:
        raise GraphError(f"{name} has a single node.", remedy="There is nothing to compare it with: add nodes.")
    if edges == 0 and not allow_no_edges:
        raise GraphError(
            f"{name} has no edges between different nodes.",
            remedy="Check edges.csv beside the node table, or name it with --edges (allow_no_edges=True in Python).",
        )
