"""Trainings that were done elsewhere: records of other stores."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from fossil.studies.plan import StudyPlan
from fossil.studies.record import Record
from fossil.studies.recorded import read_lines
from fossil.studies.store import Store

_EXPORTED = "Name a file of records that this version has exported; nothing was taken."


def import_records(plan: StudyPlan, store: Store, path: Path) -> str:
    """Take over the records of a file that a study asks for, and return in words what was taken.

    Each is marked with the first file it came from, other than an export of this very study.
    What the store has already stays as it is, but for failures of what did not fail elsewhere; scores that it lacks are
    added. A cell that somebody is training is left alone.

    Raises:
        RunError: a line is no record; nothing was taken then.
    """
    counts: Counter[str] = Counter()
    own = path.name == f"{plan.study.name}.jsonl"  # the study's own export, from another machine
    found = []
    for values, where in read_lines(path):
        if not {"left_out", "searched"} & values.keys():
            values.pop("places", None)
            record = Record.from_dict(values, where, _EXPORTED)
            found.append(record if own or record.imported else replace(record, imported=path.name))
    for record in found:
        if record.key not in plan.keys:
            counts["left"] += 1
        elif _merged(store.read(record.key), record) is None:
            counts["there"] += 1
        else:
            counts[_take(store, record, path.name)] += 1
    said = f"{counts['taken']} taken, {counts['there']} there already, {counts['left']} not asked for by this study"
    busy = f"; {counts['busy']} being trained now, which are left to that: import them again when it is over"
    return said + busy * bool(counts["busy"])


def _take(store: Store, record: Record, source: str) -> str:
    """Write a record if nobody is at its cell, who would write over it at the end; return what became of it."""
    with store.claim(record.key, f"import of {source}") as mine:
        if not mine:
            return "busy"
        new = _merged(store.read(record.key), record)  # it may have been finished since the look
        if new is None:
            return "there"
        store.write(new)
        return "taken"


def _merged(before: Record | None, record: Record) -> Record | None:
    """Return what a store is to hold of a cell; None where it holds all of it already."""
    if before is None or (before.failed and not record.failed):
        return record
    lacking = {key: one for key, one in record.scores.items() if key not in before.scores}
    return before.with_scores(lacking) if lacking else None
