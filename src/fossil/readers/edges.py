"""Edge tables: the two ends of every edge, looked up among the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fossil.errors import GraphError
from fossil.graph.findings import Finding, Treatment
from fossil.graph.graph import Array
from fossil.graph.troubles import Troubles, listed
from fossil.readers.cells import Column
from fossil.readers.frame import Frame, id_texts
from fossil.readers.weights import edge_values

EDGE_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"))


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """The ends of E edges as text, and what else a table says about them."""

    frame: Frame
    ends: tuple[str, str]
    named: bool
    source: Sequence[str]
    target: Sequence[str]

    @property
    def nodes(self) -> list[str]:
        """The ids that edges name, each once, in the order of the table."""
        pairs = zip(self.source, self.target, strict=True)
        return list(dict.fromkeys(end for pair in pairs for end in pair if end))

    @property
    def further(self) -> dict[str, Column]:
        """Columns beside the ends."""
        return {name: column for name, column in self.frame.columns.items() if name not in self.ends}


def edge_table(frame: Frame) -> EdgeTable:
    """Find the two ends of every edge: `source,target`, `src,dst`, `from,to`, or the first two columns.

    Raises:
        GraphError: fewer than two columns.
    """
    names = list(frame.columns)
    if len(names) < 2:
        raise GraphError(
            f"{frame.where} has {f'one column ({names[0]!r})' if names else 'no columns'}; an edge has two ends.",
            remedy="Name the columns source,target and check the delimiter (, or ; in .csv, a tab in .tsv).",
        )
    named = named_ends(frame)
    ends = named or (names[0], names[1])
    source, target = (id_texts(frame.columns[end]) for end in ends)
    return EdgeTable(frame, ends, named is not None, source, target)


def named_ends(frame: Frame) -> tuple[str, str] | None:
    """Return the columns that are the ends of edges by their names, if there are such."""
    lower = {name.lower(): name for name in frame.columns}
    return next(((lower[a], lower[b]) for a, b in EDGE_NAMES if a in lower and b in lower), None)


def no_header(where: str, ends: tuple[str, str]) -> GraphError:
    """Return what to say about a table whose first line holds nodes, where the names of the two ends should be."""
    return GraphError(
        f"The first line of {where} is an edge ({ends[0]}, {ends[1]}), not column names.",
        remedy="Add the header line source,target.",
    )


def edge_positions(
    edges: EdgeTable | None,
    positions: Mapping[str, int],
    treatment: Treatment | None = None,
    nodes: Frame | None = None,
) -> tuple[Array, Array, tuple[Finding, ...]]:
    """Return E sources and E targets as node positions, and what was noticed.

    Args:
        edges: the edge table, or None for no edges.
        positions: the row of every node, by id.
        treatment: what is done about edges that name an unknown node, and about weights.
        nodes: the node table, where another column may turn out to hold the ids.

    Raises:
        GraphError: no header, weights, or edges that name unknown nodes; all in one message.
    """
    if edges is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), ()
    frame, treatment, troubles = edges.frame, treatment or Treatment(), Troubles(edges.frame.where)
    if not edges.named and all(end in positions for end in edges.ends):
        raise no_header(frame.where, edges.ends)
    findings: list[Finding] = []
    if frame.index is not None and frame.index.in_file:
        findings.append(Finding("unnamed index column of the edges", 1, "left out"))
    ends = np.asarray([[positions.get(text, -1) for text in part] for part in (edges.source, edges.target)], np.int64)
    lost = np.flatnonzero((ends < 0).any(axis=0))
    unknown: dict[str, list[int]] = {}
    for row in lost.tolist():
        for text in dict.fromkeys((edges.source[row], edges.target[row])):
            if text not in positions:
                unknown.setdefault(text, []).append(row)
    with troubles.gathered():
        if unknown and treatment.unknown_edges == "refuse":
            raise _unknown_nodes(frame, unknown, len(lost), positions, nodes)
    with troubles.gathered():
        findings += edge_values(frame.where, edges.further, treatment)
    troubles.raise_any()
    if unknown:
        findings.append(Finding("edges that name unknown nodes", len(lost), "dropped", tuple(unknown)[:3]))
        ends = np.delete(ends, lost, axis=1)
    return ends[0], ends[1], tuple(findings)


def _unknown_nodes(
    frame: Frame, unknown: Mapping[str, list[int]], edges: int, positions: Mapping[str, int], nodes: Frame | None
) -> GraphError:
    shown = (f"{text!r} ({frame.places(rows)})" for text, rows in unknown.items())
    several = len(unknown) > 1
    add = f"Add {'them' if several else 'it'} to the node table"
    if "" in unknown:
        add = "Fill empty ends, add the others to the node table" if several else "Fill the empty end"
    remedy = f"{add}, or drop such edges with --unknown-edges drop."
    others = {} if nodes is None else {name: set(id_texts(column)) for name, column in nodes.columns.items()}
    elsewhere = next((name for name, texts in others.items() if texts.issuperset(unknown)), None)
    bare = {text.strip() for text in positions}
    if any(text.strip() in bare for text in unknown):
        remedy = f"Remove the spaces around ids: without them {'some are' if several else 'it is'} known. {remedy}"
    elif elsewhere is not None:
        remedy = f"Column {elsewhere!r} holds {'them' if several else 'it'}: choose it with --column {elsewhere}=id."
    return GraphError(
        f"{edges:,} edge{'s' if edges > 1 else ''} of {frame.where} name{'' if edges > 1 else 's'} {len(unknown):,} "
        f"node{'s' if several else ''} not in the node table: {listed(shown, len(unknown))}.",
        remedy=remedy,
    )
