"""Columns of the page against the table that the user wrote."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fossil
from fossil.datasets.synthetic import csbm
from fossil.evaluation.answers import Answers
from fossil.report.columns import NodeColumn, columns_of
from fossil.report.probe import describe_probe
from fossil.runs.run import Run

ROWS = [
    ("ada", "36", "London", "true", "2021-03-04", "0.25", "research"),
    ("bob", "29", "Paris", "false", "2020-01-01", "1e-3", "sales"),
    ("cho", "41", "Seoul", "true", "2022-12-31", "12.5", "research"),
    ("dee", "33", "Paris", "false", "2021-07-15", "3", "sales"),
    ("eve", "52", "London", "true", "2021-03-05", "7.125", "sales"),
]


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NodeColumn]:
    folder: Path = tmp_path_factory.mktemp("people")
    with (folder / "nodes.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("id", "age", "city", "remote", "joined", "score", "team"), *ROWS])
    (folder / "edges.csv").write_text("source,target\nada,bob\nbob,cho\ncho,ada\ndee,cho\n")
    fossil.embed(
        folder, label="team", method="features", out=folder / "run", treatment={"direction": "symmetrize"},
        roles={"joined": "date"},
    )  # fmt: skip
    return {column.name: column for column in columns_of(Run.open(folder / "run"))}


def test_what_stood_in_the_table_is_read_back(columns: dict[str, NodeColumn]) -> None:
    assert columns["table:age"].values.tolist() == [float(row[1]) for row in ROWS]
    np.testing.assert_allclose(columns["table:score"].values, [float(row[5]) for row in ROWS], rtol=1e-5, atol=1e-5)
    city = columns["table:city"]
    assert city.names is not None and [city.names[code] for code in city.values] == [row[2] for row in ROWS]
    remote = columns["table:remote"]
    assert [remote.shown(row) for row in range(5)] == ["yes", "no", "yes", "no", "yes"]
    assert columns["table:joined"].values.tolist() == pytest.approx(
        [2021.17, 2020.0, 2023.0, 2021.53, 2021.17], abs=0.01
    )


def test_labels_are_a_column_and_no_column_of_the_table(columns: dict[str, NodeColumn]) -> None:
    label = columns["label"]
    assert [label.shown(row) for row in range(5)] == [row[-1] for row in ROWS]
    assert "table:team" not in columns and "table:id" not in columns
    assert dict(zip(label.meta().names, label.meta().counts, strict=True)) == {"research": 2, "sales": 3}


def test_degrees_and_the_share_of_neighbours_of_the_same_class(columns: dict[str, NodeColumn]) -> None:
    assert columns["degree"].values.tolist() == [2, 2, 3, 1, 0]
    np.testing.assert_allclose(columns["agreement"].values, [1 / 2, 0, 1 / 3, 0, np.nan])
    assert columns["agreement"].meta().missing == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (36.0, "36"),
        (2021.0, "2021"),  # a year, perhaps
        (1_234_567.0, "1,234,567"),
        (-20_000.0, "-20,000"),
        (2021.1705, "2021.17"),
        (0.001, "0.001"),
        (1e300, "1e+300"),
        (np.nan, "none"),
    ],
)
def test_a_number_is_shown_as_people_write_it(value: float, said: str) -> None:
    assert NodeColumn("x", "x", "", np.array([value])).shown(0) == said


def test_names_of_a_megabyte_are_shortened_wherever_they_are_told(tmp_path: Path) -> None:
    graph = csbm(40, degree=4, features=3, seed=0)
    graph = replace(graph, label_names=("a" * 2**20, "b"), feature_names=("c" * 2**20, "d", "e"))
    fossil.embed(graph, method="features", out=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    label, *others = columns_of(run)
    assert label.names is not None and len(label.names[0]) < 3000 and label.names[1] == "b"
    assert max(len(column.title) for column in others) < 3000
    tested = np.ones(40, np.int64)
    found = Answers(1, tested, tested, 1 - run.graph.labels, np.eye(2, dtype=np.int64))
    probe = describe_probe(run.graph, found, np.arange(40))
    assert max(map(len, (*probe.classes, *(each.truth + each.answer for each in probe.worst)))) < 6000
