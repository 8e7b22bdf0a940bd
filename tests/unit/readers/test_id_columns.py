"""Which column, or index, holds the ids of the nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.readers.read import read_graph
from fossil.runs.conversion import convert

NAMES = ["ann", "bob", "cho"]
PEOPLE = pd.DataFrame({"name": NAMES, "age": [20, 30, 50], "city": ["x", "y", "x"]})
BY_NAME = pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cho"]})
BY_ROW = pd.DataFrame({"source": [0, 1], "target": [1, 2]})


def noted(graph: Graph) -> list[tuple[str, str]]:
    return [(f.kind, f.done) for f in graph.findings if "index" in f.kind or "unnamed" in f.kind]


def write(folder: Path, nodes: pd.DataFrame, edges: pd.DataFrame, form: str) -> Any:
    """Return two frames in one form, indices included."""
    if form == "frames":
        return nodes, edges
    for name, frame in (("nodes", nodes), ("edges", edges)):
        if form == "parquet":
            frame.to_parquet(folder / f"{name}.parquet")
        else:
            frame.to_csv(folder / f"{name}.csv", index=True)
    return folder


@pytest.mark.parametrize("form", ["csv", "parquet", "frames"])
def test_the_index_holds_the_ids_where_edges_name_it(tmp_path: Path, form: str) -> None:
    people = PEOPLE.set_index("name").rename_axis(None)
    graph = read_graph(write(tmp_path, people, BY_NAME, form)).graph
    assert graph.ids.tolist() == NAMES and graph.feature_names == ("age", "city=x", "city=y")
    assert noted(graph)[0][1] == "taken as the node ids" and graph.num_edges == 2


@pytest.mark.parametrize("form", ["csv", "frames"])
def test_a_count_of_rows_holds_the_ids_where_edges_count_rows(tmp_path: Path, form: str) -> None:
    people = PEOPLE[["age", "city"]]
    graph = read_graph(write(tmp_path, people, BY_ROW, form)).graph
    assert graph.ids.tolist() == [0, 1, 2] and graph.feature_names == ("age", "city=x", "city=y")
    assert noted(graph)[0][1] == "taken as the node ids"


@pytest.mark.parametrize("form", ["csv", "parquet", "frames"])
def test_the_first_column_holds_them_where_edges_name_that(tmp_path: Path, form: str) -> None:
    people = PEOPLE.set_index(pd.Index([7, 9, 4]))  # as rows are numbered after some were left out
    graph = read_graph(write(tmp_path, people, BY_NAME, form)).graph
    assert graph.ids.tolist() == NAMES and graph.feature_names == ("age", "city=x", "city=y")
    left_out = [(kind, done) for kind, done in noted(graph) if "edges" not in kind]
    assert left_out == ([] if form == "frames" else [("unnamed index column", "left out")])


@pytest.mark.parametrize("form", ["csv", "parquet", "frames"])
def test_an_id_column_goes_before_any_index(tmp_path: Path, form: str) -> None:
    people = PEOPLE.rename(columns={"name": "id"})
    graph = read_graph(write(tmp_path, people, BY_NAME, form)).graph
    assert graph.ids.tolist() == NAMES and graph.feature_names == ("age", "city=x", "city=y")


@pytest.mark.parametrize("form", ["csv", "parquet", "frames"])
def test_a_named_index_holds_the_ids(tmp_path: Path, form: str) -> None:
    graph = read_graph(write(tmp_path, PEOPLE.set_index("name"), BY_NAME, form)).graph
    assert graph.ids.tolist() == NAMES and graph.feature_names == ("age", "city=x", "city=y")


def test_the_index_of_edges_is_never_an_end(tmp_path: Path) -> None:
    edges = BY_NAME.rename(columns={"source": "one", "target": "other"})
    graph = read_graph(write(tmp_path, PEOPLE, edges, "csv")).graph
    assert graph.num_edges == 2 and ("unnamed index column of the edges", "left out") in noted(graph)


def test_the_ids_can_be_declared_against_the_index() -> None:
    people = PEOPLE.set_index(pd.Index(["x", "y", "z"]))
    assert read_graph((people, BY_NAME), roles={"name": "id"}).graph.ids.tolist() == NAMES
    with pytest.raises(GraphError, match="no column 'nmae'"):
        read_graph((people, BY_NAME), roles={"nmae": "id"})


def test_a_plan_finds_the_index_again() -> None:
    people = PEOPLE.set_index("name").rename_axis(None)
    loaded = read_graph((people, BY_NAME))
    assert read_graph((people, BY_NAME), plan=loaded.plan).graph.fingerprint == loaded.graph.fingerprint


@pytest.mark.parametrize("form", ["csv", "frames"])
@pytest.mark.parametrize(
    ("choices", "told"),
    [
        ({"roles": {"name": "id", "city": "id"}}, "Columns 'name' and 'city' are each declared id"),
        ({"roles": {"age": "label", "city": "label"}}, "Columns 'age' and 'city' are each declared label"),
        ({"roles": {"age": "label"}, "label": "city"}, "Columns 'city' and 'age' are each declared label"),
        ({"roles": {"name": "categorical"}}, "Column 'name' of .* holds the node ids, and is declared 'categorical'"),
        ({"label": "name"}, "Column 'name' of .* holds the node ids, and is declared 'label'"),
    ],
)
def test_choices_that_would_have_no_effect_are_refused(
    tmp_path: Path, form: str, choices: dict[str, Any], told: str
) -> None:
    source = PEOPLE, BY_NAME
    if form == "csv":
        for name, frame in zip(("nodes", "edges"), source, strict=True):
            frame.to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(GraphError, match=told):
        read_graph(tmp_path if form == "csv" else source, **choices)
    if form == "csv":
        with pytest.raises(GraphError, match=told):
            convert(tmp_path, tmp_path / "graph", **choices)
