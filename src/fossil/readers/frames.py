"""Pairs of pandas data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fossil.errors import GraphError
from fossil.readers.base import Found, Reader, Request, instance_of
from fossil.readers.cells import Column
from fossil.readers.tables import ID_NAMES, Frame, raw_from_frames

if TYPE_CHECKING:
    import pandas as pd


class DataFrames(Reader):
    """Two data frames; an index that is not just a row count serves as the id where no column does."""

    name = "frames"
    form = "(nodes, edges) as data frames"
    has_columns = True

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is a pair of data frames."""
        pair = isinstance(source, tuple) and len(source) == 2
        return pair and all(instance_of(part, "pandas", "DataFrame") for part in source)

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read them.

        Raises:
            GraphError: a column or a cell cannot be used.
        """
        nodes, edges = _frame(source[0], "the nodes data frame", True), _frame(source[1], "the edges data frame")
        return Found(*raw_from_frames(nodes, edges, request.choices, request.name or "graph"))


def _frame(data: pd.DataFrame, where: str, index_may_be_id: bool = False) -> Frame:
    import pandas as pd

    named = any(str(column).lower() in ID_NAMES for column in data.columns)
    if index_may_be_id and not named and not isinstance(data.index, pd.RangeIndex):
        data = data.reset_index(names="id")
    if data.shape[1] == 0:
        raise GraphError(f"There are no columns in {where}.", remedy="Give at least an id column.")
    columns: dict[str, Column] = {}
    for position, key in enumerate(data.columns):
        series = data.iloc[:, position]
        if str(key) in columns:
            raise GraphError(f"There are two columns {str(key)!r} in {where}.", remedy="Give each its own name.")
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
            columns[str(key)] = series.to_numpy()
        else:
            columns[str(key)] = [
                None if gap else cell for cell, gap in zip(series.tolist(), series.isna(), strict=True)
            ]
    return Frame(where, columns, range(1, len(data) + 1), unit="row")
