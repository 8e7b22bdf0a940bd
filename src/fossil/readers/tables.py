"""Node and edge tables together, wherever they come from: which column holds the ids, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

from fossil.errors import GraphError, nearest
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Finding, Treatment
from fossil.graph.troubles import Troubles, listed
from fossil.readers.cells import NodeTable
from fossil.readers.edges import EdgeTable, edge_positions, edge_table, no_header
from fossil.readers.encoding import EncodingPlan
from fossil.readers.frame import INDEX, Frame, as_ids, id_texts
from fossil.readers.planning import ColumnChoices, encode_table

ID_NAMES = ("id", "node", "node_id")


def raw_from_frames(
    nodes: Frame | None,
    edges: Frame | None,
    choices: ColumnChoices | None = None,
    name: str = "graph",
    id_name: str | None = None,
    treatment: Treatment | None = None,
) -> tuple[RawGraph, EncodingPlan]:
    """Encode the node columns and look up the ends of every edge.

    Args:
        nodes: the node table; the nodes are those that edges name when None.
        edges: the edge table; there are no edges when None.
        choices: about columns.
        name: what to call the graph.
        id_name: the column of the ids, where it need not be looked for.
        treatment: what is done about oddities.

    Raises:
        GraphError: something is wrong with the tables; everything that is, in one message.
    """
    choices, troubles, ties = choices or ColumnChoices(), Troubles(name), None
    with troubles.gathered():
        ties = None if edges is None else edge_table(edges)
    alone = nodes is None
    nodes = nodes or _nodes_of(ties, edges)
    ids, noted = id_column(nodes, choices, ties) if id_name is None else (id_name, ())
    with troubles.gathered():
        refuse_unusable_ids(nodes, ids)
    table = node_table(nodes, ids)
    with troubles.gathered():
        encoded = encode_table(table, choices)
    with troubles.gathered():
        positions = {text: row for row, text in enumerate(map(str, table.ids.tolist()))}
        source, target, seen = edge_positions(ties, positions, treatment, nodes)
    troubles.raise_any()
    if alone:
        noted = (Finding("nodes", len(table.ids), "taken from the edges"),)
    raw = RawGraph(
        name=name,
        source=source,
        target=target,
        features=encoded.features,
        ids=table.ids,
        labels=encoded.labels,
        label_names=encoded.label_names,
        feature_names=encoded.feature_names,
        findings=(*noted, *encoded.findings, *seen),
    )
    return raw, encoded.plan


def _nodes_of(ties: EdgeTable | None, edges: Frame | None) -> Frame:
    """Return the nodes that edges name, as a table of ids alone; GraphError where a node is in the header."""
    ids = [] if ties is None else ties.nodes
    # One is enough: a node of the first line alone would be lost, and nobody would notice.
    if ties is not None and not ties.named and not set(ties.ends).isdisjoint(ids):
        raise no_header(ties.frame.where, ties.ends)
    where = "the node table" if edges is None else edges.where
    return Frame(where, {"id": ids}, [repr(text) for text in ids], unit="node")


def id_column(frame: Frame, choices: ColumnChoices, ties: EdgeTable | None) -> tuple[str, tuple[Finding, ...]]:
    """Return the name of the column of node ids, and what was noticed about the index.

    It is the declared column, that of the plan, or `id`, `node` or `node_id`. Failing these, it is the one of index and
    first column that holds more of the ids which edges name; where both do, an index that is more than a count of rows,
    then the first column.
    """
    index = frame.index
    known = {name.lower(): name for name in reversed(list(frame.columns))}
    named = _named_ids(frame, choices) or next((known[name] for name in ID_NAMES if name in known), None)
    if named is None:
        named = max(_id_candidates(frame), key=_coverage(frame, ties))
    if index is None or not (index.in_file or named == index.name):
        return named, ()
    kind = "unnamed index column" if index.in_file else "index of the nodes"
    return named, (Finding(kind, 1, "taken as the node ids" if named == index.name else "left out"),)


def _named_ids(frame: Frame, choices: ColumnChoices) -> str | None:
    known = [*frame.columns, *([frame.index.name] if frame.index else [])]
    declared = next((name for name, role in choices.roles.items() if role == "id"), None)
    if declared is not None and declared not in known:
        raise GraphError(f"{frame.where} has no column {declared!r}.", remedy=nearest(declared, frame.columns))
    planned = choices.plan.columns if choices.plan is not None else ()
    return declared or next((column.name for column in planned if column.role == "id" and column.name in known), None)


def _id_candidates(frame: Frame) -> list[str]:
    first = list(frame.columns)[:1]
    if frame.index is None:
        return first
    counts = id_texts(frame.index.cells) == [str(row) for row in range(len(frame.lines))]
    return [*first, frame.index.name] if counts and frame.index.name == INDEX else [frame.index.name, *first]


def _coverage(frame: Frame, ties: EdgeTable | None) -> Callable[[str], int]:
    """Return what counts the ids in a column that edges name."""
    ends = set() if ties is None else set(ties.nodes)
    return lambda name: len(ends.intersection(id_texts(frame.cells(name))))


def refuse_unusable_ids(frame: Frame, id_name: str) -> None:
    """Check the ids of a node table.

    Raises:
        GraphError: no rows, or ids that are empty, repeated or contain the NUL character; all in one message.
    """
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(id_texts(frame.cells(id_name))):
        rows.setdefault(text, []).append(row)
    if not rows:
        raise GraphError(f"{frame.where} has no nodes.", remedy="Give each node one row.")
    troubles = Troubles(frame.where)
    unusable = [row for text, given in rows.items() if not text or "\0" in text for row in given]
    if unusable:
        rows_have = "rows have" if len(unusable) > 1 else "row has"
        troubles.add(
            f"{len(unusable):,} {rows_have} no usable node id in {frame.where} ({frame.places(unusable)}).",
            remedy=f"Fill column {id_name!r} there, or remove the row{'s' if len(unusable) > 1 else ''}.",
        )
    repeated = {text: given for text, given in rows.items() if len(given) > 1 and text}
    if repeated:
        ids_are = "ids are" if len(repeated) > 1 else "id is"
        shown = (f"{text!r} ({frame.places(given)})" for text, given in repeated.items())
        troubles.add(
            f"{len(repeated):,} node {ids_are} given more than once in {frame.where}: {listed(shown, len(repeated))}.",
            remedy="Keep one row a node, or choose the id column with --column NAME=id.",
        )
    troubles.raise_any()


def node_table(frame: Frame, id_name: str) -> NodeTable:
    """Return the nodes of `frame` with `id_name` as their ids."""
    columns = {name: column for name, column in frame.columns.items() if name != id_name}
    ids = as_ids(id_texts(frame.cells(id_name)))
    return NodeTable(frame.where, ids, columns, id_name, frame.lines, frame.unit)
