"""What the records of a study say, cell by cell: values by encoder and split, and what they are likely to cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median
from typing import Protocol, TypeAlias

from fossil.evaluation.protocol import protocol
from fossil.evaluation.statistics import Summary
from fossil.studies.entries import Quantity
from fossil.studies.plan import Cell, Scoring, StudyPlan
from fossil.studies.record import Record, Scores

BySplit: TypeAlias = Mapping[int, float]
"""A value for each split, by the seed of the split; a single one under 0 where splits have nothing to do with it."""

ByEncoder: TypeAlias = Mapping[int, BySplit]
"""The same for each encoder, by its seed."""

SCORED: Mapping[Quantity, str] = {
    "accuracy": "accuracies", "macro_f1": "macro_f1s", "test_maximum": "test_maxima",
}  # fmt: skip


def scale(quantity: Quantity) -> float:
    """Return what a quantity is multiplied by where people read it: shares become percent, bytes gigabytes."""
    return 100.0 if quantity in SCORED else 1e-9 if quantity == "memory" else 1.0


@dataclass(frozen=True)
class Counts:
    """How many trainings are done, failed, and missing."""

    done: int
    failed: int
    missing: int

    @property
    def all(self) -> int:
        """How many there are."""
        return self.done + self.failed + self.missing


class Reads(Protocol):
    """Where records are: a `Store`, or what was read of a file."""

    def read(self, key: str) -> Record | None:
        """Return a record, None where there is none."""


class Results:
    """The records of a study.

    Args:
        plan: its cells.
        store: where the records are.
    """

    def __init__(self, plan: StudyPlan, store: Reads) -> None:
        self.plan = plan
        self.records = {key: record for key in plan.keys if (record := store.read(key)) is not None}

    @cached_property
    def _by_place(self) -> dict[tuple[int, int], list[Cell]]:
        by_place: dict[tuple[int, int], list[Cell]] = {}
        for cell in self.plan.cells:
            by_place.setdefault((cell.row, cell.column), []).append(cell)
        return by_place

    def cells(self, row: int, column: int) -> Sequence[Cell]:
        """Return the cells of one place in a table, one a seed."""
        return self._by_place.get((row, column), [])

    def state(self, cell: Cell) -> str:
        """Return `done`, `failed` or `missing`."""
        record = self.records.get(cell.key)
        if record is None or not record.serves(cell):
            return "missing"
        return "failed" if record.reasons(cell) else "done"

    def count(self, cells: Sequence[Cell]) -> Counts:
        """Count trainings; one that several rows share counts once."""
        states = [self.state(cell) for cell in each_once(cells)]
        return Counts(*(states.count(state) for state in ("done", "failed", "missing")))

    def values(self, row: int, column: int, quantity: Quantity, name: str) -> ByEncoder:
        """Return what every encoder of a place has of a quantity, under the protocol of this name."""
        by_seed = {cell.seed: self._value(cell, quantity, name) for cell in self.cells(row, column)}
        return {seed: by_split for seed, by_split in by_seed.items() if by_split}

    def _value(self, cell: Cell, quantity: Quantity, name: str) -> BySplit:
        record = self.records.get(cell.key)
        if record is None or record.failed:
            return {}
        if quantity not in SCORED:
            value: float | None = getattr(record, quantity)
            return {} if value is None else {0: value}
        scores, scoring = self._scores(cell, name)
        if scores is None or scoring is None or scores.failed:
            return {}
        splits = scores.seeds if scores.supervised else scoring.seeds
        # Where no probe was chosen there is nothing to be the maximum of.
        scored = "accuracy" if scores.supervised and quantity == "test_maximum" else quantity
        return dict(zip(splits, scores.on(splits, SCORED[scored]), strict=False))

    def _scores(self, cell: Cell, name: str) -> tuple[Scores | None, Scoring | None]:
        record = self.records.get(cell.key)
        scoring = next((scoring for scoring in cell.scorings if scoring.protocol == name), None)
        return (None if record is None or scoring is None else record.score_of(scoring)), scoring

    def majority(self, column: int, name: str) -> float | None:
        """Return the accuracy of the most frequent training class of a graph, over all splits that were scored."""
        scores = [self._scores(cell, name)[0] for cell in self.plan.cells if cell.column == column]
        majorities = [score.majority for score in scores if score is not None and score.majority is not None]
        return mean(majorities) if majorities else None

    def reasons(self, row: int, column: int, name: str | None) -> list[str]:
        """Return why cells of a place have failed, or cannot be, each reason once.

        Args:
            row: position of the row.
            column: position of the graph.
            name: of the protocol; where it is None, what became of scores does not matter.
        """
        plan = self.plan
        reasons = [plan.unreadable.get(column), plan.impossible.get((row, column))]
        if name is not None:
            reasons.append(plan.unscorable.get((column, name)))
        for cell in self.cells(row, column):
            record, scores = self.records.get(cell.key), None if name is None else self._scores(cell, name)[0]
            reasons += [None if record is None else record.failed, None if scores is None else scores.failed]
        return list(dict.fromkeys(reason for reason in reasons if reason))

    def expected(self, cell: Cell) -> Record | None:
        """Return a record that says what a cell is likely to cost: of its row and graph, else of its method on it."""
        return self._typical.get((str(cell.row), cell.column)) or self._typical.get(
            (self.plan.rows[cell.row].method, cell.column)
        )

    @cached_property
    def _typical(self) -> dict[tuple[str, int], Record]:
        groups: dict[tuple[str, int], list[Record]] = {}
        for cell in self.plan.cells:
            record = self.records.get(cell.key)
            if record is not None and record.seconds is not None and not record.failed:
                for name in (str(cell.row), self.plan.rows[cell.row].method):
                    groups.setdefault((name, cell.column), []).append(record)
        return {key: _median_record(group) for key, group in groups.items()}


def each_once(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that differ in their training, or in how it is scored: a graph may be there with other labels.

    Rows that come to the same training share it.
    """
    return list({(cell.key, cell.scorings): cell for cell in cells}.values())


def _median_record(records: Sequence[Record]) -> Record:
    middle = median(record.seconds or 0.0 for record in records)
    return min(records, key=lambda record: abs((record.seconds or 0.0) - middle))


def over_encoders(values: ByEncoder, name: str) -> Summary | None:
    """Summarise one value per encoder, its mean over splits, as the protocol does; None where there is none."""
    return protocol(name).summarize([mean(by_split.values()) for by_split in values.values()]) if values else None


def middle(summary: Summary, quantity: Quantity) -> float:
    """Return the mean of scores, the median of costs: the first training of a process also compiles."""
    return summary.mean if quantity in SCORED else median(summary.values)


def paired(own: ByEncoder, other: ByEncoder, name: str) -> Summary | None:
    """Summarise how far each encoder is above that of the same seed, on the splits that both were scored on."""
    differences = []
    for seed in sorted(own.keys() & other.keys()):
        shared = [split for split in own[seed] if split in other[seed]]
        if shared:
            differences.append(
                mean(own[seed][split] for split in shared) - mean(other[seed][split] for split in shared)
            )
    return protocol(name).summarize(differences) if differences else None
