"""The encoding plan of a table that does not fit in memory: that of `fossil.readers.planning`, found in batches.

Three passes: what undeclared columns look like, which of them are dates, and the numbers of those that have numbers.
A pass reads the columns it needs. What needs a whole column in order, a median or the most frequent number, sorts that
one column in a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fossil.graph.assemble import encode_labels
from fossil.graph.blocks import appending, blocks
from fossil.graph.findings import Finding, Missing
from fossil.graph.graph import Array
from fossil.graph.troubles import Troubles
from fossil.progress import Progress
from fossil.readers.cells import DATES, NodeTable, empty_cells, read_numbers, unreadable_cells
from fossil.readers.column import MEASURED, ColumnPlan, ColumnRole
from fossil.readers.encoding import EncodingPlan
from fossil.readers.large.cells import cells, is_nested, is_number
from fossil.readers.large.measures import Look, Measure, Moments
from fossil.readers.large.parts import PartTable, Piece
from fossil.readers.planning import (
    FILLING,
    SPARSE_DENSITY,
    SPARSE_WIDTH,
    ColumnChoices,
    Declared,
    codes_finding,
    holds_lists,
    may_be_codes,
    nothing_to_fill_with,
    refuse_other_numbers,
    settled_roles,
    too_many_categories,
    unknown_classes,
)

NUMBERS = (*MEASURED, "boolean")


@dataclass(frozen=True)
class LargePlan:
    """How the columns of a large table are encoded, the names of its classes, and what was noticed."""

    plan: EncodingPlan
    label_names: tuple[str, ...]
    findings: tuple[Finding, ...]


def node_rows(piece: Piece, ids: Array, numeric: Sequence[str]) -> NodeTable:
    """Return the nodes of one piece of a table; columns in `numeric` are read as numbers."""
    columns = {name: cells(column, as_numbers=name in numeric) for name, column in piece.columns.items()}
    lines = range(piece.place, piece.place + piece.rows)
    return NodeTable(piece.where, ids[piece.first : piece.first + piece.rows], columns, lines=lines, unit="row")


def plan_large(
    table: PartTable, id_name: str, ids: Array, choices: ColumnChoices, scratch: Path, progress: Progress
) -> LargePlan:
    """Decide how every column of a table is encoded.

    Args:
        table: of the nodes.
        id_name: the column of their ids.
        ids: N.
        choices: about columns.
        scratch: a folder for a column that is sorted.
        progress: is told which share is done.

    Raises:
        GraphError: what `plan_columns` refuses; all in one message.
    """
    return _Planning(table, id_name, ids, choices, scratch, progress).plan()


class _Planning:
    """The passes over one table."""

    def __init__(
        self,
        table: PartTable,
        id_name: str,
        ids: Array,
        choices: ColumnChoices,
        scratch: Path,
        progress: Progress,
    ) -> None:
        self.table, self.ids, self.choices, self.scratch, self.progress = table, ids, choices, scratch, progress
        self.troubles = Troubles(table.where)
        self.names = [name for name in table.names if name != id_name]
        known = NodeTable(table.where, ids, dict.fromkeys(self.names, ()), id_name)
        self.declared = settled_roles(known, choices, self.troubles)
        self.id_name = id_name

    def plan(self) -> LargePlan:
        """Look, measure and decide."""
        roles = {name: said.role for name, said in self.declared.items()}
        for name in self.names:
            if is_nested(self.table.header[name]) and roles.get(name) not in ("drop", "label", "id"):
                with self.troubles.gathered():
                    raise holds_lists(self.table.where, name)
        self.troubles.raise_any()
        looks = self._look(roles)
        roles |= self._inferred(roles, looks)
        measures = self._measure(roles, looks)
        columns = [ColumnPlan(self.id_name, "id")]
        for name in self.names:
            with self.troubles.gathered():
                columns.append(self._planned(name, roles[name], looks.get(name), measures.get(name)))
        self.troubles.raise_any()
        columns = self._scaled(columns, measures)
        label = next((name for name in self.names if roles[name] == "label"), None)
        classes, findings = tuple[str, ...](), self._codes(columns, measures)
        if label is not None:
            counts = looks[label].counts or Counter[str]()
            classes = encode_labels(list(counts))[1]
            findings += unknown_classes(counts)
        # Features on disk are dense, so that a row is found without reading others.
        return LargePlan(EncodingPlan(tuple(columns), sparse=False), classes, findings)

    def _look(self, roles: dict[str, ColumnRole]) -> dict[str, Look]:
        """Look at columns of texts that nobody declared, and count categories and classes."""
        looks = {}
        for name in self.names:
            if roles.get(name) in ("categorical", "label"):
                looks[name] = Look(None)
            elif name not in roles and not is_number(self.table.header[name]):
                looks[name] = Look(self.choices.max_categories)
        for piece in self._pieces(list(looks), 0, 1):
            rows = node_rows(piece, self.ids, ())
            for name, look in looks.items():
                look.add(rows, name)
        return looks

    def _inferred(self, roles: dict[str, ColumnRole], looks: dict[str, Look]) -> dict[str, ColumnRole]:
        """Return what undeclared columns are; see `planning._inferred`."""
        found: dict[str, ColumnRole] = {}
        for name in self.names:
            if name in roles:
                continue
            look = looks.get(name)
            if look is None:
                found[name] = "numeric"
            elif look.told == 0:
                found[name] = "drop"
            elif look.truths == look.told:
                found[name] = "boolean"
            elif 2 * look.numbers > look.told:
                found[name] = "numeric"
        undecided = [name for name in self.names if name not in roles and name not in found]
        dated = [*undecided, *(name for name, role in roles.items() if role in DATES)]
        for name in dated:
            looks.setdefault(name, Look(0))
        for piece in self._pieces(dated, 1, 2):
            rows = node_rows(piece, self.ids, ())
            for name in dated:
                looks[name].add_dates(rows, name)
        for name in undecided:
            found[name] = "date" if 2 * max(looks[name].dates) > looks[name].told else "categorical"
        return found

    def _measure(self, roles: dict[str, ColumnRole], looks: dict[str, Look]) -> dict[str, Measure]:
        measures = {}
        for name in self.names:
            role = roles[name]
            if role in NUMBERS:
                order = looks[name].day_first if role in DATES else None
                measures[name] = Measure(ColumnPlan(name, role, day_first=order))
        plain = [name for name in measures if roles[name] == "numeric"]
        for piece in self._pieces(list(measures), 2, 3):
            rows = node_rows(piece, self.ids, plain)
            for measure in measures.values():
                measure.add(rows, piece.first)
        return measures

    def _planned(self, name: str, role: ColumnRole, look: Look | None, measure: Measure | None) -> ColumnPlan:
        declared = self.declared.get(name)
        if measure is not None:
            if declared is None and measure.present + measure.unreadable == 0 and is_number(self.table.header[name]):
                return ColumnPlan(name, "drop", note="empty")
            return self._filled(measure, declared)
        if role == "categorical":
            assert look is not None
            return self._categories(name, look, declared)
        return ColumnPlan(name, role, note="empty" if role == "drop" and declared is None else "")

    def _filled(self, measure: Measure, declared: Declared | None) -> ColumnPlan:
        """Return the plan with what empty cells become, and the earliest date; see `planning._with_fill`."""
        column, where = measure.column, self.table.where
        missing: Missing = (declared and declared.missing) or self.choices.missing
        if measure.unreadable:
            places = self.table.places(measure.unreadable_rows[:3], measure.unreadable)
            raise unreadable_cells(
                where, column.name, column.role, measure.unreadable_cells, measure.unreadable, places
            )
        if measure.gaps and missing == "refuse":
            places = self.table.places(measure.gap_rows[:3], measure.gaps)
            raise empty_cells(where, column.name, measure.gaps, places, FILLING.format(column.name))
        start = float(np.floor(measure.least)) if column.role in DATES and measure.present else 0.0
        if missing == "refuse":
            return replace(column, start=start)
        if not measure.present:
            raise nothing_to_fill_with(where, column.name, missing)
        fill = start + self._statistic(measure, start, missing)
        return replace(column, start=start, fill=fill, indicator=self.choices.missing_indicator and bool(measure.gaps))

    def _statistic(self, measure: Measure, start: float, name: Missing) -> float:
        """Return one number that stands for those of a column, less `start`."""
        if name == "zero":
            return 0.0
        if name == "mean":
            return (measure.least if measure.least == measure.greatest else measure.moments.mean) - start
        with self._in_order(measure.column) as values:
            if name == "median":
                middle = len(values) // 2
                ends = [middle - 1, middle] if len(values) % 2 == 0 else [middle]
                return float(np.mean(values[ends] - start))
            return most_frequent(values) - start

    def _in_order(self, column: ColumnPlan) -> _Sorted:
        """Return the numbers of one column in their order, in a file."""
        path = self.scratch / "column.npy"
        with appending(path, np.float64) as out:
            for piece in self.table.pieces([column.name]):
                numeric = [column.name] if column.role == "numeric" else []
                values = read_numbers(
                    node_rows(piece, self.ids, numeric), column.name, column.role, column.day_first
                ).values
                out.append(values[np.isfinite(values)])
        return _Sorted(path)

    def _categories(self, name: str, look: Look, declared: Declared | None) -> ColumnPlan:
        most = self.choices.max_categories
        if declared is None:
            refuse_other_numbers(self.table.where, name, [look.example] if look.counts is None else sorted(look.counts))
        if look.counts is None:
            raise too_many_categories(self.table.where, name, f"more than {most}", look.example, most)
        categories = tuple(sorted(look.counts))
        missing = (declared and declared.missing) or self.choices.missing
        fill = max(categories, key=look.counts.__getitem__) if missing == "most_frequent" and categories else None
        indicator = self.choices.missing_indicator and look.present < look.rows
        return ColumnPlan(name, "categorical", categories=categories, fill=fill, indicator=indicator)

    def _scaled(self, columns: list[ColumnPlan], measures: dict[str, Measure]) -> list[ColumnPlan]:
        """Return the columns with mean and scale; see `planning.plan_columns`."""
        if self.choices.scale == "none":
            return columns
        counts = self.choices.scale == "auto" and self._looks_like_counts(columns, measures)
        scaled = DATES if counts else MEASURED
        return [_standardised(c, measures[c.name]) if c.role in scaled else c for c in columns]

    def _looks_like_counts(self, columns: list[ColumnPlan], measures: dict[str, Measure]) -> bool:
        numeric = [column for column in columns if column.role == "numeric"]
        if len(numeric) <= SPARSE_WIDTH:
            return False
        filled = 0
        for column in numeric:
            measure, fill = measures[column.name], float(column.fill or 0.0)
            if min(measure.least, fill if measure.gaps else 0.0, 0.0) < 0:
                return False
            filled += measure.present - measure.zeros + (measure.gaps if fill else 0)
        return filled < SPARSE_DENSITY * len(numeric) * len(self.ids)

    def _codes(self, columns: list[ColumnPlan], measures: dict[str, Measure]) -> tuple[Finding, ...]:
        """Return the finding about columns of few whole numbers; see `planning.may_be_codes`."""
        numeric = [c.name for c in columns if c.role == "numeric" and c.name not in self.choices.roles]
        if len(numeric) > SPARSE_WIDTH:
            return ()
        few = {name: measures[name].few for name in numeric}
        return codes_finding(
            [
                name
                for name, values in few.items()
                if values is not None and may_be_codes(np.array(sorted(values)), len(self.ids))
            ]
        )

    def _pieces(self, columns: list[str], first: int, last: int) -> Iterator[Piece]:
        """Yield the rows of some columns, if any, and tell how far the passes are."""
        if columns:
            for piece in self.table.pieces(columns):
                yield piece
                self.progress((first + (last - first) * piece.share) / 3)


def _standardised(column: ColumnPlan, measure: Measure) -> ColumnPlan:
    """Return the column with mean and deviation of its numbers since `start`, empty cells filled; see `fit_scale`."""
    fill = float(column.fill or 0.0)
    ends = [measure.least, measure.greatest] if measure.present else []
    ends += [fill] if measure.gaps else []
    if not ends or min(ends) == max(ends):
        return replace(column, mean=ends[0] - column.start if ends else 0.0, scale=0.0)
    whole = measure.moments.joined(Moments(measure.gaps, fill, 0.0))
    return replace(column, mean=whole.mean - column.start, scale=whole.deviation)


def most_frequent(values: Array) -> float:
    """Return the number that comes most often among sorted ones, the least of several."""
    best, most, run_value, run = float(values[0]), 0, float(values[0]), 0
    for part in blocks(len(values)):
        distinct, counts = np.unique(values[part], return_counts=True)
        counts[0] += run if distinct[0] == run_value else 0
        place = int(counts.argmax())
        if counts[place] > most:
            best, most = float(distinct[place]), int(counts[place])
        run_value, run = float(distinct[-1]), int(counts[-1])
    return best


class _Sorted:
    """The numbers of a file, sorted there, while the block lasts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Array:
        values: Array = np.load(self.path, mmap_mode="r+")
        values.sort()
        return values

    def __exit__(self, *_: object) -> None:
        self.path.unlink()
