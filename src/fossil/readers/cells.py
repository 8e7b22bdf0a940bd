"""The cells of a node table: text, numbers, dates, truth values or nothing, and how each is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fossil.errors import GraphError
from fossil.graph.graph import Array
from fossil.graph.troubles import listed
from fossil.readers.dates import read_dates

Column: TypeAlias = "Sequence[object] | Array"

_TRUTH = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "1": 1.0, "1.0": 1.0}
_TRUTH |= {"false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0, "0": 0.0, "0.0": 0.0}

# What stands for nothing where a number is expected, in small letters. Among categories only the empty cell does:
# NA may be Namibia.
_GAPS = frozenset(("", "na", "n/a", "#na", "#n/a", "nan", "-nan", "null", "none", "<na>", "nat"))

_LONGEST_NUMBER = 1000  # letters; what is longer is neither a number nor a sign for none

DATES = ("date", "calendar")
_WANTED = {"boolean": "neither true nor false", **dict.fromkeys(DATES, "no date")}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """N nodes and their columns, cells as the source gave them (text, numbers, truth values, None).

    Attributes:
        where: the source, for messages.
        ids: of the nodes.
        columns: by name.
        id_column: the column that the ids come from.
        lines: the place of every row in its source; the ids where it has none.
        unit: what such a place is.
    """

    where: str
    ids: Array
    columns: Mapping[str, Column]
    id_column: str = ""
    lines: Sequence[object] | None = None
    unit: str = "line"

    def places(self, rows: Sequence[int] | Array) -> str:
        """Return in words where the first few of these rows are.

        >>> NodeTable("n.csv", np.arange(9), {}, lines=range(2, 11)).places([0, 1, 4, 5])
        'lines 2, 3, 6 and 1 more'
        """
        unit, lines = (self.unit, self.lines) if self.lines is not None else ("node", [repr(str(i)) for i in self.ids])
        return places(unit, lines, rows)


def places(unit: str, lines: Sequence[object], rows: Sequence[int] | Array) -> str:
    """Return in words where the first few of these rows are: `lines 3, 7, 9 and 4 more`."""
    return f"{unit}{'s' if len(rows) > 1 else ''} {listed((lines[row] for row in rows), len(rows))}"


class Numbers(NamedTuple):
    """One column as N doubles, which cells are empty (N), and the rows whose cells cannot be read."""

    values: Array
    gaps: Array
    unreadable: list[int]


def read_numbers(table: NodeTable, name: str, role: str, day_first: bool | None = None) -> Numbers:
    """Read one column as numbers; a cell that says so (NA, null, nan and the like) is empty.

    Args:
        table: the nodes.
        name: of the column.
        role: `boolean` reads truth values (true, yes, 1, ...) as 1 and 0, `date` and `calendar` read dates as days
            since 1970-01-01; any other role reads numbers.
        day_first: whether 03/04/2021 is in April; such cells are no dates when None.
    """
    cells = table.columns[name]
    if role == "boolean":
        values = np.asarray([_TRUTH.get(text.lower(), np.nan) for text in cell_texts(cells)], dtype=np.float64)
    elif role in DATES:
        values = read_dates(cell_texts(cells), day_first)
    else:
        values = as_floats(cells)
    gaps = np.zeros(len(values), dtype=bool)
    unread = np.flatnonzero(~np.isfinite(values)).tolist()
    if unread:
        plain = plain_cells(cells)
        gaps[[row for row in unread if is_gap(plain[row])]] = True
    return Numbers(values, gaps, [row for row in unread if not gaps[row]])


def refuse_unreadable(table: NodeTable, name: str, role: str, rows: Sequence[int]) -> None:
    """Raise GraphError if there are such cells; they are counted, and the first few named with their places."""
    if rows:
        cells = plain_cells(table.columns[name])
        raise unreadable_cells(table.where, name, role, [cells[row] for row in rows], len(rows), table.places(rows))


def unreadable_cells(where: str, name: str, role: str, cells: Sequence[object], count: int, places: str) -> GraphError:
    """Return what to say about `count` cells of a column that are not what its role asks for, given some of them."""
    bad = list(dict.fromkeys(repr(_shortened(cell)) for cell in cells))
    # What is a date once the order of day and month is known left just that open.
    order_is_open = role in DATES and np.isfinite(read_dates([cell_text(cell) for cell in cells], True)).any()
    return GraphError(
        f"{_cells(count, name, where)} {_WANTED.get(role, 'no finite number')}: {listed(bad, len(bad))} ({places}).",
        remedy=f"Mend or empty {'them' if count > 1 else 'it'}, or choose --column {name}=categorical or "
        f"--column {name}=drop."
        + (" Dates such as 03/04/2021 leave open which is the month: write 2021-04-03." if order_is_open else ""),
    )


def refuse_gaps(table: NodeTable, name: str, gaps: Array, remedy: str) -> None:
    """Raise GraphError if there are empty cells; they are counted, and the first few places named."""
    rows = np.flatnonzero(gaps)
    if len(rows):
        raise empty_cells(table.where, name, len(rows), table.places(rows), remedy)


def empty_cells(where: str, name: str, count: int, places: str, remedy: str) -> GraphError:
    """Return what to say about `count` empty cells of a column where nothing fills them."""
    return GraphError(f"{_cells(count, name, where)} empty ({places}).", remedy=remedy)


def _cells(count: int, name: str, where: str) -> str:
    return f"{count:,} cell{'s' if count > 1 else ''} of column {name!r} in {where} {'are' if count > 1 else 'is'}"


def is_gap(cell: object) -> bool:
    """Tell whether a cell holds nothing where a number is expected.

    >>> is_gap(" N/A "), is_gap(float("nan")), is_gap("unknown")
    (True, True, False)
    """
    text = cell_text(cell)
    return len(text) <= _LONGEST_NUMBER and text.lower() in _GAPS


def as_floats(cells: Column) -> Array:
    """Return doubles, NaN where a cell is no number."""
    try:
        values = np.array(cells, dtype=np.float64)
        if values.ndim == 1:
            return values
    except (TypeError, ValueError, OverflowError):
        pass
    return np.asarray([_as_float(cell) for cell in plain_cells(cells)], dtype=np.float64)


def _as_float(cell: Any) -> float:
    if isinstance(cell, str) and len(cell) > _LONGEST_NUMBER:
        return float("nan")
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def plain_cells(column: Column) -> Sequence[object]:
    """Return plain Python values, so that a NumPy scalar is written like the number it is."""
    return list(column.tolist()) if isinstance(column, np.ndarray) else column


def cell_texts(column: Column) -> list[str]:
    """Return the cells as text, empty where they hold nothing."""
    return [cell_text(cell) for cell in plain_cells(column)]


def cell_text(cell: object) -> str:
    """Return a cell as text, empty where it holds nothing.

    >>> cell_text(3.0), cell_text(" red "), cell_text(None), cell_text(float("nan"))
    ('3', 'red', '', '')
    """
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, bytes):
        return as_text(cell).strip()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # a gap turns integers into floats: 3.0 is still category 3
    return str(cell).strip()


def as_text(cell: bytes) -> str:
    """Return the text that bytes are, as some programs write it to Parquet and NPZ files.

    >>> as_text("Lomé".encode()), as_text(b"\\xff")
    ('Lomé', '\\\\xff')
    """
    return cell.decode("utf-8", "backslashreplace")


def _shortened(cell: object, longest: int = 40) -> object:
    return cell if not isinstance(cell, str) or len(cell) <= longest else cell[: longest - 3] + "..."
