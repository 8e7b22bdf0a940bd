"""What a run says while it goes on."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from small_study import CPU, DGI, GRAPH, run, write

from fossil.studies.overview import status_table
from fossil.studies.plan import open_study
from fossil.studies.progress import LiveReport
from fossil.studies.record import Scores
from fossil.studies.results import Results
from fossil.studies.store import Store


def reported(results: Results, file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is said when the first cell of a study is over."""
    plan, store = results.plan, Store.open(results.plan.study.folder_of_records(file), results.plan.study.name, file)
    first = plan.cells[0]
    with LiveReport(plan, store, CPU) as report:
        report.finished(first, results.records[first.key])
    return capsys.readouterr().err


def test_titles_and_reasons_do_not_act_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, graphs=[{"input": GRAPH, "title": "\x1b[31mred"}], methods=[DGI], seeds=1)
    results = run(file)
    [key] = results.records
    results.records[key] = replace(results.records[key], failed="\x1b[2Jnothing left")
    said = reported(results, file, capsys)
    assert said == "[1/1] \\x1b[31mred, DGI, seed 0: failed: \\x1b[2Jnothing left; 1 failed\n"


def test_what_failed_for_another_study_alone_is_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, methods=[DGI], seeds=1)
    results = run(file)
    plan, _ = open_study(file)
    store = Store.open(tmp_path / "small.results", "small", file)
    [record] = results.records.values()
    store.write(record.with_scores({"of another": Scores("released", failed="no such split")}))
    assert "failed" not in reported(Results(plan, store), file, capsys)
    # Where its own have failed too, the reasons are its own alone.
    [scoring] = plan.cells[0].scorings
    store.write(replace(record, scores={scoring.key: Scores("paper", failed="no labels"), "of another": Scores(
        "released", failed="no such split")}))  # fmt: skip
    assert "; 1 failed" in reported(Results(plan, store), file, capsys)
    notes = " ".join(status_table(plan, store).notes)
    assert "no labels" in notes and "no such split" not in notes


def test_on_a_terminal_of_80_columns_counts_and_times_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [SimpleNamespace(key=str(number), row=0, column=0) for number in range(1120)]
    plan: Any = SimpleNamespace(cells=cells, study=SimpleNamespace(name="ablation_similarity"))
    store: Any = SimpleNamespace(path_of=lambda key: SimpleNamespace(exists=lambda: False), running=lambda: ["0", "1"])
    options: Any = None
    state, out = "2 running, about 2.3 minutes left", io.StringIO()
    monkeypatch.setattr(LiveReport, "_state", lambda self: state)
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with LiveReport(plan, store, options, console) as report:
        report.started(plan.cells[0])
    line = next(line for line in reversed(out.getvalue().splitlines()) if "ablation" in line)
    assert f"    0/1120 {state} 0:00:00" in line and "…" not in line
