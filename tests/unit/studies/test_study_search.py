"""A study that searches: equal budgets, sealed labels, frozen once, and rows with what was found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_search import communities

from fossil.errors import GraphError, RunError, SettingError
from fossil.readers.npz import write_npz
from fossil.studies import search as searching
from fossil.studies.execute import run_study
from fossil.studies.groups import letters_of
from fossil.studies.imports import import_records
from fossil.studies.measuring import Limits, Usage
from fossil.studies.overview import tables_named
from fossil.studies.plan import Graphs, StudyPlan, open_study
from fossil.studies.recorded import export_records, open_recorded
from fossil.studies.results import Results
from fossil.studies.sealed import Openings
from fossil.studies.search import Listener, Quiet
from fossil.studies.search_plan import SearchPlan
from fossil.studies.store import Store
from fossil.studies.study_search import (
    StudySearch,
    freeze_study,
    run_searches,
    searched_elsewhere,
    searches_of,
    searches_table,
)
from fossil.studies.work import Options

STUDY: dict[str, Any] = {
    "name": "small",
    "graphs": ["town.npz"],
    "methods": [
        {"method": "dgi", "settings": {"layers": 1, "activation": "prelu", "normalize_features": False}, "epochs": 2},
        {"method": "features"},
    ],
    "seeds": 3,
    "splits": 2,
    "protocols": ["paper"],
    "search": {
        "trials": 3,
        "space": {"dgi": {"width": [4, 8, 16], "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}}},
    },
}


def write_study(folder: Path, **changed: Any) -> Path:
    if not (folder / "town.npz").exists():
        write_npz(folder / "town.npz", communities())
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(STUDY | changed))
    return file


def opened(file: Path) -> tuple[StudyPlan, Graphs, Store]:
    plan, graphs = open_study(file)
    return plan, graphs, Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)


def notes(file: Path) -> str:
    plan, _, store = opened(file)
    table, *_ = tables_named(Results(plan, store), None).values()
    return " ".join(table.notes)


def test_from_search_to_table(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    plan, graphs, store = opened(file)
    titles = [row.title for row in plan.rows]
    with pytest.raises(SettingError, match="is not over"):
        freeze_study(plan, graphs)
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    assert [len(found.trials) for _, found in results if found is not None] == [3, 3]  # equal budgets
    table = searches_table(plan, results)
    assert {record["row"] for record in table.records} == set(titles)
    assert "opened 0 times" in table.notes[-1] and any("of 3 trials for every method" in note for note in table.notes)

    assert freeze_study(plan, graphs) == 1
    with pytest.raises(RunError, match="were opened"):
        longer = write_study(tmp_path, search=STUDY["search"] | {"trials": 9})
        run_searches(*open_study(longer), lambda _: Quiet(), "cpu")
    write_study(tmp_path)
    again, graphs, store = opened(file)
    assert [row.title for row in again.rows] == [*titles, *(f"{title} (searched)" for title in titles)]
    run_study(again, graphs, store, Options(device="cpu"))
    done = Results(again, store)
    best = next(found.best for one, found in results if found is not None and one.row == titles[0])
    assert best is not None
    record = done.records[done.cells(2, 0)[0].key]
    for name in ("width", "learning_rate"):
        assert record.settings[name] == best.settings[name]
    said = notes(file)
    assert "Letters: on a graph" in said
    assert "3 trials for every method" in said and "2 encoders each" in said and "were opened 1 time." in said
    exported = export_records(done, tmp_path / "elsewhere")
    made, read = (tables_named(one) for one in (done, open_recorded(file, exported)))
    assert list(read) == list(made) == ["accuracy", "searched-spread"]
    for one, other in zip(made.values(), read.values(), strict=True):
        assert (one.rows, one.notes) == (other.rows, other.notes)
    assert made["searched-spread"].rows == table.rows and table.rows  # what the search itself has printed
    assert list(tables_named(done, "searched-spread")) == ["searched-spread"]
    assert list(tables_named(done, "accuracy")) == ["accuracy"]
    assert import_records(again, store, exported).startswith("0 taken")
    freeze_study(again, graphs)
    assert "were opened 2 times." in notes(file)


def test_before_the_settings_are_frozen_every_table_says_that_labels_are_sealed(tmp_path: Path) -> None:
    asked = {"tables": [{"name": "a", "reference": "Features", "ranks": True}]}
    write_npz(tmp_path / "city.npz", communities(seed=1))
    file = write_study(tmp_path, graphs=["town.npz", "city.npz"], **asked)
    plan, graphs, store = opened(file)
    run_study(plan, graphs, store, Options(device="cpu"))
    sealed = (
        "No settings are frozen yet; asked for are settings chosen on each graph by validation accuracy under `paper`, "
        "of 3 trials for every method (all settings, where a method has fewer), 2 encoders each, with test labels "
        "sealed. Test labels of these searches are sealed: opened 0 times."
    )
    results = Results(plan, store)
    found = tables_named(results)
    assert list(found) == ["a", "a-difference", "a-ranks"]
    assert all(table.notes.count(sealed) == 1 for table in found.values())
    read = open_recorded(file, export_records(results, tmp_path / "elsewhere"))
    assert [table.notes for table in tables_named(read).values()] == [table.notes for table in found.values()]
    assert all("searches" not in note for table in tables_named(Results(planned_without(tmp_path), store)).values()
               for note in table.notes)  # fmt: skip

    run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    freeze_study(plan, graphs)
    frozen = tables_named(Results(*opened(file)[::2]))
    assert all(any("were opened 1 time." in note for note in table.notes) for table in frozen.values())
    assert list(frozen) == ["a", "a-difference", "a-ranks", "searched-spread"]


def planned_without(folder: Path) -> StudyPlan:
    """The same study without its search."""
    (folder / "without").mkdir()
    write_npz(folder / "without" / "city.npz", communities(seed=1))
    return open_study(write_study(folder / "without", graphs=["town.npz", "city.npz"], search=None))[0]


def test_labels_that_were_opened_before_freezing_broke_off_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path)
    plan, graphs, _ = opened(file)
    run_searches(plan, graphs, lambda _: Quiet(), "cpu")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fossil.studies.study_search.write_searched", killed)
    with pytest.raises(KeyboardInterrupt):
        freeze_study(plan, graphs)
    assert "are sealed" not in notes(file) and "were opened 1 time." in notes(file)


def test_the_spread_over_settings_is_that_of_the_trials(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    plan, graphs, store = opened(file)
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    freeze_study(plan, graphs)
    table = tables_named(Results(*opened(file)[::2]))["searched-spread"]
    assert store.root.exists() and table.header[3:] == ["Best", "Defaults", "Median", "Middle half", "Worst"]
    for (one, found), record in zip(results, table.records, strict=True):
        assert found is not None and (record["row"], record["graph"]) == (one.row, one.graph)
        values = sorted(trial.value for trial in found.trials if trial.is_complete)
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        assert (record["worst"], record["best"]) == (values[0], values[-1])
        assert [record[name] for name in ("lower_quartile", "median", "upper_quartile")] == [low, middle, high]


# Limits.


def test_limits_are_those_of_a_search_and_stand_in_every_table(tmp_path: Path) -> None:
    asked = STUDY["search"] | {"max_seconds": 60, "max_memory": 1000}
    plan, graphs, _ = opened(file := write_study(tmp_path, search=asked))
    for one in searches_of(plan, graphs, "cpu"):
        assert one.plan is not None and one.plan.limits == Limits(60, 1000)
    words = "2 encoders each, of those whose training takes at most 60 seconds and 1000 GiB of memory, with test"
    assert words in notes(file)
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    assert any(words in note for note in searches_table(plan, results).notes)
    freeze_study(plan, graphs)
    assert words in notes(file)
    with pytest.raises(RunError, match=r"its limits.seconds is 60.0, here it is 30.0"):
        tighter = write_study(tmp_path, search=asked | {"max_seconds": 30})
        run_searches(*open_study(tighter), lambda _: Quiet(), "cpu")


def test_settings_above_the_limits_are_neither_frozen_nor_in_the_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = searching._train

    def timed(plan: SearchPlan, chosen: Any, seed: int, usage: Usage) -> tuple[float, Usage]:
        value, _ = train(plan, chosen, seed, usage)
        if "width" not in chosen:
            return value, usage.plus(9, 0.1, None)
        return chosen["width"] / 100, usage.plus(chosen["width"], 0.1, None)

    monkeypatch.setattr(searching, "_train", timed)
    space = {"dgi": {"width": [4, 8, 16], "learning_rate": [0.001]}}
    file = write_study(tmp_path, search={"trials": 9, "encoders": 1, "max_seconds": 8, "space": space})
    plan, graphs, _ = opened(file)
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    of_dgi, of_features = searches_table(plan, results).rows
    assert (of_dgi[3], of_dgi[4], of_dgi[7]) == ("8.0", "–", "4.0")  # the defaults, 512 wide, are not in the space
    [record] = searches_table(plan, results).records
    assert results[0][1] is not None and record["settings"] == sum(one.feasible for one in results[0][1].trials)
    assert any(one.settings["width"] == 16 and one.is_complete for one in results[0][1].trials)
    assert of_features[3:] == ["–"] * 5
    with pytest.raises(SettingError, match=r"Features on town\.npz has found nothing within its limits"):
        freeze_study(plan, graphs)
    file = write_study(tmp_path, methods=STUDY["methods"][:1], search=yaml.safe_load(file.read_text())["search"])
    plan, graphs, _ = opened(file)
    freeze_study(plan, graphs)
    assert [row.found["town.npz"]["width"] for row in open_study(file)[0].rows[1:]] == [8]


def test_a_limit_that_nobody_can_check_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fossil.studies.measuring.peak_bytes", lambda device: None)
    plan, graphs, _ = opened(write_study(tmp_path, search=STUDY["search"] | {"max_memory": 4}))
    with pytest.raises(SettingError, match="How much memory a training takes can be told on a GPU") as refused:
        run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    assert "max_memory" in refused.value.remedy and not (tmp_path / "small.results" / "searches").exists()


# Several commands at once.


@contextmanager
def held_by_another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Claim the folder of a search as another command does, until that process is killed or the block is left."""
    code = f"""
from pathlib import Path
from fossil.runs.lock import holding
with holding(Path({str(folder)!r}, ".lock")):
    print("held", flush=True)
    input()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_search_that_another_process_is_at_is_left_to_it(tmp_path: Path) -> None:
    plan, graphs, _ = opened(write_study(tmp_path))
    first, _ = searches_of(plan, graphs, "cpu")
    told: list[tuple[str, str]] = []
    with held_by_another_process(first.folder) as process:
        results = run_searches(plan, graphs, lambda _: Quiet(), "cpu", lambda one, who: told.append((one.row, who)))
        assert [None if found is None else len(found.trials) for _, found in results] == [None, 3]
        assert [row for row, _ in told] == [first.row] and f"process {process.pid} on " in told[0][1]
        assert searched_elsewhere(results) == [f"{first.row} on {first.graph}"]
        table = searches_table(plan, results)
        assert table.rows[0][2] == "–" and [record["row"] for record in table.records] == [results[1][0].row]
        assert any(f"searched elsewhere: {first.row} on {first.graph}." in note for note in table.notes)
        assert not (first.folder / "journal.log").exists()  # nothing of it was touched
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    assert [len(found.trials) for _, found in results if found is not None] == [3, 3]
    assert searched_elsewhere(results) == []
    with (
        held_by_another_process(first.folder) as process,
        pytest.raises(SettingError, match=f"is not over: .* process {process.pid} on"),
    ):
        freeze_study(plan, graphs)


def test_what_another_process_left_unfinished_is_taken_up_in_the_end(tmp_path: Path) -> None:
    plan, graphs, _ = opened(write_study(tmp_path))
    first, second = searches_of(plan, graphs, "cpu")
    began: list[str] = []
    with held_by_another_process(first.folder) as process:

        def listener(one: StudySearch) -> Listener:
            began.append(one.row)
            if one.row == second.row:  # the other one dies while this process is at the second search
                process.kill()
                process.wait()
            return Quiet()

        results = run_searches(plan, graphs, listener, "cpu")
    assert began == [first.row, second.row, first.row]
    assert [len(found.trials) for _, found in results if found is not None] == [3, 3]


def test_no_search_goes_on_and_no_other_freeze_counts_while_labels_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, graphs, _ = opened(write_study(tmp_path))
    run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    longer = open_study(write_study(tmp_path, search=STUDY["search"] | {"trials": 9}))
    add, left = Openings.add, []

    def look(openings: Openings, what: dict[str, Any]) -> int:
        left.append(searched_elsewhere(run_searches(*longer, lambda _: Quiet(), "cpu")))
        with pytest.raises(SettingError, match="is not over"):
            freeze_study(plan, graphs)
        return add(openings, what)

    monkeypatch.setattr(Openings, "add", look)
    assert freeze_study(plan, graphs) == 1
    assert [len(others) for others in left] == [2, 2]  # both are held from the first opening to the last


def test_a_graph_that_a_method_cannot_have_does_not_stop_the_other_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, broken = searching._train, [True]

    def refusing(plan: SearchPlan, *others: Any) -> Any:
        if plan.kind.name == "dgi" and broken[0]:
            raise GraphError("Its edges are too short.", remedy="Take longer ones.")
        return train(plan, *others)

    monkeypatch.setattr(searching, "_train", refusing)
    plan, graphs, _ = opened(write_study(tmp_path))
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")
    assert [None if found is None else len(found.trials) for _, found in results] == [None, 3]
    table, dgi = searches_table(plan, results), plan.rows[0].title
    assert f"{dgi} on town.npz: Its edges are too short. Take longer ones." in table.notes
    assert searched_elsewhere(results) == [] and not any("elsewhere" in note for note in table.notes)

    assert freeze_study(plan, graphs) == 1  # what could be searched; a row for the other is not made
    again = open_study(write_study(tmp_path))[0]
    assert [row.title for row in again.rows[2:]] == ["Features (searched)"]
    broken[0] = False
    results = run_searches(plan, graphs, lambda _: Quiet(), "cpu")  # to see the spread again: nothing is tried
    assert [None if found is None else len(found.trials) for _, found in results] == [None, 3]
    assert "Its edges are too short." in results[0][0].reason
    broken[0] = True

    # Before that, another machine may be able to: the first trial is tried again each time.
    (tmp_path / "mended").mkdir()
    file = write_study(tmp_path / "mended")
    run_searches(*open_study(file), lambda _: Quiet(), "cpu")
    broken[0] = False
    results = run_searches(*open_study(file), lambda _: Quiet(), "cpu")
    assert [len(found.trials) for _, found in results if found is not None] == [3, 3]
    freeze_study(*open_study(file))
    assert [row.title for row in open_study(file)[0].rows[2:]] == [f"{dgi} (searched)", "Features (searched)"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"methods": ["dgi", {"method": "dgi", "title": "DGI (searched)"}]}, "two rows are called 'DGI .searched.'"),
        ({"search": {"trials": 3, "trails": 4}}, "unknown key 'trails'"),
        ({"search": {"encoders": 1}}, "has no end"),
        ({"search": {"trials": 0}}, "trials=0 is not accepted"),
        ({"search": {"trials": 3, "max_seconds": 0}}, "max_seconds=0 is not accepted"),
        ({"search": {"trials": 3, "max_memory": "4 GiB"}}, "max_memory='4 GiB' is not accepted"),
        ({"search": {"trials": 3, "max_memroy": 4}}, "unknown key 'max_memroy'. Did you mean 'max_memory'"),
        ({"search": {"trials": 3, "space": {"dgi": {"dropout": [0.5, 1.5]}}}}, "space of dropout holds 1.5"),
        ({"search": {"trials": 3, "space": {"dgi": {"dropuot": [0.5]}}}}, "Did you mean 'dropout'"),
        ({"search": {"trials": 3, "space": {"dgii": {}}}}, "no method of the study"),
        ({"search": {"trials": 3, "protocol": "converged"}}, "are not those that a search puts aside"),
        ({"protocols": ["geom_gcn"]}, "are not those that a search puts aside"),
        ({"sweep": {"name": "dropout", "values": [0.1, 0.2]}}, "cannot be searched"),
    ],
)
def test_a_search_that_cannot_be_is_refused_when_it_is_planned(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        open_study(write_study(tmp_path, **changed))


def test_two_searches_that_would_share_a_folder_are_refused(tmp_path: Path) -> None:
    rows = [{"method": "dgi", "title": title, "epochs": epochs} for title, epochs in (("DGI (a)", 2), ("DGI [a]", 3))]
    with pytest.raises(SettingError, match=r"two folders of searches are called 'town--DGI_a'.*another title"):
        open_study(write_study(tmp_path, methods=rows, graphs=[{"input": "town.npz", "title": "town"}]))


def test_a_study_without_a_search_says_so(tmp_path: Path) -> None:
    plan, graphs, _ = opened(write_study(tmp_path, search=None))
    with pytest.raises(SettingError, match="asks for no search"):
        freeze_study(plan, graphs)


def test_letters_leave_out_what_cannot_be_paired() -> None:
    high = {seed: {0: 0.80 + 0.001 * seed, 1: 0.81} for seed in range(5)}
    low = {seed: {0: 0.60 + 0.001 * seed**2, 1: 0.62} for seed in range(5)}
    level = {seed: {0: 0.80 - 0.001 * seed, 1: 0.81 + 0.002 * (seed % 2)} for seed in range(5)}
    one_split = {seed: {0: 0.9} for seed in range(5)}
    two_seeds = {seed: {0: 0.9, 1: 0.9} for seed in range(2)}
    assert letters_of([low, high, one_split, level, two_seeds]) == ["b", "a", "", "a", ""]
    assert letters_of([high]) == [""] and letters_of([two_seeds, two_seeds]) == ["", ""] and letters_of([]) == []


def test_letters_pair_rows_on_the_encoders_that_both_have() -> None:
    many = {seed: {0: 0.80 + 0.001 * seed, 1: 0.81} for seed in range(8)}
    fewer = {seed: {0: 0.60 + 0.001 * seed**2, 1: 0.62} for seed in range(4)}
    elsewhere = {seed: {0: 0.5, 1: 0.5} for seed in range(6, 9)}  # shares two encoders with one, none with the other
    assert letters_of([fewer, many, elsewhere]) == ["b", "a", ""]
