"""What comes after training: tables in every form, vectors from elsewhere beside a run, and a picture."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import QUICK, here, in_process
from people import write_town
from scipy.stats import ttest_rel

from fossil.methods.registry import get_method, methods


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, of seed 0, on one town."""
    folder = tmp_path_factory.mktemp("after")
    write_town(folder / "town", 60)
    for name, epochs in (("one", "2"), ("two", "3")):
        done = here("embed", "town", "--out", name, "--epochs", epochs, *QUICK, cwd=folder)
        assert done.status == 0, done.err
    return folder


def accuracies(run: Path) -> list[float]:
    return [score["accuracy"] for score in json.loads((run / "scores-paper.json").read_text())["scores"]]


@pytest.mark.parametrize("arguments", [("evaluate", "one", "two", "--splits", "3"), ("methods",), ("data", "formats")])
def test_a_pipe_has_no_width(place: Path, arguments: tuple[str, ...]) -> None:
    narrow, wide = (here(*arguments, cwd=place, env={"COLUMNS": width}).out for width in ("80", "1000"))
    assert narrow == wide and "…" not in narrow
    assert max(map(len, narrow.splitlines())) > 80


def test_scores_come_as_csv_and_json_with_every_raw_value(place: Path) -> None:
    asked = ("evaluate", "one", "two", "--splits", "3", "--device", "cpu", "--format")
    csv, plain = (here(*asked, form, cwd=place) for form in ("csv", "json"))
    assert (csv.status, plain.status, csv.err) == (0, 0, "")
    frame, records = pd.read_csv(io.StringIO(csv.out)), json.loads(plain.out)
    for number, name in enumerate(("one", "two")):
        values = accuracies(place / name)
        assert records[number]["accuracies"] == values and records[number]["accuracy"] == pytest.approx(np.mean(values))
        assert [float(value) for value in frame["accuracies"][number].split()] == values
    expected = ttest_rel(accuracies(place / "two"), accuracies(place / "one")).confidence_interval(0.95)
    assert records[1]["difference_low"] == pytest.approx(expected.low)
    assert frame["difference_high"][1] == pytest.approx(expected.high)


@pytest.mark.parametrize(("form", "start"), [("markdown", "| graph | method |"), ("latex", "% needs ")])
def test_scores_come_as_text_for_a_paper(place: Path, form: str, start: str) -> None:
    done = here("evaluate", "one", "--splits", "3", "--device", "cpu", "--format", form, cwd=place)
    assert done.status == 0 and done.out.startswith(start), done.err
    assert f"{100 * np.mean(accuracies(place / 'one')):.2f}" in done.out and "Protocol 'paper'" in done.out
    assert "majority class" in done.out


def test_methods_and_settings_come_in_every_form() -> None:
    graphs = {one["name"]: one for one in json.loads(here("data", "list", "--format", "json").out)}
    assert (graphs["cora"]["nodes"], graphs["csbm"]["nodes"], graphs["digits"]["files"]) == (2708, None, "built in")
    forms = pd.read_csv(io.StringIO(here("data", "formats", "--format", "csv").out)).set_index("reader")
    assert ".csv.gz" in forms.loc["csv", "suffixes"].split() and forms.loc["csv", "columns"]
    listed = json.loads(here("methods", "--format", "json").out)
    assert {one["name"]: one["trains_on_labels"] for one in listed} == {
        name: kind.needs_labels for name, kind in methods().items()
    }
    settings = pd.read_csv(io.StringIO(here("methods", "--method", "dgi", "--format", "csv").out))
    assert settings["setting"].tolist() == list(get_method("dgi").Config.model_fields)


def test_vectors_from_elsewhere_stand_beside_a_run(place: Path) -> None:
    table = pd.read_parquet(place / "one" / "embeddings.parquet").sample(frac=1, random_state=0)
    table.to_csv(place / "elsewhere.csv", index=False)
    asked = ("--vectors", "elsewhere.csv", "--graph", "town", "--splits", "3", "--device", "cpu", "--format", "json")
    done = here("evaluate", "one", *asked, cwd=place)
    assert done.status == 0, done.err
    run, outside = json.loads(done.out)
    assert outside["method"] == "elsewhere.csv" and outside["accuracies"] == run["accuracies"]
    assert (outside["against"], outside["difference"]) == (run["method"], 0.0)
    alone = json.loads(here("evaluate", *asked, cwd=place).out)
    assert [one["accuracies"] for one in alone] == [run["accuracies"]]


def test_the_graph_of_vectors_from_elsewhere_is_read_with_all_options_of_reading(place: Path) -> None:
    pd.read_parquet(place / "one" / "embeddings.parquet").to_csv(place / "mine.csv", index=False)
    (place / "holes").mkdir(exist_ok=True)
    nodes = pd.read_csv(place / "town" / "nodes.csv")
    nodes["gap"] = [None if row < 3 else row for row in range(len(nodes))]
    nodes.to_csv(place / "holes" / "nodes.csv", index=False)
    (place / "holes" / "edges.csv").write_bytes((place / "town" / "edges.csv").read_bytes())
    asked = ("evaluate", "--vectors", "mine.csv", "--graph", "holes", "--splits", "1", "--device", "cpu")
    refused = here(*asked, cwd=place)
    assert refused.status == 2 and "--missing" in refused.line("remedy")
    assert here(*asked, "--missing", "median", cwd=place).status == 0
    idle = here("evaluate", "one", "--missing", "median", cwd=place)
    assert idle.status == 2 and idle.line("error") == "--missing has no effect without --vectors."


def test_a_map_is_drawn_later_and_replaced_when_asked(place: Path) -> None:
    assert not (place / "one" / "map.png").exists()
    done = here("map", "one", cwd=place)
    assert done.status == 0 and "map → one/map.png" in done.out, done.err
    drawn = (place / "one" / "map.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert here("map", "one", "--colour", "none", "--force", cwd=place).status == 0
    assert (place / "one" / "map.png").read_bytes() != drawn
    assert here("map", "one", "--out", "figures/one.svg", "--color", "channel", cwd=place).status == 0
    assert "<svg" in (place / "figures" / "one.svg").read_text()


def test_a_map_that_cannot_be_drawn_is_refused_before_training(place: Path, tmp_path: Path) -> None:
    package = tmp_path / "without" / "matplotlib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('not installed')")
    path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])
    asked = ("embed", place / "town", "--out", tmp_path / "run", "--epochs", "2", *QUICK, "--map")
    done = in_process(*asked, env={"PYTHONPATH": path})
    assert done.status == 2 and "needs matplotlib" in done.line("error") and "[plot]" in done.line("remedy")
    assert done.out == "" and not (tmp_path / "run").exists()
