"""Pandas data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fossil.errors import GraphError
from fossil.readers.base import Found, Reader, Request, instance_of
from fossil.readers.cells import Column
from fossil.readers.edges import named_ends
from fossil.readers.frame import INDEX, Frame, Index
from fossil.readers.tables import raw_from_frames

if TYPE_CHECKING:
    import pandas as pd


class DataFrames(Reader):
    """Two data frames, or one of edges; where no column holds the ids that edges name, the index of the nodes does."""

    name = "frames"
    form = "(nodes, edges) as data frames or the edges alone"
    has_columns = True

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is a data frame, or a pair of them, of which the first may be missing."""
        nodes, edges = _parts(source)
        return _is_frame(edges) and (nodes is None or _is_frame(nodes))

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read them.

        Raises:
            GraphError: a column or a cell cannot be used.
        """
        parts = _parts(source)
        nodes = None if parts[0] is None else _frame(parts[0], "the nodes data frame")
        edges = _frame(parts[1], "the edges data frame")
        if nodes is None and named_ends(edges) is None:
            raise GraphError(
                f"A data frame alone is taken as edges, and this one has the columns {', '.join(edges.columns)}.",
                remedy="Give (nodes, edges), or name the two ends source and target.",
            )
        name = request.name or "graph"
        return Found(*raw_from_frames(nodes, edges, request.choices, name, treatment=request.treatment))


def _parts(source: Any) -> tuple[Any, Any]:
    return source if isinstance(source, tuple) and len(source) == 2 else (None, source)


def _is_frame(part: Any) -> bool:
    return instance_of(part, "pandas", "DataFrame")


def _frame(data: pd.DataFrame, where: str) -> Frame:
    columns: dict[str, Column] = {}
    for position, key in enumerate(data.columns):
        if str(key) in columns:
            raise GraphError(f"There are two columns {str(key)!r} in {where}.", remedy="Give each its own name.")
        columns[str(key)] = _cells(data.iloc[:, position])
    name = INDEX if data.index.name is None or str(data.index.name) in columns else str(data.index.name)
    index = Index(_cells(data.index.to_series()), name)
    return Frame(where, columns, range(1, len(data) + 1), unit="row", index=index)


def _cells(series: pd.Series[Any]) -> Column:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
        return series.to_numpy()
    return [None if gap else cell for cell, gap in zip(series.tolist(), series.isna(), strict=True)]
