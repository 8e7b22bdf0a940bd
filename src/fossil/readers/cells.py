"""The cells of a node table: text, numbers, truth values or nothing, and how each is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fossil.errors import GraphError
from fossil.graph.graph import Array

Column: TypeAlias = "Sequence[object] | Array"

_TRUTH = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "1": 1.0, "1.0": 1.0}
_TRUTH |= {"false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0, "0": 0.0, "0.0": 0.0}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """N nodes and their columns, cells as the source gave them (text, numbers, truth values, None)."""

    where: str
    ids: Array
    columns: Mapping[str, Column]
    id_column: str = ""


def finite_numbers(table: NodeTable, name: str, role: str) -> Array:
    """Return one column as N doubles.

    Args:
        table: the nodes.
        name: of the column.
        role: `boolean` reads truth values (true, yes, 1, ...) as 1 and 0; any other role reads numbers.

    Raises:
        GraphError: a cell is not a finite number, or not a truth value; it is named.
    """
    cells = table.columns[name]
    if role == "boolean":
        truths = [_TRUTH.get(cell_text(cell).lower(), np.nan) for cell in plain_cells(cells)]
        values = np.asarray(truths, dtype=np.float64)
    else:
        values = as_floats(cells)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        value = plain_cells(cells)[int(bad[0])]
        shown = "empty" if not cell_text(value) and not isinstance(value, float) else repr(value)
        wanted = "true or false" if role == "boolean" else "a finite number"
        raise GraphError(
            f"Column {name!r} of node {str(table.ids[bad[0]])!r} in {table.where} is {shown}, not {wanted} "
            f"({len(bad):,} such cells).",
            remedy=f"Fill the cells, or choose --column {name}=categorical or --column {name}=drop.",
        )
    return values


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
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def plain_cells(column: Column) -> Sequence[object]:
    """Return plain Python values, so that a NumPy scalar is written like the number it is."""
    return list(column.tolist()) if isinstance(column, np.ndarray) else column


def cell_text(cell: object) -> str:
    """Return a cell as text, empty where it holds nothing.

    >>> cell_text(3.0), cell_text(" red "), cell_text(None), cell_text(float("nan"))
    ('3', 'red', '', '')
    """
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # a gap turns integers into floats: 3.0 is still category 3
    return str(cell).strip()
