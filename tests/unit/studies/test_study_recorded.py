"""A study from its exported records alone has the tables that it has with its graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_study import DGI, GRAPH, run, write

from fossil.errors import RunError
from fossil.report.tables import Format, render
from fossil.studies.overview import tables_named
from fossil.studies.recorded import export_records, open_recorded
from fossil.studies.results import Results

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
