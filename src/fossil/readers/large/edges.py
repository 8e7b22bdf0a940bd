"""From a large edge table to the rows of both ends of every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fossil.errors import GraphError
from fossil.graph.blocks import appending, index_dtype
from fossil.graph.findings import Finding, Treatment, counted
from fossil.graph.graph import Array
from fossil.graph.troubles import listed
from fossil.progress import Progress
from fossil.readers.cells import as_floats, cell_texts
from fossil.readers.edges import EDGE_NAMES, no_header
from fossil.readers.large.cells import as_texts, cells, ids, is_number
from fossil.readers.large.ids import IdLookup
from fossil.readers.large.parts import PartTable, Piece
from fossil.readers.weights import weight_findings

SOURCE, TARGET = "source.npy", "target.npy"


def write_ends(
    table: PartTable,
    known: IdLookup,
    nodes: int,
    name_of: Callable[[int], str],
    treatment: Treatment,
    name: str,
    scratch: Path,
    progress: Progress,
) -> tuple[int, tuple[Finding, ...]]:
    """Write E sources and E targets as row numbers, self loops treated; return E and what was noticed.

    Args:
        table: of the edges.
        known: finds the rows of ids.
        nodes: N.
        name_of: returns the id of a row.
        treatment: what is done about unknown nodes, weights and self loops.
        name: of the graph.
        scratch: the folder to write to.
        progress: is told which share is done.

    Raises:
        GraphError: no header, weights, edges that name unknown nodes, or refused self loops; with file and row.
    """
    source_name, target_name, named = edge_ends(table)
    if not named and source_name in known and target_name in known:
        raise no_header(table.where, (source_name, target_name))
    further = {
        each: _Weights(is_number(table.header[each])) for each in table.names if each not in (source_name, target_name)
    }
    unknown, loops = _Unknown(table), _Loops()
    dtype = index_dtype(nodes)
    with appending(scratch / SOURCE, dtype) as sources, appending(scratch / TARGET, dtype) as targets:
        for piece in table.pieces([source_name, target_name, *further]):
            source, target = (known.rows(piece.columns[end]) for end in (source_name, target_name))
            lost = (source < 0) | (target < 0)
            if lost.any():
                unknown.add(piece, (source_name, target_name), source, target)
                source, target = source[~lost], target[~lost]
            for each, weights in further.items():
                weights.add(piece, each)
                if weights.differ_for_sure and treatment.edge_weights == "refuse":
                    weight_findings(table.where, {each: weights.shown}, (), treatment)
            loop = source == target
            loops.add(source[loop])
            if treatment.self_loops == "remove" and loop.any():
                source, target = source[~loop], target[~loop]
            sources.append(source)
            targets.append(target)
            progress(piece.share)
    findings = [Finding("unnamed index column of the edges", 1, "left out")] if table.has_index else []
    differing = {each: weights.shown for each, weights in further.items() if weights.shown}
    findings += weight_findings(table.where, differing, [each for each in further if each not in differing], treatment)
    findings += unknown.findings(treatment)
    findings += loops.findings(name, name_of, treatment)
    return sources.rows, tuple(findings)


def edge_ends(table: PartTable) -> tuple[str, str, bool]:
    """Return the two columns that are the ends of edges, and whether their names say so."""
    if len(table.names) < 2:
        raise GraphError(
            f"{table.where} has one column ({table.names[0]!r}); an edge has two ends.",
            remedy="Name the columns source,target and check the delimiter (, or ; in .csv, a tab in .tsv).",
        )
    lower = {name.lower(): name for name in table.names}
    named = next(((lower[a], lower[b]) for a, b in EDGE_NAMES if a in lower and b in lower), None)
    return (*(named or table.names[:2]), named is not None)  # type: ignore[return-value]


class _Unknown:
    """Edges that name nodes which the node table has not."""

    def __init__(self, table: PartTable) -> None:
        self.table, self.count, self.first = table, 0, dict[str, int]()

    def add(self, piece: Piece, ends: tuple[str, str], source: Array, target: Array) -> None:
        """Count those of one piece, and keep the first nodes."""
        lost = np.flatnonzero((source < 0) | (target < 0))
        self.count += len(lost)
        for row in lost[:100]:
            for end, rows in zip(ends, (source, target), strict=True):
                if rows[row] < 0 and len(self.first) < 3:
                    self.first.setdefault(as_texts(ids(piece.columns[end][row : row + 1]))[0], piece.first + int(row))

    def findings(self, treatment: Treatment) -> tuple[Finding, ...]:
        """Return the finding; raise GraphError where such edges are refused."""
        if not self.count:
            return ()
        if treatment.unknown_edges == "refuse":
            shown = (f"{text!r} ({self.table.places([row], 1)})" for text, row in self.first.items())
            raise GraphError(
                f"{self.count:,} edge{'s' if self.count > 1 else ''} of {self.table.where} "
                f"name{'' if self.count > 1 else 's'} nodes not in the node table, first "
                f"{listed(shown, len(self.first))}.",
                remedy="Add them to the node table, or drop such edges with --unknown-edges drop.",
            )
        return (Finding("edges that name unknown nodes", self.count, "dropped", tuple(self.first)),)


class _Loops:
    """Edges from a node to itself."""

    def __init__(self) -> None:
        self.count, self.first = 0, list[int]()

    def add(self, rows: Array) -> None:
        """Count those of one piece."""
        self.count += len(rows)
        self.first += rows[: 20 - len(self.first)].tolist()

    def findings(self, name: str, name_of: Callable[[int], str], treatment: Treatment) -> tuple[Finding, ...]:
        """Return the finding; raise GraphError where self loops are refused."""
        done = {"remove": "removed", "keep": "kept", "refuse": "refused"}[treatment.self_loops]
        return oddity(name, "self loops", self.count, self.first, name_of, done, treatment.self_loops == "refuse")


def oddity(
    name: str, kind: str, count: int, rows: list[int], name_of: Callable[[int], str], done: str, refused: bool
) -> tuple[Finding, ...]:
    """Return the finding about nodes or edges of a graph, given the rows of the first of them.

    Raises:
        GraphError: there are some, and they are refused.
    """
    if not count:
        return ()
    examples = tuple(dict.fromkeys(map(name_of, rows[:20])))[:3]
    if refused:
        raise GraphError(
            f"{name} has {counted(count, kind)} (for example {', '.join(examples)}), to be refused.",
            remedy="Mend the input or choose another treatment.",
        )
    return (Finding(kind, count, done, examples),)


class _Weights:
    """The numbers in one column of edges; see `fossil.readers.weights`."""

    def __init__(self, numeric: bool) -> None:
        self.numeric, self.finite, self.present = numeric, 0, 0
        self.least, self.greatest = math.inf, -math.inf

    def add(self, piece: Piece, name: str) -> None:
        """Look at the next cells."""
        found = cells(piece.columns[name], as_numbers=True)
        values = as_floats(found)
        values = values[np.isfinite(values)]
        self.finite += len(values)
        if not self.numeric:
            self.present += sum(map(bool, cell_texts(found)))
        if len(values):
            self.least, self.greatest = min(self.least, float(values.min())), max(self.greatest, float(values.max()))

    @property
    def differ_for_sure(self) -> bool:
        """Whether two of the numbers differ, whatever follows."""
        return self.numeric and self.least < self.greatest

    @property
    def shown(self) -> str:
        """Two numbers that differ, in words; nothing where there are none, or the column is text."""
        if self.least >= self.greatest or not (self.numeric or 2 * self.finite > self.present):
            return ""
        return f"{self.least:g} and {self.greatest:g}"
