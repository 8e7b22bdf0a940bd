"""Edges that name unknown nodes, edges with weights, edges alone, and lists of one direction."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.readers.attach import attach_tables
from fossil.readers.npz import read_npz, write_npz
from fossil.readers.read import read_graph
from fossil.readers.structural_features import STRUCTURAL_NAMES, Ways, structural_columns
from fossil.runs.conversion import convert

NODES = "id,age,kind\na,1,x\nb,2,y\nc,3,x\n"
IGNORE = Treatment(edge_weights="ignore")


def write(folder: Path, **tables: str) -> Path:
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content)
    return folder


def findings(graph: Graph) -> dict[str, tuple[int, str, tuple[str, ...]]]:
    return {f.kind: (f.count, f.done, f.examples) for f in graph.findings}


def test_edges_to_unknown_nodes_are_dropped_by_name_and_counted(tmp_path: Path) -> None:
    folder = write(tmp_path, nodes=NODES, edges="source,target\na,b\nzed,a\nb,c\nc,zed\nyak,zed\n")
    with pytest.raises(GraphError, match=r"3 edges .* 2 nodes .*'zed' \(lines 3, 5 and 6\) and 'yak' \(line 6\)"):
        read_graph(folder)
    graph = read_graph(folder, treatment=Treatment(unknown_edges="drop")).graph
    assert findings(graph)["edges that name unknown nodes"] == (3, "dropped", ("zed", "yak"))
    assert sorted(zip(*graph.adjacency.nonzero(), strict=True)) == [(0, 1), (1, 2)]
    write_npz(tmp_path / "graph.npz", graph)
    assert findings(read_npz(tmp_path / "graph.npz")) == findings(graph)


@pytest.mark.parametrize(
    ("nodes", "edges", "remedy"),
    [
        (NODES, "a,\n", "Fill the empty end, or drop such edges with --unknown-edges drop."),
        (NODES, "a,\nzed,a\n", "Fill empty ends, add the others to the node table, or drop such edges with"),
        (NODES, "a , b\n", "Remove the spaces around ids: without them some are known."),
        (NODES.replace("a,1", " a ,1"), "a,b\n", "Remove the spaces around ids: without them it is known."),
    ],
)
def test_the_remedy_for_unknown_nodes_fits_what_they_are(tmp_path: Path, nodes: str, edges: str, remedy: str) -> None:
    folder = write(tmp_path, nodes=nodes, edges=f"source,target\nb,c\n{edges}")
    with pytest.raises(GraphError) as caught:
        read_graph(folder)
    assert caught.value.remedy.startswith(remedy)


def test_everything_wrong_with_two_tables_is_in_one_message(tmp_path: Path) -> None:
    nodes = "id,age,kind,when\na,1,x,2021-01-01\nb,,y,\na,old,x,2021-01-03\n,4,x,2021-01-04\n"
    folder = write(tmp_path, nodes=nodes, edges="source,target,weight\na,b,1\nb,zed,2\n")
    with pytest.raises(GraphError) as caught:
        read_graph(folder, roles={"knid": "drop"})
    lines = caught.value.what.splitlines()
    for part, remedy in (
        ("no column 'knid'", "'kind'"),
        ("given more than once in", "--column NAME=id"),
        ("no usable node id", "Fill column 'id'"),
        ("column 'age' in", "--missing median"),
        ("'old' (line 4)", "--column age=drop"),
        ("column 'when' in", "--missing median"),
        ("'zed' (line 3)", "--unknown-edges drop"),
        ("'weight' (for example 1 and 2)", "--edge-weights ignore"),
    ):
        assert any(part in line and remedy in line for line in lines), part
    assert len(lines) == 9 and lines[0] == f"{tmp_path.name} has 8 problems:"


def test_malformed_rows_of_both_tables_are_in_one_message(tmp_path: Path) -> None:
    folder = write(tmp_path, nodes="id,x\na\nb,1\n", edges="source,target\na,b,c\n")
    with pytest.raises(GraphError, match=r"2 problems:(.|\n)*line 2 has 1(.|\n)*line 2 has 3"):
        read_graph(folder)


def test_weights_are_refused_ignored_or_say_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path, nodes=NODES, edges="source,target,strength,kind\na,b,0.5,kin\nb,c,2,work\n")
    with pytest.raises(GraphError, match=r"differ between edges: 'strength' \(for example 0.5 and 2\)") as caught:
        read_graph(folder)
    assert "--edge-weights ignore" in caught.value.remedy
    noted = findings(read_graph(folder, treatment={"edge_weights": "ignore"}).graph)
    assert noted == findings(read_graph(folder, treatment=IGNORE).graph)
    assert noted["edge weights"] == (1, "ignored", ("strength",))
    assert noted["further edge columns"] == (1, "ignored", ("kind",))
    write(tmp_path, edges="source,target,strength\na,b,2\nb,c,2\n")
    assert findings(read_graph(folder).graph)["further edge columns"] == (1, "ignored", ("strength",))


@pytest.mark.parametrize("key", ["edge_weight", "edge_attr"])
def test_weights_in_an_npz_file_are_not_overlooked(tmp_path: Path, key: str) -> None:
    arrays: dict[str, Any] = {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(3)}
    np.savez(tmp_path / "g.npz", **arrays, **{key: np.array([1.0, 3.0])})
    with pytest.raises(GraphError, match=f"'{key}'"):
        read_graph(tmp_path / "g.npz")
    assert findings(read_graph(tmp_path / "g.npz", treatment=IGNORE).graph)["edge weights"][1] == "ignored"
    matrix = sp.csr_array((np.array([1.0, 3.0]), ([0, 1], [1, 2])), shape=(3, 3))
    sp.save_npz(tmp_path / "a.npz", matrix)
    with pytest.raises(GraphError, match="1 and 3"):
        read_graph(tmp_path / "a.npz", structural_features=True)


TIES = "source,target\nu,v\nv,w\nw,u\nw,x\n"


def edges_alone(form: str, folder: Path) -> Any:
    if form == "frame":
        return pd.DataFrame([line.split(",") for line in TIES.split()[1:]], columns=["source", "target"])
    if form == "pair":
        return (None, edges_alone("frame", folder))
    name = {"folder": "edges", "edges.csv": "edges"}.get(form, "ties")
    path = write(folder, **{name: TIES}) / f"{name}.csv"
    if form == "ties.csv.gz":
        path = folder / "ties.csv.gz"
        path.write_bytes(gzip.compress(TIES.encode()))
    return folder if form == "folder" else path


@pytest.mark.parametrize("form", ["folder", "edges.csv", "ties.csv", "ties.csv.gz", "frame", "pair"])
def test_edges_alone_make_a_graph_with_structural_features(tmp_path: Path, form: str) -> None:
    source = edges_alone(form, tmp_path)
    with pytest.raises(GraphError) as caught:
        read_graph(source)
    assert "--structural-features" in caught.value.remedy
    loaded = read_graph(source, structural_features=True, name="ties")
    graph = loaded.graph
    assert graph.ids.tolist() == ["u", "v", "w", "x"] and graph.feature_names == STRUCTURAL_NAMES
    assert findings(graph)["nodes"][:2] == (4, "taken from the edges")
    expected = np.column_stack([*structural_columns(Ways.of(graph.adjacency))])
    spread = expected.std(axis=0)
    scaled = np.divide(expected - expected.mean(axis=0), spread, out=np.zeros_like(expected), where=spread > 0)
    np.testing.assert_allclose(graph.features, scaled, rtol=1e-5, atol=1e-6)
    again = read_graph(source, plan=loaded.plan).graph  # as a trained run does it
    assert again.fingerprint == graph.fingerprint


def test_an_edge_table_that_has_its_nodes_beside_it_points_to_the_folder(tmp_path: Path) -> None:
    write(tmp_path, nodes=NODES, edges="source,target\na,b\n")
    with pytest.raises(GraphError, match=f"Give the folder, {tmp_path}"):
        read_graph(tmp_path / "edges.csv")


def test_a_file_name_is_the_name_of_the_graph_without_all_its_suffixes(tmp_path: Path) -> None:
    assert read_graph(edges_alone("ties.csv.gz", tmp_path), structural_features=True).graph.name == "ties"


def test_new_nodes_of_edges_alone_come_with_their_ids(tmp_path: Path) -> None:
    loaded = read_graph(edges_alone("ties.csv", tmp_path), structural_features=True)
    newcomers = tmp_path / "new"
    newcomers.mkdir()
    write(newcomers, edges="source,target\ny,u\n")
    with pytest.raises(GraphError, match="no table of the new nodes"):
        attach_tables(loaded.graph, loaded.plan, newcomers, None)
    write(newcomers, nodes="id\ny\n")
    assert attach_tables(loaded.graph, loaded.plan, newcomers, None).ids.tolist() == ["u", "v", "w", "x", "y"]


def test_a_single_frame_of_nodes_is_not_taken_for_edges() -> None:
    with pytest.raises(GraphError, match="taken as edges, and this one has the columns id, x"):
        read_graph(pd.DataFrame({"id": [0, 1], "x": [1.0, 2.0]}), structural_features=True)


def test_edges_without_an_end_are_refused_where_there_is_no_node_table(tmp_path: Path) -> None:
    write(tmp_path, ties="source,target\nu,v\nv,\n")
    with pytest.raises(GraphError, match=r"1 edge .* names 1 node not in the node table: '' \(line 3\)"):
        read_graph(tmp_path / "ties.csv", structural_features=True)


def test_edges_alone_without_a_header_do_not_lose_their_first_line(tmp_path: Path) -> None:
    folder = tmp_path / "town"
    folder.mkdir()
    write(folder, edges="ann,bob\nbob,cho\ncho,dee\n")
    for read in (read_graph, lambda source, **how: convert(source, tmp_path / "graph", **how)):
        with pytest.raises(GraphError, match=r"The first line of .* is an edge \(ann, bob\), not column names"):
            read(folder, structural_features=True)
    write(folder, edges="who,whom\nbob,cho\ncho,dee\n")
    assert read_graph(folder, structural_features=True).graph.num_nodes == 3


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_compressed_tables_give_the_same_graph(tmp_path: Path, suffix: str) -> None:
    plain, packed = tmp_path / "town", tmp_path / "packed" / "town"
    packed.mkdir(parents=True)
    plain.mkdir()
    for name, content in (("nodes", NODES), ("edges", "source,target\na,b\nb,c\n")):
        content = content.replace(",", "\t") if suffix == ".tsv" else content
        (plain / f"{name}{suffix}").write_text(content)
        (packed / f"{name}{suffix}.gz").write_bytes(gzip.compress(content.encode()))
    expected = read_graph(plain).graph
    named = packed / f"nodes{suffix}.gz"
    for graph in (
        read_graph(packed).graph,
        read_graph(named).graph,
        read_graph(named, edges=plain / f"edges{suffix}").graph,
    ):
        assert (graph.fingerprint, graph.name) == (expected.fingerprint, "town")


@pytest.mark.parametrize(("edges", "hinted"), [("a,b\nb,c\n", True), ("a,b\nb,a\nb,c\n", False)])
def test_a_list_of_one_direction_comes_with_the_hint_to_symmetrise(tmp_path: Path, edges: str, hinted: bool) -> None:
    graph = read_graph(write(tmp_path, nodes=NODES, edges=f"source,target\n{edges}")).graph
    done = findings(graph)["edges without their reverse"][1]
    assert done.startswith("kept") and ("--direction symmetrize" in done) is hinted
    again = read_graph(graph, treatment=Treatment(direction="symmetrize")).graph
    assert findings(again)["edges without their reverse"][1] == "reverse added"
