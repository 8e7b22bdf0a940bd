"""The ids of nodes in a large table: checked, written, and looked up for the ends of edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import GraphError, nearest
from fossil.graph.blocks import Appended, appending, blocks, index_dtype, mapped, rows_at_once
from fossil.graph.findings import Finding
from fossil.graph.graph import Array
from fossil.graph.lookup import as_keys, possible, repeated_ids
from fossil.graph.troubles import listed
from fossil.progress import Progress
from fossil.readers.large.cells import as_integers, as_texts, ids
from fossil.readers.large.parts import PartTable
from fossil.readers.large.stages import check_room
from fossil.readers.planning import ColumnChoices
from fossil.readers.tables import ID_NAMES

SORTED = "sorted_ids.npy"


def id_column(table: PartTable, choices: ColumnChoices) -> tuple[str, tuple[Finding, ...]]:
    """Return the column of node ids: the declared one, or `id`, `node` or `node_id`, or else the first.

    Raises:
        GraphError: there is no such column; or none is named so, and the index of the table may be meant as well.
    """
    declared = next((name for name, role in choices.roles.items() if role == "id"), None)
    if declared is not None and declared not in table.names:
        raise GraphError(f"{table.where} has no column {declared!r}.", remedy=nearest(declared, table.names))
    lower = {name.lower(): name for name in reversed(table.names)}
    named = declared or next((lower[name] for name in ID_NAMES if name in lower), None)
    if named is None and table.has_index:
        raise GraphError(
            f"{table.where} has an index and no column called {' or '.join(ID_NAMES)}.",
            remedy="Say which column holds the ids with --column NAME=id.",
        )
    noted = (Finding("unnamed index column", 1, "left out"),) if table.has_index else ()
    return named or table.names[0], noted


def write_ids(table: PartTable, name: str, folder: Path, scratch: Path, progress: Progress) -> int:
    """Write the ids of all nodes, in two passes, and their order; return how many there are.

    Ids are int64 where every one is an integer written the usual way, else text as wide as the longest.

    Raises:
        GraphError: ids that are empty, contain the NUL character, or are given more than once, with their rows.
    """
    integers, longest, nodes, unusable, bad = True, (1, 0), 0, 0, list[int]()
    for piece in table.pieces([name]):
        given = ids(piece.columns[name])
        nodes += piece.rows
        integers = integers and as_integers(given) is not None
        if str(given.type) != "int64":
            texts = given.to_pylist()
            wrong = [piece.first + row for row, text in enumerate(texts) if not text or "\0" in text]
            unusable += len(wrong)
            bad += wrong[: 3 - len(bad)]
            here = max(range(len(texts)), key=lambda row: len(texts[row]))
            longest = max(longest, (len(texts[here]), -(piece.first + here)))
        else:
            longest = max(longest, (20, -piece.first))
    if unusable:
        raise GraphError(
            f"{unusable:,} row{'s have' if unusable > 1 else ' has'} no usable node id in {table.where} "
            f"({table.places(bad, unusable)}).",
            remedy=f"Fill column {name!r} there, or remove the row{'s' if unusable > 1 else ''}.",
        )
    width, row = longest[0], -longest[1]
    dtype = np.dtype(np.int64 if integers else f"<U{width}")
    wide = "" if integers else f", each as wide as the longest ({width:,} letters, {table.places([row], 1)}),"
    check_room(folder, nodes * dtype.itemsize, f"The ids{wide}")
    with appending(folder / "ids.npy", dtype) as out:
        for piece in table.pieces([name]):
            given = ids(piece.columns[name])
            append_ids(out, as_integers(given) if integers else as_texts(given), dtype)
            progress(out.rows / nodes)
    _write_sorted(table, name, folder, scratch)
    return nodes


def append_ids(out: Appended, given: Any, dtype: np.dtype[Any]) -> None:
    """Write ids, numbers or texts, as an array of their type; of wide ones a few at a time."""
    for part in blocks(len(given), rows_at_once(dtype.itemsize)):
        out.append(np.asarray(given[part], dtype))


def _write_sorted(table: PartTable, name: str, folder: Path, scratch: Path) -> None:
    """Write the order of the ids, and for the edges the ids in it, where it is not that of the rows."""
    known = mapped(folder / "ids.npy")
    some = rows_at_once(known.itemsize)
    (folder / "id_order.npy").unlink(missing_ok=True)
    if all(
        (known[part.start : part.stop] < known[part.start + 1 : part.stop + 1]).all()
        for part in blocks(len(known) - 1, some)
    ):
        return
    order = np.argsort(known, kind="stable")
    repeated = repeated_ids(known, order)
    if repeated:
        shown = (f"{str(known[row])!r} ({table.places([row], 1)})" for row in repeated)
        more = len(repeated) if len(repeated) < 20 else 20
        raise GraphError(
            f"Node ids are given more than once in {table.where}: {listed(shown, more)}.",
            remedy="Keep one row a node, or choose the id column with --column NAME=id.",
        )
    with appending(folder / "id_order.npy", index_dtype(len(known))) as out:
        for part in blocks(len(known)):
            out.append(order[part])
    with appending(scratch / SORTED, known.dtype) as out:
        for part in blocks(len(known), some):
            out.append(known[order[part]])


class IdLookup:
    """Finds the rows of ids that a column of edges holds."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._ids = mapped(folder / "ids.npy")
        has_order = (folder / "id_order.npy").exists()
        self._order = mapped(folder / "id_order.npy") if has_order else None
        self._sorted = mapped(scratch / SORTED) if has_order else self._ids
        # Ids that count up without a gap are row numbers but for the first of them.
        count = self._ids.dtype.kind == "i" and not has_order
        self._counts = count and int(self._ids[-1]) - int(self._ids[0]) == len(self._ids) - 1

    def __contains__(self, text: str) -> bool:
        return bool(self._rows(as_keys([text], self._ids.dtype))[0] >= 0)

    def rows(self, column: Any) -> Array:
        """Return the row of each id in an Arrow array (int64), -1 where no node has it."""
        given = ids(column)
        dtype = self._ids.dtype
        numbers = as_integers(given) if dtype.kind == "i" else None
        if numbers is not None:
            return self._rows(numbers)
        texts = as_texts(given)
        parts = blocks(len(texts), rows_at_once(dtype.itemsize))
        return np.concatenate([np.empty(0, np.int64), *(self._rows(as_keys(texts[part], dtype)) for part in parts)])

    def _rows(self, keys: Array) -> Array:
        found = np.full(len(keys), -1, np.int64)
        if keys.dtype == object:
            can, known = possible(keys, self._ids.dtype)
            found[can] = self._rows(known)
            return found
        if self._counts:
            first = int(self._ids[0])
            inside = (keys >= first) & (keys <= int(self._ids[-1]))
            found[inside] = keys[inside] - first
            return found
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._ids) - 1)
        known = self._sorted[place] == keys
        row = place if self._order is None else self._order[place]
        found[known] = row[known]
        return found
