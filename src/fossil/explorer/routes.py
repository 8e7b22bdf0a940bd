"""Which path is answered by what."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version

import numpy as np

from fossil.explorer.asking import Query, RefusedError
from fossil.explorer.explored import ExploredRun
from fossil.explorer.serving import Answer, Routes, as_json
from fossil.graph.graph import Array
from fossil.report.contract import Meta, plain
from fossil.report.html import page

_LONGEST_TEXT = 500  # characters of a search
_LONGEST_NAME = 4000  # of a column
_MOST_FOUND = 200
_MOST_IDS = 500
_MOST_ROWS = 200  # of a table at once
_UNSCORED = "Nothing is scored while a run is explored: fossil evaluate and fossil report do."


def routes_of(explored: ExploredRun) -> Routes:
    """Return what the server of one run answers; `frontend/DATA.md` has the list."""
    meta = Meta(
        version=version("fossil-gnn"),
        kind="explore",
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        runs=[explored.meta],
        scores=None,
        unscored=_UNSCORED,
    )
    told, shown = as_json(plain(meta)), page(plain(meta)).encode()
    nodes = len(explored)

    def of_run(query: Query) -> Query:
        query.number("run", below=1)
        return query

    def coordinates(query: Query) -> Answer:
        of_run(query)
        return _binary(explored.coordinates)

    def column(query: Query) -> Answer:
        name = of_run(query).text("name", _LONGEST_NAME)
        if name not in explored.columns:
            raise RefusedError("There is no such column.", HTTPStatus.NOT_FOUND)
        return _binary(explored.columns[name].values)

    def ids(query: Query) -> Answer:
        return as_json([explored.ids[row] for row in of_run(query).numbers("rows", nodes, _MOST_IDS)])

    def find(query: Query) -> Answer:
        text, limit = of_run(query).text("text", _LONGEST_TEXT), query.number("limit", _MOST_FOUND + 1)
        return as_json(explored.ids.find(text, limit))

    def table(query: Query) -> Answer:
        start, count = of_run(query).number("start", nodes), query.number("count", _MOST_ROWS + 1)
        by, descending = query.text("by", _LONGEST_NAME, default=""), query.number("descending", 2, default=0)
        if by and by not in explored.columns:
            raise RefusedError("There is no such column.", HTTPStatus.NOT_FOUND)
        return as_json(plain(explored.table.page(start, count, by, descending=bool(descending))))

    def transport(query: Query) -> Answer:
        a, b = (of_run(query).number(name, nodes) for name in ("a", "b"))
        return as_json(plain(explored.plan(a, b)))

    return {
        "": lambda query: Answer(shown, "text/html; charset=utf-8", "frame-ancestors 'none'"),
        "api/meta": lambda query: told,
        "api/coordinates": coordinates,
        "api/column": column,
        "api/ids": ids,
        "api/find": find,
        "api/node": lambda query: as_json(plain(explored.node(of_run(query).number("row", nodes)))),
        "api/transport": transport,
        "api/table": table,
    }


def _binary(array: Array) -> Answer:
    """Return the numbers of an array, little endian, row by row."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return Answer(little.data.cast("B"), "application/octet-stream")
