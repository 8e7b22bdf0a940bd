"""From the columns of a node table to a feature matrix, by a plan that can be read, saved and applied again.

The plan is made once, on the data it is trained with: it remembers means, standard deviations and categories,
so that new nodes get exactly the columns that the old ones had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError, nearest
from fossil.graph.findings import Finding
from fossil.graph.graph import Features
from fossil.graph.troubles import Troubles
from fossil.guard.boundary import reason
from fossil.readers.cells import NodeTable
from fossil.readers.column import MEASURED, ROLES, ColumnPlan, some

_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "role": (str,),
    "mean": (float, int),
    "scale": (float, int),
    "categories": (list, tuple),
    "note": (str,),
    "fill": (float, int, str, type(None)),
    "indicator": (bool,),
    "start": (float, int),
    "day_first": (bool, type(None)),
}
"""What may stand in a plan that comes from a file."""


@dataclass(frozen=True)
class EncodingPlan:
    """What becomes of every column, in order; `structural` holds the scaling of features built from the edges."""

    columns: tuple[ColumnPlan, ...] = ()
    sparse: bool = False
    structural: tuple[ColumnPlan, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the feature columns that `encode` returns."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def label_column(self) -> str | None:
        """Name of the column that holds the classes, if there is one."""
        return next((column.name for column in self.columns if column.role == "label"), None)

    def encode(self, table: NodeTable) -> tuple[Features, tuple[str, ...], tuple[Finding, ...]]:
        """Return N×F float32 features (dense or CSR), the F names, and what was noticed.

        Raises:
            GraphError: a column of the plan is missing, or a cell cannot be read as its role asks.
        """
        features, findings = self.encode_cells(table)
        return features, self.feature_names, (*self.notices(table.columns), *(one for each in findings for one in each))

    def encode_cells(self, table: NodeTable) -> tuple[Features, list[tuple[Finding, ...]]]:
        """Return N×F float32 features (dense or CSR), and what was noticed in the cells of each column that has some.

        Raises:
            GraphError: as `encode` does.
        """
        used, lost = [column for column in self.columns if column.feature_names], Troubles(table.where)
        for column in used:
            if column.name not in table.columns:
                lost.add(
                    f"{table.where} has no column {column.name!r}, which the encoding plan needs.",
                    remedy=nearest(column.name, table.columns),
                )
        lost.raise_any()
        findings, troubles = [], Troubles(table.where)
        rows, places, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        width = 0
        for column in used:
            with troubles.gathered():
                entries = column.encode(table)
                rows.append(entries.rows)
                places.append(entries.places + width)
                values.append(entries.values.astype(np.float32))
                findings.append(entries.findings)
            width += len(column.feature_names)
        troubles.raise_any()
        row, place, value = np.concatenate(rows), np.concatenate(places), np.concatenate(values)
        shape = (len(table.ids), width)
        features: Features
        if self.sparse:
            features = sp.csr_array((value, (row, place)), shape=shape)
        else:
            features = np.zeros(shape, np.float32)
            features[row, place] = value
        return features, findings

    def notices(self, columns: Iterable[str]) -> Iterator[Finding]:
        """Yield what is to be said of the columns of a table, whatever their cells."""
        known = {column.name for column in self.columns}
        yield from some("columns unknown to the plan", [c for c in columns if c not in known], "ignored")
        constant = [c.name for c in self.columns if c.role in MEASURED and not c.scale]
        yield from some("constant columns", constant, "encoded as zeros")
        empty = [c.name for c in self.columns if c.role == "drop" and c.note]
        yield from some("empty columns", empty, "left out")

    def describe(self) -> list[tuple[str, str, str, int]]:
        """Return one row a column for a printed table: column, role, how it is encoded, width."""
        every = (*self.columns, *self.structural)
        return [(c.name, c.role, c.describe(), len(c.feature_names)) for c in every]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values for a JSON file."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], name: str = "This") -> Self:
        """Rebuild a plan from what `to_json` gave.

        Args:
            value: what it gave.
            name: what to call it in an error.

        Raises:
            GraphError: the value is not an encoding plan.
        """
        try:
            return cls(
                columns=tuple(_column_from_json(part) for part in value["columns"]),
                sparse=bool(value["sparse"]),
                structural=tuple(_column_from_json(part) for part in value["structural"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise GraphError(
                f"{name} is not an encoding plan ({reason(error)}).", remedy="Use the plan saved beside the model."
            ) from error


def _column_from_json(value: Mapping[str, Any]) -> ColumnPlan:
    for key, kinds in _KINDS.items():
        if not isinstance(value.get(key, None if type(None) in kinds else kinds[0]()), kinds):
            raise TypeError(f"{key} of column {value.get('name')!r} is {value[key]!r}")
    if value["role"] not in ROLES:
        raise ValueError(f"unknown role {value['role']!r}")
    if not all(isinstance(category, str) for category in value["categories"]):
        raise TypeError(f"a category of column {value['name']!r} is no text")
    numbers = [value.get(key) for key in ("mean", "scale", "fill", "start")]
    if not all(math.isfinite(number) for number in numbers if isinstance(number, int | float)):
        raise ValueError(f"a number of column {value['name']!r} is not finite")
    return ColumnPlan(**{**value, "categories": tuple(value["categories"])})
