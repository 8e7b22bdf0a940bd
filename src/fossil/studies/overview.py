"""Where a study stands: what is done, what is missing and what that takes; and its tables and figures as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fossil.errors import SettingError, nearest
from fossil.report.tables import Format, Table, Value, render
from fossil.storage import write_text
from fossil.studies.figures import draw_figure, is_measured, notes_of
from fossil.studies.plan import StudyPlan
from fossil.studies.record import Record
from fossil.studies.recorded import Elsewhere
from fossil.studies.results import Results, each_once
from fossil.studies.spread import SPREAD
from fossil.studies.store import Store
from fossil.studies.tables import searched_table, tables_of
from fossil.training.progress import duration

_SUFFIXES = {Format.CSV: "csv", Format.MARKDOWN: "md", Format.LATEX: "tex", Format.JSON: "json"}
_MOST_RUNNING = 20  # that are named one by one


def summary_line(results: Results) -> str:
    """Return in one line where a study stands."""
    counts = results.count(results.plan.cells)
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    done = f"{counts.done:,} of {counts.all:,} trainings done"
    return f"{results.plan.study.name}: {done}{failed}, {counts.missing:,} missing"


def plan_table(results: Results, elsewhere: Elsewhere | None = None) -> Table:
    """Return how many trainings each row lacks on each graph, and what all of them will take.

    Args:
        results: what was measured in the store of the study.
        elsewhere: what was measured of it elsewhere, and counts where nothing like a training was measured here.
    """
    notes = [summary_line(results), *_cost(results, elsewhere), *left_out(results.plan)]
    return _matrix(results, "Missing trainings", "missing", notes)


def status_table(plan: StudyPlan, store: Store) -> Table:
    """Return how many trainings of each row are done on each graph, what is under way, and what failed."""
    results, running = Results(plan, store), store.running()
    mine = [about for key, about in running.items() if key in plan.keys]
    notes = [summary_line(results)]
    if mine:
        notes.append(f"{len(mine)} running now:")
        notes += [
            f"  {one.get('what', '?')} (process {one.get('pid')} on {one.get('host')})" for one in mine[:_MOST_RUNNING]
        ]
    return _matrix(results, "Trainings done", "done", [*notes, *_failures(results), *left_out(results.plan)])


def _matrix(results: Results, title: str, state: str, notes: Sequence[str]) -> Table:
    """Return a table of how many trainings are in a state, of how many."""
    plan = results.plan
    rows: list[list[str]] = []
    records: list[dict[str, Value]] = []
    for number, row in enumerate(plan.rows):
        line = [row.title]
        for column, graph in enumerate(plan.columns):
            counts = results.count(results.cells(number, column))
            failed = f", {counts.failed} failed" if counts.failed and state == "done" else ""
            line.append(f"{getattr(counts, state)} of {counts.all}{failed}" if counts.all else "–")
            records.append(
                {
                    "row": row.title,
                    "graph": graph,
                    "done": counts.done,
                    "failed": counts.failed,
                    "missing": counts.missing,
                }
            )
        rows.append(line)
    return Table(title, ["Method", *plan.columns], rows, records, notes)


def _cost(results: Results, elsewhere: Elsewhere | None) -> list[str]:
    """Return what the missing trainings will take, by those that were measured; what was not is said to be unknown."""
    plan = results.plan
    cells = [cell for cell in each_once(plan.cells) if results.state(cell) == "missing"]
    if not cells:
        return []
    here = [record for cell in cells if (record := results.expected(cell)) is not None]
    there = [
        record
        for cell in cells
        if elsewhere is not None and results.expected(cell) is None
        if (record := elsewhere.expected(plan, cell)) is not None
    ]
    lines = [_taken(plan, [*here, *there])] if here or there else []
    if elsewhere is not None and there:
        lines.append(f"{len(there):,} of these by {elsewhere.path}: nothing like them was measured in this store yet.")
    if elsewhere is not None and elsewhere.results is None:
        lines.append(f"{elsewhere.path} says nothing of the study as it is now: {elsewhere.reason}")
    unknown = len(cells) - len(here) - len(there)
    which = f"the other {unknown:,}" if here or there else "they"
    return [*lines, f"How long {which} take is unknown: nothing like them was measured yet."] if unknown else lines


def _taken(plan: StudyPlan, records: Sequence[Record]) -> str:
    """Return what trainings like these take together, with what the study asks for of their scoring."""
    asked = plan.study.protocols
    scored = [scores for record in records for scores in record.scores.values() if scores.protocol in asked]
    seconds = sum(record.seconds or 0.0 for record in records) + sum(scores.seconds or 0.0 for scores in scored)
    devices = sorted({record.device for record in records if record.device})
    memory = max(record.memory or 0.0 for record in records)
    most = f"; at most {memory / 1e9:.2g} GB at a time." if memory else "."
    return (
        f"About {duration(seconds)} one after another for {len(records):,} of them, as measured on "
        f"{' and '.join(devices) or 'an unknown device'}{most}"
    )


def _failures(results: Results) -> list[str]:
    """Return what failed and why, equal reasons together."""
    about: dict[str, list[str]] = {}
    for cell in each_once(results.plan.cells):
        record = results.records.get(cell.key)
        if record is None or results.state(cell) != "failed":
            continue
        for reason in record.reasons(cell):
            about.setdefault(reason, []).append(results.plan.name_of(cell))
    return [f"failed: {'; '.join(names[:3])}{_and_more(len(names) - 3)}: {reason}" for reason, names in about.items()]


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def left_out(plan: StudyPlan) -> list[str]:
    """Return what of a study is not trained or not scored, and why, a line each."""
    lines = [f"{plan.columns[column]} is left out: {reason}" for column, reason in plan.unreadable.items()]
    lines += [
        f"{plan.columns[column]} has no score under {name}: {reason}"
        for (column, name), reason in plan.unscorable.items()
    ]
    lines += [
        f"{plan.rows[row].title} cannot have {plan.columns[column]}: {reason}"
        for (row, column), reason in plan.impossible.items()
    ]
    return lines


def tables_named(results: Results, name: str | None = None) -> dict[str, Table]:
    """Return the tables of a study by the names of their files, all or one.

    Once its searches are frozen, how far each method has to be tuned is one of them.

    Raises:
        SettingError: there is no table of that name.
    """
    entries = results.plan.study.wanted_tables()
    found = {file: table for entry in entries for file, table in tables_of(results, entry).items()}
    spread = searched_table(results)
    if spread is not None:
        found[SPREAD] = spread
    return found if name is None else {name: _chosen(found, name, "table")}


def draw_figures(results: Results, name: str | None, folder: Path) -> list[Path]:
    """Draw the figures of a study, all for which something is measured or one, and return the files.

    Raises:
        SettingError: there is no figure of that name, or none at all.
        EvaluationError: there is nothing to draw yet.
    """
    figures = results.plan.study.figures
    if not figures:
        raise SettingError(
            f"{results.plan.file} asks for no figure.",
            remedy="Add one under figures, such as {name: growth, kind: growth}.",
        )
    named = {figure.name: figure for figure in figures}
    entries = figures if name is None else (_chosen(named, name, "figure"),)
    measured = [entry for entry in entries if is_measured(results, entry)]
    return [path for entry in measured or entries for path in draw_figure(results, entry, folder)]


def figure_notes(results: Results, name: str | None) -> list[str]:
    """Return what must be said beside the figures of a study, all or one, and stands in those that can be drawn."""
    entries = [figure for figure in results.plan.study.figures if name in (None, figure.name)]
    return [note for entry in entries for note in notes_of(results, entry)]


def export_tables(results: Results, folder: Path, forms: Sequence[Format]) -> list[Path]:
    """Write every table in every form, and return the files."""
    if Format.TABLE in forms:
        raise SettingError("A table for a terminal is no file.", remedy="Use csv, markdown, latex or json.")
    written = []
    for name, table in tables_named(results).items():
        for form in dict.fromkeys(forms):
            path = folder / f"{results.plan.study.name}-{name}.{_SUFFIXES[form]}"
            write_text(path, render(table, form) + "\n")
            written.append(path)
    return written


Entry = TypeVar("Entry")


def _chosen(entries: Mapping[str, Entry], name: str, what: str) -> Entry:
    if name not in entries:
        raise SettingError(f"The study has no {what} {name!r}.", remedy=nearest(name, entries))
    return entries[name]
