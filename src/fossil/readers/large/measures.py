"""What a plan must know about a column, gathered batch by batch."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from fossil.graph.graph import Array
from fossil.readers.cells import NodeTable, as_floats, cell_texts, is_gap, plain_cells, read_numbers
from fossil.readers.column import ColumnPlan
from fossil.readers.dates import order_evidence, read_dates
from fossil.readers.planning import FEW_CODES

_EXAMPLES = 20


@dataclass
class Look:
    """What the cells of a column look like, as `fossil.readers.planning` asks it of a whole column.

    Attributes:
        most: how many distinct texts are counted before counting is given up; None for all.
        rows: cells.
        present: those that are not empty.
        told: those that do not say NA, null and the like either.
        truths: those that say true or false.
        numbers: those that are numbers.
        dates: those that are dates where days come first, and where months do.
        orders: whether some cell has its day first, and its month first, beyond doubt.
        counts: how often each text comes; None where there are more than `most`.
        example: the first text.
    """

    most: int | None
    rows: int = 0
    present: int = 0
    told: int = 0
    truths: int = 0
    numbers: int = 0
    dates: tuple[int, int] = (0, 0)
    orders: tuple[bool, bool] = (False, False)
    counts: Counter[str] | None = field(default_factory=Counter)
    example: str = ""

    def add(self, table: NodeTable, name: str) -> None:
        """Look at the next cells."""
        cells = table.columns[name]
        present = [text for text in cell_texts(cells) if text]
        self.rows += len(cells)
        self.present += len(present)
        self.told += sum(not is_gap(text) for text in present)
        if present and not self.example:
            self.example = present[0]
        self.truths += sum(text.lower() in ("true", "false") for text in present)
        self.numbers += int(np.count_nonzero(~np.isnan(as_floats(cells))))
        if self.counts is not None:
            self.counts.update(present)
            if self.most is not None and len(self.counts) > self.most:
                self.counts = None

    def add_dates(self, table: NodeTable, name: str) -> None:
        """Look at the next cells as dates."""
        present = [text for text in cell_texts(table.columns[name]) if text]
        read = (int(np.count_nonzero(~np.isnan(read_dates(present, order)))) for order in (True, False))
        self.dates = tuple(before + more for before, more in zip(self.dates, read, strict=True))  # type: ignore[assignment]
        self.orders = tuple(a or b for a, b in zip(self.orders, order_evidence(present), strict=True))  # type: ignore[assignment]

    @property
    def day_first(self) -> bool | None:
        """Whether 03/04/2021 is in April; None where nothing in the column tells."""
        day, month = self.orders
        return None if day == month else day


@dataclass(frozen=True)
class Moments:
    """Count, mean and (population) standard deviation of numbers that come in parts.

    The deviation is kept, not its square, and parts are joined in the units of the larger: squares of very large or
    tiny numbers leave the range of a double.
    """

    count: int = 0
    mean: float = 0.0
    deviation: float = 0.0

    @classmethod
    def of(cls, values: Array) -> Moments:
        """Return those of an array."""
        if len(values) == 0:
            return cls()
        largest = float(np.abs(values).max())
        if largest == 0:
            return cls(len(values))
        unit = values / largest
        return cls(len(values), float(unit.mean() * largest), float(unit.std() * largest))

    def joined(self, other: Moments) -> Moments:
        """Return those of both parts together (Chan, Golub and LeVeque 1979)."""
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        share = other.count / count
        apart = other.mean - self.mean
        unit = max(self.deviation, other.deviation, abs(apart)) or 1.0
        first, second, between = self.deviation / unit, other.deviation / unit, apart / unit
        variance = (1 - share) * first**2 + share * second**2 + share * (1 - share) * between**2
        return Moments(count, self.mean + apart * share, unit * math.sqrt(variance))


@dataclass
class Measure:
    """The numbers of a column whose role is known.

    Attributes:
        column: its role, and the order of day and month.
        rows: cells.
        gaps: empty cells, and the rows of the first ones.
        unreadable: cells that are no numbers, and the rows and cells of the first ones.
        least, greatest: of the numbers.
        zeros: how many are zero.
        moments: of the numbers.
        few: the distinct ones, None where they are too many to be codes.
    """

    column: ColumnPlan
    rows: int = 0
    gaps: int = 0
    gap_rows: list[int] = field(default_factory=list)
    unreadable: int = 0
    unreadable_rows: list[int] = field(default_factory=list)
    unreadable_cells: list[object] = field(default_factory=list)
    least: float = math.inf
    greatest: float = -math.inf
    zeros: int = 0
    moments: Moments = field(default_factory=Moments)
    few: set[float] | None = field(default_factory=set)

    def add(self, table: NodeTable, first: int) -> None:
        """Measure the next cells, of which the first is in row `first`."""
        name = self.column.name
        read = read_numbers(table, name, self.column.role, self.column.day_first)
        self.rows += len(read.values)
        missing = np.flatnonzero(read.gaps)
        self.gaps += len(missing)
        self.gap_rows += [first + int(row) for row in missing[: _EXAMPLES - len(self.gap_rows)]]
        if read.unreadable:
            rows, plain = read.unreadable[: _EXAMPLES - len(self.unreadable_rows)], plain_cells(table.columns[name])
            self.unreadable += len(read.unreadable)
            self.unreadable_rows += [first + row for row in rows]
            self.unreadable_cells += [plain[row] for row in rows]
        present = read.values[np.isfinite(read.values)]
        if len(present) == 0:
            return
        self.least, self.greatest = min(self.least, float(present.min())), max(self.greatest, float(present.max()))
        self.zeros += int(np.count_nonzero(present == 0))
        self.moments = self.moments.joined(Moments.of(present))
        if self.few is not None:
            self.few |= set(_first_distinct(present))
            self.few = self.few if len(self.few) < FEW_CODES.stop else None

    @property
    def present(self) -> int:
        """How many numbers there are."""
        return self.moments.count


def _first_distinct(values: Array) -> list[float]:
    """Return the distinct values, or more of them than codes have where they are many; a look at a few settles most."""
    some = np.unique(values[:1000])
    distinct: list[float] = (some if len(some) >= FEW_CODES.stop else np.unique(values))[: FEW_CODES.stop].tolist()
    return distinct
