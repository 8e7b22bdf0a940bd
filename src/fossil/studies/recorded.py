"""A study from a file of its records alone: no graph is read, so that tables can be made where there is no data.

NAME.jsonl, as `fossil study export --records` writes it, one line each:
  a record, with `places`: the rows and graphs of the study that it belongs to, by their titles
  `left_out`: why a graph cannot be read or scored, or a row cannot have it
  `searched`: settings that were found by searches, how, and how often test labels were opened
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fossil.errors import RunError
from fossil.storage import write_text
from fossil.studies.file import read_study
from fossil.studies.plain import rebuilt
from fossil.studies.plan import Cell, Scoring, StudyPlan
from fossil.studies.record import Record
from fossil.studies.results import Results
from fossil.studies.rows import rows_of
from fossil.studies.searched import SEARCHED, Searched


def export_records(results: Results, folder: Path) -> Path:
    """Write every record of a study, one a line, and return the file; `fossil study import` takes it.

    Records have the scores that the study asks for: trainings are shared with others, scores need not be.

    Raises:
        RunError: there are none yet, or the file cannot be written.
    """
    if not results.records:
        raise RunError("There are no records yet.", remedy="Train something first: fossil study run FILE.")
    path, plan = folder / f"{results.plan.study.name}.jsonl", results.plan
    places: dict[str, list[list[str]]] = {}
    asked = {scoring.key for cell in plan.cells for scoring in cell.scorings}
    for cell in plan.cells:
        places.setdefault(cell.key, []).append([plan.rows[cell.row].title, plan.columns[cell.column]])
    lines = [] if plan.searched is None else [{"searched": asdict(plan.searched)}]
    for key, record in sorted(results.records.items()):
        scores = {name: one for name, one in record.scores.items() if name in asked}
        lines.append({"places": places[key]} | replace(record, scores=scores).to_dict())
    lines += _left_out(plan)
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


def _left_out(plan: StudyPlan) -> Iterator[dict[str, Any]]:
    for column, reason in plan.unreadable.items():
        yield {"left_out": reason, "graph": plan.columns[column]}
    for (column, name), reason in plan.unscorable.items():
        yield {"left_out": reason, "graph": plan.columns[column], "protocol": name}
    for (row, column), reason in plan.impossible.items():
        yield {"left_out": reason, "graph": plan.columns[column], "row": plan.rows[row].title}


def read_lines(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what a file of records holds, line by line, and where.

    Raises:
        RunError: it cannot be read, or a line is something else.
    """
    try:
        # Not splitlines(), which ends a line at signs that may stand in a reason or a title.
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}.", remedy="Name a file of JSON records.") from error
    for number, line in enumerate(lines, 1):
        where = f"Line {number} of {path}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise RunError(
                f"{where} is no JSON record.", remedy="Name a file of records, one a line; nothing was taken."
            )
        yield values, where


def open_recorded(file: Path, records: Path) -> Results:
    """Return the results of a study from the file of its records.

    Args:
        file: the study file.
        records: what was exported of it.

    Raises:
        SettingError: the study file is not accepted.
        RunError: a line is no record of this study.
    """
    study = read_study(file)
    lines = list(read_lines(records))
    searched = _searched(lines)
    rows, columns = rows_of(study, file, searched), study.columns
    plan = StudyPlan(study, file, rows, columns, (), {}, {}, {}, searched)
    found: dict[str, Record] = {}
    cells: list[Cell] = []
    for values, where in lines:
        if "left_out" in values:
            _note(plan, values, where)
    for values, where in lines:
        if "searched" in values or "left_out" in values:
            continue
        places = values.pop("places", None)
        if not isinstance(places, list) or not all(isinstance(at, list) and len(at) == 2 for at in places):
            raise RunError(f"{where} does not say which rows it belongs to.", remedy="Export the records again.")
        record = Record.from_dict(values, where)
        found[record.key] = record
        for row, graph in places:
            at = _position([one.title for one in rows], row, where), _position(columns, graph, where)
            if record.seed in study.seeds:
                cells.append(Cell(*at, record.seed, record.key, tuple(_scorings(plan, record, at[1]))))
    order = {seed: number for number, seed in enumerate(study.seeds)}
    cells.sort(key=lambda cell: (order[cell.seed], cell.column, cell.row))
    return Results(replace(plan, cells=tuple(cells)), _Read(found))


@dataclass(frozen=True)
class Elsewhere:
    """What was measured of a study elsewhere.

    Attributes:
        path: the file of its records.
        results: what they say; None where they are not of the study as it is now.
        reason: why not.
    """

    path: Path
    results: Results | None
    reason: str = ""

    def expected(self, plan: StudyPlan, cell: Cell) -> Record | None:
        """Return a record that says what a cell of a plan is likely to cost; None where nothing like it is there."""
        title = plan.rows[cell.row].title
        if self.results is None or title not in [row.title for row in self.results.plan.rows]:
            return None
        return self.results.expected(replace(cell, row=self.results.plan.row_titled(title)))


def measured_elsewhere(plan: StudyPlan) -> Elsewhere | None:
    """Return what `records/NAME.jsonl` beside a study file says of it; None where there is no such file."""
    path = plan.file.parent / "records" / f"{plan.study.name}.jsonl"
    if not path.is_file():
        return None
    try:
        return Elsewhere(path, open_recorded(plan.file, path))
    except RunError as error:
        return Elsewhere(path, None, error.what)


def _searched(lines: list[tuple[dict[str, Any], str]]) -> Searched | None:
    for values, where in lines:
        if "searched" in values:
            try:
                return rebuilt(SEARCHED, values["searched"])
            except ValueError as error:
                raise RunError(
                    f"{where} has no settings that were searched ({error}).", remedy="Export them again."
                ) from error
    return None


class _Read:
    """Records that were read already."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        self.records = records

    def read(self, key: str) -> Record | None:
        return self.records.get(key)


def _scorings(plan: StudyPlan, record: Record, column: int) -> Iterator[Scoring]:
    """Yield which scores of a record the study means: the latest of each protocol, on as many splits as it wants."""
    for name in plan.study.protocols:
        if (column, name) in plan.unscorable:
            continue
        made = {key: scores for key, scores in record.scores.items() if scores.protocol == name}
        key = next(reversed(made), "")
        yield Scoring(name, key, made[key].seeds[: plan.study.splits] if key else (0,))


def _note(plan: StudyPlan, values: Mapping[str, Any], where: str) -> None:
    column, reason = _position(plan.columns, values.get("graph"), where), str(values["left_out"])
    if "row" in values:
        plan.impossible[_position([one.title for one in plan.rows], values["row"], where), column] = reason
    elif "protocol" in values:
        plan.unscorable[column, str(values["protocol"])] = reason
    else:
        plan.unreadable[column] = reason


def _position(titles: list[str] | tuple[str, ...], title: Any, where: str) -> int:
    if title not in titles:
        raise RunError(
            f"{where} belongs to {title!r}, which is no row and no graph of the study.",
            remedy="Export the records again: the study has changed since.",
        )
    return titles.index(title)
