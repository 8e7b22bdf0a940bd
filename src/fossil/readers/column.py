"""How one column of a node table becomes features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from fossil.graph.findings import Finding
from fossil.graph.graph import Array
from fossil.graph.troubles import Troubles
from fossil.readers.cells import DATES, NodeTable, cell_texts, read_numbers, refuse_gaps, refuse_unreadable
from fossil.readers.dates import CYCLES, as_date, cyclic_parts

ColumnRole: TypeAlias = Literal["numeric", "boolean", "categorical", "date", "calendar", "drop", "label", "id"]

ROLES: tuple[str, ...] = get_args(ColumnRole)
MEASURED = ("numeric", *DATES)  # what is standardised
_WORDS = {"boolean": "0 or 1", "categorical": "one-hot", "drop": "left out", "label": "class", "id": "node id"}


class Entries(NamedTuple):
    """What one column gives to the feature matrix: its entries that are not zero, and what was noticed."""

    rows: Array
    places: Array
    values: Array
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class ColumnPlan:
    """How one column is encoded.

    Attributes:
        name: of the column.
        role: what it is.
        mean: taken off a numeric column, or off the days of a date since `start`.
        scale: what the rest is divided by; 0 marks a constant column, which becomes zeros.
        categories: in the order of their features.
        note: why it is left out.
        fill: what an empty cell becomes, before scaling; empty cells are refused when None.
        indicator: whether one more feature tells empty cells.
        start: the earliest date, in days since 1970-01-01.
        day_first: whether 03/04/2021 is in April; None where nothing in the column tells.
    """

    name: str
    role: ColumnRole
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    note: str = ""
    fill: float | str | None = None
    indicator: bool = False
    start: float = 0.0
    day_first: bool | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the feature columns this column becomes."""
        names: tuple[str, ...] = ()
        if self.role == "categorical":
            names = tuple(f"{self.name}={category}" for category in self.categories)
        elif self.role in (*MEASURED, "boolean"):
            names = (self.name,)
        if self.role == "calendar":
            names += tuple(f"{self.name}_{cycle}" for cycle in CYCLES)
        return (*names, f"{self.name}_is_missing") if self.indicator else names

    def standardise(self, values: Array) -> Array:
        """Return (values - mean) / scale; zeros for a constant column."""
        return (values - self.mean) / self.scale if self.scale else np.zeros(len(values))

    def numbers(
        self, table: NodeTable, remedy: str = "Fill what is empty, or train anew with --missing median."
    ) -> tuple[Array, Array]:
        """Return the column as N doubles with empty cells filled, and which cells those are (N).

        Args:
            table: the nodes.
            remedy: what to do about empty cells where there is nothing to fill them with.

        Raises:
            GraphError: a cell cannot be read, or is empty and there is nothing to fill it with.
        """
        read, troubles = read_numbers(table, self.name, self.role, self.day_first), Troubles(table.where)
        with troubles.gathered():
            refuse_unreadable(table, self.name, self.role, read.unreadable)
        with troubles.gathered():
            if self.fill is None:
                refuse_gaps(table, self.name, read.gaps, remedy)
        troubles.raise_any()
        return np.where(read.gaps, self.fill or 0.0, read.values), read.gaps

    def encode(self, table: NodeTable) -> Entries:
        """Return the entries of the feature columns, counted from the first of this column.

        Raises:
            GraphError: a cell cannot be read as the role asks, or is empty and there is nothing to fill it with.
        """
        if self.role == "categorical":
            return self._one_hot(table)
        values, gaps = self.numbers(table)
        columns = [self.standardise(values - self.start) if self.role in MEASURED else values]
        if self.role == "calendar":
            columns += list(cyclic_parts(np.where(gaps, np.nan, values)).T)
        if self.indicator:
            columns.append(gaps.astype(np.float64))
        matrix = np.stack(columns, axis=1)
        rows, places = np.nonzero(matrix)
        filled = f"filled with {self._shown(self.fill)}"
        return Entries(rows, places, matrix[rows, places], self._about_gaps(table, gaps, filled))

    def _one_hot(self, table: NodeTable) -> Entries:
        number = {category: place for place, category in enumerate(self.categories)}
        texts = cell_texts(table.columns[self.name])
        gaps = np.asarray([not text for text in texts], dtype=bool)
        codes = np.asarray([number.get(text or str(self.fill or ""), -1) for text in texts], dtype=np.int64)
        unknown = [text for text, code in zip(texts, codes, strict=True) if code < 0 and text]
        findings = (
            *some(f"unknown categories in column {self.name!r}", unknown, "encoded as zeros"),
            *self._about_gaps(table, gaps, f"filled with {self.fill!r}" if self.fill else "encoded as zeros"),
        )
        rows = np.flatnonzero(codes >= 0)
        places = codes[rows]
        if self.indicator:
            rows, places = (
                np.concatenate([rows, np.flatnonzero(gaps)]),
                np.concatenate([places, np.full(int(gaps.sum()), len(self.categories))]),
            )
        return Entries(rows, places, np.ones(len(rows)), findings)

    def _about_gaps(self, table: NodeTable, gaps: Array, done: str) -> tuple[Finding, ...]:
        ids = [str(table.ids[row]) for row in np.flatnonzero(gaps)]
        return some(f"empty cells in column {self.name!r}", ids, done)

    def _shown(self, value: float | str | None) -> str:
        """Return a value of the column as its user would write it."""
        if isinstance(value, float) and self.role in DATES:
            return as_date(value)
        return f"{value:.4g}" if isinstance(value, float) else repr(value)

    def describe(self) -> str:
        """Say in a few words how the column is encoded."""
        parts = [_WORDS[self.role] + (f" ({self.note})" if self.note else "")] if self.role in _WORDS else []
        if self.role in DATES:
            parts.append(f"days since {as_date(self.start)}")
        if self.role in MEASURED and not self.scale:
            parts.append("constant, becomes zeros")
        elif self.role in MEASURED:
            plain = (self.mean, self.scale) == (0.0, 1.0)
            sign = "+" if self.mean < 0 else "-"
            parts.append("as it is" if plain else f"(x {sign} {abs(self.mean):.4g}) / {self.scale:.4g}")
        if self.role == "calendar":
            parts.append("place in year and week")
        if self.fill is not None:
            parts.append(f"empty becomes {self._shown(self.fill)}")
        if self.indicator:
            parts.append("one column tells empty cells")
        return ", ".join(parts)


def some(kind: str, examples: Sequence[str], done: str) -> tuple[Finding, ...]:
    """Return the finding about these examples; none where there are none."""
    return (Finding(kind, len(examples), done, tuple(dict.fromkeys(examples))[:3]),) if examples else ()


def fit_scale(name: str, values: Array) -> ColumnPlan:
    """Return a numeric column plan with the mean and (population) standard deviation of `values`."""
    if len(values) == 0 or values.min() == values.max():
        return ColumnPlan(name, "numeric", mean=float(values[0]) if len(values) else 0.0, scale=0.0)
    largest = float(np.abs(values).max())  # squares of very large or tiny numbers leave the range of a double
    unit = values / largest
    return ColumnPlan(name, "numeric", mean=float(unit.mean() * largest), scale=float(unit.std() * largest))
