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

    What the store has already stays as it is, but for failures of what did not fail elsewhere; scores that it lacks are
    added.

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
        if before is None or (before.failed and not record.failed):
            new = replace(record, imported=path.name)
        else:
            new = before.with_scores({key: one for key, one in record.scores.items() if key not in before.scores})
        counts["there" if new == before else "taken"] += 1
        if new != before:
            store.write(new)
    return f"{counts['taken']} taken, {counts['there']} there already, {counts['left']} not asked for by this study"
