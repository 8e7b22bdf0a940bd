"""Trainings that were done elsewhere: records of other stores."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from fossil.studies.plan import StudyPlan
from fossil.studies.recorded import read_lines
from fossil.studies.store import Record, Store


def import_records(plan: StudyPlan, store: Store, path: Path) -> str:
    """Take over the records of a file that a study asks for, and return in words what was taken.

    What the store has already stays as it is; scores that it lacks are added.

    Raises:
        RunError: a line is no record; nothing was taken then.
    """
    counts: Counter[str] = Counter()
    found = []
    for values, where in read_lines(path):
        if not {"left_out", "searched"} & values.keys():
            found.append(Record.from_dict({name: one for name, one in values.items() if name != "places"}, where))
    for record in found:
        if record.key not in plan.keys:
            counts["left"] += 1
            continue
        before = store.read(record.key)
        new = record.scores if before is None else {k: v for k, v in record.scores.items() if k not in before.scores}
        if before is not None and not new:
            counts["there"] += 1
            continue
        counts["taken"] += 1
        store.write(replace(record, imported=path.name) if before is None else before.with_scores(new))
    return f"{counts['taken']} taken, {counts['there']} there already, {counts['left']} not asked for by this study"
