"""A table as it was read: named columns, an index, and the place of every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fossil.errors import GraphError
from fossil.graph.graph import Array
from fossil.readers.cells import Column, as_text, places

INDEX = "(index)"  # what an index without a name is called
_INDEX_NAMES = (INDEX, "Unnamed: 0", "__index_level_0__")  # the last two are what pandas makes of one


class Index(NamedTuple):
    """A column that numbers or names the rows of a table; pandas writes and keeps one beside the columns.

    Attributes:
        cells: one a row.
        name: what to call it.
        in_file: whether it is a column of a file, so that a user expects to hear of it.
    """

    cells: Column
    name: str = INDEX
    in_file: bool = False


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of equal length, their index, and the place of every row in its source, for error messages."""

    where: str
    columns: Mapping[str, Column]
    lines: Sequence[object]
    unit: str = "line"
    index: Index | None = None

    def cells(self, name: str) -> Column:
        """Return a column, or the index, by its name."""
        return self.index.cells if self.index is not None and name == self.index.name else self.columns[name]

    def places(self, rows: Sequence[int]) -> str:
        """Return in words where the first few of these rows are."""
        return places(self.unit, self.lines, rows)


def checked_header(where: str, cells: Sequence[str]) -> list[str]:
    """Return the names of the columns of a table.

    Raises:
        GraphError: two have one name, or all are numbers, so that the header is missing.
    """
    names = [cell.strip() or (f"column {place + 1}" if place else INDEX) for place, cell in enumerate(cells)]
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


def without_index(columns: Mapping[str, Column]) -> tuple[dict[str, Column], Index | None]:
    """Return the columns of a file, and apart from them the unnamed one that pandas wrote its index into."""
    name = next((name for name in _INDEX_NAMES if name in columns), None)
    if name is None or len(columns) < 2:
        return dict(columns), None
    return {other: cells for other, cells in columns.items() if other != name}, Index(columns[name], in_file=True)


def id_texts(column: Column) -> list[str]:
    """Return ids as text, exactly as written; missing ids become empty."""
    cells: Iterable[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return [cell if isinstance(cell, str) else _id_text(cell) for cell in cells]


def _id_text(cell: object) -> str:
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, bytes):
        return as_text(cell)
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
