"""The nodes of a run as a table, a page at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from fossil.explorer.ids import Ids
from fossil.graph.graph import Array
from fossil.report.columns import NodeColumn
from fossil.report.contract import TablePage


class Table:
    """Rows in the order of the graph, or by the values of a column.

    Args:
        ids: of the nodes.
        columns: their values.
    """

    def __init__(self, ids: Ids, columns: Sequence[NodeColumn]) -> None:
        self._ids, self._columns = ids, {column.name: column for column in columns}
        self._sorted: tuple[str, bool] | None = None
        self._order: Array | None = None  # the last one that was asked for: whoever pages on asks for it again
        self._sorting = threading.Lock()

    def page(self, start: int, count: int, by: str = "", *, descending: bool = False) -> TablePage:
        """Return some rows.

        Args:
            start: the first of them.
            count: how many, fewer at the end.
            by: name of a column; the order of the graph when empty. Equal values stay in that order, and nodes
                without a value come last.
            descending: the greatest value first.
        """
        total = len(self._ids)
        order = self._ordered(by, descending)
        places = np.arange(start, min(start + count, total))
        rows = (places if order is None else order[places]).tolist()
        shown = [[column.shown(row) for column in self._columns.values()] for row in rows]
        titles = [column.title for column in self._columns.values()]
        return TablePage(total, rows, [self._ids[row] for row in rows], [*self._columns], titles, shown)

    def _ordered(self, by: str, descending: bool) -> Array | None:
        if not by:
            return None
        with self._sorting:
            if self._sorted != (by, descending):
                self._order, self._sorted = _order(self._columns[by], descending), (by, descending)
            return self._order


def _order(column: NodeColumn, descending: bool) -> Array:
    values = column.values
    known = np.isfinite(values) if column.names is None else values >= 0
    rows = np.flatnonzero(known)
    keys = values[rows]
    if column.names is not None:  # categories by their names, not by their numbers
        ranks = np.empty(len(column.names), np.int64)
        # Not as an array of texts, each of which takes as much memory as the longest.
        ranks[sorted(range(len(column.names)), key=column.names.__getitem__)] = np.arange(len(column.names))
        keys = ranks[keys]
    order = np.argsort(-keys if descending else keys, kind="stable")
    return np.concatenate([rows[order], np.flatnonzero(~known)]).astype(np.int32)
