"""Where a study stands: what is done, what is missing and what that takes; and its tables and figures as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from fossil.errors import SettingError, nearest
from fossil.report.tables import Format, Table, Value, render
from fossil.storage import write_text
from fossil.studies.figures import draw_figure, notes_of
from fossil.studies.plan import StudyPlan
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


def plan_table(results: Results) -> Table:
    """Return how many trainings each row lacks on each graph, and what all of them will take."""
    return _matrix(
        results, "Missing trainings", "missing", [summary_line(results), *_cost(results), *left_out(results.plan)]
    )


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


def _cost(results: Results) -> list[str]:
    """Return what the missing trainings will take, by those that were measured; what was not is said to be unknown."""
    cells = [cell for cell in each_once(results.plan.cells) if results.state(cell) == "missing"]
    expected = [results.expected(cell) for cell in cells]
    known = [record for record in expected if record is not None]
    if not cells:
        return []
    if not known:
        return ["How long they take is unknown: nothing like them was measured in this store yet."]
    scoring = [sum(scores.seconds or 0.0 for scores in record.scores.values()) for record in known]
    seconds = sum(record.seconds or 0.0 for record in known) + sum(scoring)
    devices = sorted({record.device for record in known if record.device})
    memory = max((record.memory or 0.0 for record in known), default=0.0)
    lines = [
        f"About {duration(seconds)} one after another for {len(known):,} of them, as measured on {', '.join(devices)}"
        + (f"; at most {memory / 1e9:.2g} GB at a time." if memory else ".")
    ]
    if len(known) < len(cells):
        lines.append(
            f"How long the other {len(cells) - len(known):,} take is unknown: nothing like them was measured yet."
        )
    return lines


def _failures(results: Results) -> list[str]:
    """Return what failed and why, equal reasons together."""
    about: dict[str, list[str]] = {}
    for cell in each_once(results.plan.cells):
        record = results.records.get(cell.key)
        if record is None or results.state(cell) != "failed":
            continue
        reasons = [record.failed, *(one.failed for one in record.scores.values())]
        for reason in filter(None, reasons):
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
    """Return the tables of a study by the names of their files, all or those of one entry.

    Once its searches are frozen, how far each method has to be tuned is one of them.

    Raises:
        SettingError: there is no table of that name.
    """
    spread = searched_table(results)
    if spread is not None and name == SPREAD:
        return {SPREAD: spread}
    entries = _chosen({entry.name: entry for entry in results.plan.study.wanted_tables()}, name, "table")
    found = {file: table for entry in entries for file, table in tables_of(results, entry).items()}
    return found if spread is None or name is not None else {**found, SPREAD: spread}


def draw_figures(results: Results, name: str | None, folder: Path) -> list[Path]:
    """Draw the figures of a study, all or one, and return the files.

    Raises:
        SettingError: there is no figure of that name, or none at all.
    """
    figures = results.plan.study.figures
    if not figures:
        raise SettingError(
            f"{results.plan.file} asks for no figure.",
            remedy="Add one under figures, such as {name: growth, kind: growth}.",
        )
    entries = _chosen({figure.name: figure for figure in figures}, name, "figure")
    return [path for entry in entries for path in draw_figure(results, entry, folder)]


def figure_notes(results: Results, name: str | None) -> list[str]:
    """Return what must be said beside the figures of a study, all or one, and stands in them too."""
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


def _chosen(entries: Mapping[str, Entry], name: str | None, what: str) -> list[Entry]:
    if name is None:
        return list(entries.values())
    if name not in entries:
        raise SettingError(f"The study has no {what} {name!r}.", remedy=nearest(name, entries))
    return [entries[name]]
