"""A study from its exported records alone has the tables that it has with its graphs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from small_study import DGI, GRAPH, planned, run, write

from fossil.errors import RunError
from fossil.report.tables import Format, render
from fossil.studies.overview import plan_table, tables_named
from fossil.studies.recorded import export_records, measured_elsewhere, open_recorded
from fossil.studies.results import Results
from fossil.studies.store import Store

SWEPT: dict[str, Any] = {
    "graphs": [
        GRAPH,
        {"input": GRAPH, "treatment": {"direction": "symmetrize"}},
        {"input": "none.npz", "optional": True},
    ],
    "methods": ["features", {"method": "muse", "epochs": 1, "settings": {"width": 8}}, DGI, DGI | {"title": "Again"}],
    "seeds": 3,
    "protocols": ["paper", "released"],
    "tables": [
        {"name": "paper", "protocol": "paper", "reference": "DGI"},
        {"name": "best", "value": "test_maximum", "protocol": "released"},
        {"name": "memory", "value": "memory"},
    ],
}  # fmt: skip


def printed(results: Results) -> dict[str, str]:
    return {name: render(table, Format.JSON) + render(table, Format.MARKDOWN)
            for name, table in tables_named(results).items()}  # fmt: skip


def test_tables_from_records_alone_are_those_from_the_store(tmp_path: Path) -> None:
    file = write(tmp_path, **SWEPT)
    results = run(file)
    records = export_records(results, tmp_path)
    assert printed(open_recorded(file, records)) == printed(results)
    # What the study no longer wants is left out, as it is with a store: a seed, a protocol, a split.
    less = write(tmp_path, **SWEPT | {"seeds": 2, "splits": 1})
    assert printed(open_recorded(less, records)) == printed(run(less))


def test_a_plan_counts_what_was_measured_elsewhere_and_says_where(tmp_path: Path) -> None:
    study: dict[str, Any] = {"methods": ["features", DGI], "seeds": 2}
    done = run(write(tmp_path, **study))
    assert measured_elsewhere(done.plan) is None
    records = export_records(done, tmp_path / "records")
    file = write(tmp_path, **study | {"store": "another", "methods": ["features", DGI, "prop"]})
    empty = Results(planned(file), Store(tmp_path / "another"))
    elsewhere = measured_elsewhere(empty.plan)
    assert elsewhere is not None and elsewhere.results is not None
    notes = plan_table(empty, elsewhere).notes
    said = re.match(r"About (.+) one after another for 4 of them, as measured on (.+); at most ", notes[1])
    assert said is not None and "unknown" not in said[2]
    assert notes[2] == f"4 of these by {records}: nothing like them was measured in this store yet."
    assert notes[3].startswith("How long the other 2 take is unknown")
    typical = [elsewhere.expected(empty.plan, cell) for cell in empty.plan.cells if cell.row < 2]
    assert all(one is not None and one.key in done.records for one in typical)
    assert elsewhere.expected(empty.plan, next(cell for cell in empty.plan.cells if cell.row == 2)) is None
    # What was measured here comes first.
    run(file)
    longer = Results(planned(write(tmp_path, **study | {"store": "another", "seeds": 3})), Store(tmp_path / "another"))
    assert not any("records" in note for note in plan_table(longer, elsewhere).notes)
    # Records of what the study was once are told, and stop nothing.
    renamed = Results(planned(write(tmp_path, methods=["prop"], store="a third")), Store(tmp_path / "a third"))
    other = measured_elsewhere(renamed.plan)
    assert other is not None and other.results is None
    notes = plan_table(renamed, other).notes
    assert "says nothing of the study as it is now" in notes[1] and "which is no row and no graph" in notes[1]
    assert notes[2] == "How long they take is unknown: nothing like them was measured yet."


def test_what_was_not_measured_is_missing(tmp_path: Path) -> None:
    results = run(write(tmp_path, methods=[DGI]))
    records = export_records(results, tmp_path)
    more = open_recorded(write(tmp_path, methods=[DGI, "features"], protocols=["paper", "released"]), records)
    assert more.values(0, 0, "accuracy", "paper") == results.values(0, 0, "accuracy", "paper") != {}
    assert more.values(0, 0, "accuracy", "released") == more.values(1, 0, "accuracy", "paper") == {}
    assert more.count(more.plan.cells).missing == 2


def test_records_of_another_study_are_refused(tmp_path: Path) -> None:
    records = export_records(run(write(tmp_path)), tmp_path)
    with pytest.raises(RunError, match="'DGI', which is no row and no graph"):
        open_recorded(write(tmp_path, methods=["features"]), records)
    with pytest.raises(RunError, match="is no JSON record"):
        records.write_text("nothing\n")
        open_recorded(write(tmp_path), records)


def test_a_protocol_that_a_graph_cannot_have_makes_nothing_missing(tmp_path: Path) -> None:
    file = write(tmp_path, methods=[DGI], protocols=["paper", "public"])
    results = run(file)
    assert results.plan.unscorable
    read = open_recorded(file, export_records(results, tmp_path))
    assert read.count(read.plan.cells) == results.count(results.plan.cells)
    assert read.count(read.plan.cells).missing == 0


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x0c"])
def test_a_record_is_one_line_whatever_is_written_in_it(sign: str, tmp_path: Path) -> None:
    file = write(tmp_path, methods=[DGI | {"title": f"One{sign}two"}], seeds=1)
    results = run(file)
    assert printed(open_recorded(file, export_records(results, tmp_path))) == printed(results)
