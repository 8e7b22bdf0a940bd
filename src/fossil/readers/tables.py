"""Node and edge tables, wherever they come from: ids, the ends of edges, and places for error messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fossil.errors import GraphError, nearest
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Finding
from fossil.graph.graph import Array
from fossil.readers.cells import Column, NodeTable
from fossil.readers.encoding import ColumnChoices, EncodingPlan, encode_table

ID_NAMES = ("id", "node", "node_id", "__index_level_0__")  # the last is how pandas stores an unnamed index
EDGE_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of equal length, and the place of every row in its source, for error messages."""

    where: str
    columns: Mapping[str, Column]
    lines: Sequence[int]
    unit: str = "line"


def raw_from_frames(
    nodes: Frame,
    edges: Frame | None,
    choices: ColumnChoices | None = None,
    name: str = "graph",
    id_name: str | None = None,
) -> tuple[RawGraph, EncodingPlan]:
    """Encode the node columns and look up the ends of every edge; `id_name` overrides the search for the ids."""
    choices = choices or ColumnChoices()
    table = node_table(nodes, id_name or id_column(nodes, choices))
    encoded = encode_table(table, choices)
    positions = {text: row for row, text in enumerate(map(str, table.ids.tolist()))}
    source, target, ignored = edge_positions(edges, positions)
    raw = RawGraph(
        name=name,
        source=source,
        target=target,
        features=encoded.features,
        ids=table.ids,
        labels=encoded.labels,
        label_names=encoded.label_names,
        feature_names=encoded.feature_names,
        findings=(*encoded.findings, *ignored),
    )
    return raw, encoded.plan


def checked_header(where: str, cells: Sequence[str]) -> list[str]:
    """Return the names of the columns of a table.

    Raises:
        GraphError: two have one name, or all are numbers, so that the header is missing.
    """
    names = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(cells)]
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise GraphError(f"{where} has two columns named {repeated!r}.", remedy="Give every column its own name.")
    if all(_is_number(cell) for cell in cells):
        raise GraphError(
            f"The header of {where} holds numbers ({', '.join(cells[:3])}), not column names.",
            remedy="Add a header line, for example id,x1,x2 for nodes or source,target for edges.",
        )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def id_column(frame: Frame, choices: ColumnChoices) -> str:
    """Return the column of node ids: the declared one, that of the plan, `id`, `node`, `node_id`, or the first."""
    declared = next((name for name, role in choices.roles.items() if role == "id"), None)
    if declared is not None and declared not in frame.columns:
        raise GraphError(f"{frame.where} has no column {declared!r}.", remedy=nearest(declared, frame.columns))
    if declared is None and choices.plan is not None:
        planned = next((column.name for column in choices.plan.columns if column.role == "id"), None)
        declared = planned if planned in frame.columns else None
    lower = {name.lower(): name for name in reversed(list(frame.columns))}
    usual = next((lower[name] for name in ID_NAMES if name in lower), None)
    return declared or usual or next(iter(frame.columns))


def node_table(frame: Frame, id_name: str) -> NodeTable:
    """Return the nodes of `frame` with `id_name` as their ids.

    Raises:
        GraphError: no rows, or an id that is empty, repeated or contains the NUL character.
    """
    texts = id_texts(frame.columns[id_name])
    if not texts:
        raise GraphError(f"{frame.where} has no nodes.", remedy="Give each node one row.")
    seen: dict[str, int] = {}
    for text, line in zip(texts, frame.lines, strict=True):
        place = f"{frame.where}, {frame.unit} {line}"
        if not text or "\0" in text:
            raise GraphError(f"{place}: the node id {text!r} is not usable.", remedy=f"Fill column {id_name!r}.")
        if text in seen:
            raise GraphError(
                f"{place}: node id {text!r} was already given in {frame.unit} {seen[text]}.",
                remedy="Ids must be distinct; keep one row a node, or choose the id column with --column NAME=id.",
            )
        seen[text] = line
    columns = {name: column for name, column in frame.columns.items() if name != id_name}
    return NodeTable(frame.where, as_ids(texts), columns, id_name)


def edge_positions(frame: Frame | None, positions: Mapping[str, int]) -> tuple[Array, Array, tuple[Finding, ...]]:
    """Return E sources and E targets as node positions, and the finding about columns that were not read.

    Args:
        frame: the edge table, or None for no edges.
        positions: the row of every node, by id.

    Raises:
        GraphError: fewer than two columns, no header, or an edge that names an unknown node.
    """
    if frame is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), ()
    names = list(frame.columns)
    if len(names) < 2:
        raise GraphError(
            f"{frame.where} has one column ({names[0]!r}); an edge has two ends.",
            remedy="Name the columns source,target and check the delimiter (, or ; in .csv, a tab in .tsv).",
        )
    lower = {name.lower(): name for name in names}
    pairs = [(lower[a], lower[b]) for a, b in EDGE_NAMES if a in lower and b in lower]
    ends = pairs[0] if pairs else (names[0], names[1])
    if not pairs and all(end in positions for end in ends):
        raise GraphError(
            f"The first line of {frame.where} is an edge ({ends[0]}, {ends[1]}), not column names.",
            remedy="Add the header line source,target.",
        )
    source, target = (_look_up(frame, end, positions) for end in ends)
    extra = tuple(name for name in names if name not in ends)
    ignored = (Finding("further edge columns", len(extra), "ignored", extra[:3]),) if extra else ()
    return source, target, ignored


def _look_up(frame: Frame, column: str, positions: Mapping[str, int]) -> Array:
    texts = id_texts(frame.columns[column])
    rows = np.asarray([positions.get(text, -1) for text in texts], dtype=np.int64)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        text = texts[unknown[0]]
        hint = " It is known without the spaces around it." if text.strip() in positions else ""
        raise GraphError(
            f"{frame.where}, {frame.unit} {frame.lines[unknown[0]]}: {column} names node {text!r}, which is not in the "
            f"node table ({len({texts[i] for i in unknown}):,} such ids).{hint}",
            remedy="Add the node to the node table, or remove the edge.",
        )
    return rows


def id_texts(column: Column) -> list[str]:
    """Return ids as text, exactly as written; missing ids become empty."""
    cells: Iterable[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return [cell if isinstance(cell, str) else _id_text(cell) for cell in cells]


def _id_text(cell: object) -> str:
    if cell is None or cell != cell:
        return ""
    # A column with a gap turns integers into floats: 3.0 is still node 3.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def as_ids(texts: Sequence[str]) -> Array:
    """Return ids as int64 when every one is an integer written the usual way, else as strings.

    >>> as_ids(["10", "2"]), as_ids(["10", "02"])
    (array([10,  2]), array(['10', '02'], dtype='<U2'))
    """
    try:
        numbers = np.asarray([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.asarray(texts, dtype=np.str_)
    return numbers if list(map(str, numbers.tolist())) == list(texts) else np.asarray(texts, dtype=np.str_)
