from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.findings import Treatment
from fossil.readers.attach import attach, attach_tables
from fossil.readers.read import read_graph

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,p\n"
EDGES = "source,target\na,b\nb,c\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "people"
    path.mkdir()
    (path / "nodes.csv").write_text(NODES)
    (path / "edges.csv").write_text(EDGES)
    return path


def new_nodes(folder: Path, nodes: str, edges: str | None = None) -> tuple[Path, Path | None]:
    (folder / "more.csv").write_text(nodes)
    if edges is None:
        return folder / "more.csv", None
    (folder / "links.csv").write_text(edges)
    return folder / "more.csv", folder / "links.csv"


def test_attach_puts_new_rows_after_the_old(folder: Path) -> None:
    loaded = read_graph(folder)
    paths = new_nodes(folder, "id,age,kind,label\nd,2,x,r\ne,1,y,p\n", "source,target\nd,a\nd,e\n")
    union = attach(loaded.graph, loaded.plan, *paths)
    assert union.ids.tolist() == ["a", "b", "c", "d", "e"] and union.label_names == ("p", "q", "r")
    assert union.labels is not None and union.labels.tolist() == [0, 1, 0, 2, 0]
    np.testing.assert_array_equal(union.features[:3], loaded.graph.features)
    np.testing.assert_array_equal(union.features[3], [0, 1, 0])
    pairs = {(str(union.ids[i]), str(union.ids[j])) for i, j in zip(*union.adjacency.nonzero(), strict=True)}
    assert pairs == {("a", "b"), ("b", "c"), ("d", "a"), ("d", "e")}


def test_attach_reverses_new_edges_alone_where_the_old_ones_are_reversed(folder: Path) -> None:
    treatment = Treatment(direction="reverse")
    loaded = read_graph(folder, treatment=treatment)
    paths = new_nodes(folder, "id,age,kind\nd,2,x\n", "source,target\nd,a\n")
    union = attach(loaded.graph, loaded.plan, *paths, treatment=treatment)
    pairs = {(str(union.ids[i]), str(union.ids[j])) for i, j in zip(*union.adjacency.nonzero(), strict=True)}
    assert pairs == {("b", "a"), ("c", "b"), ("a", "d")}


def test_attach_without_edges_or_labels(folder: Path) -> None:
    loaded = read_graph(folder)
    union = attach(loaded.graph, loaded.plan, *new_nodes(folder, "id,age,kind\nd,2,x\n"))
    assert union.labels is not None and union.labels[-1] == -1
    assert [f.examples for f in union.findings if f.kind == "isolated nodes"] == [("d",)]


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("id,age,kind\nb,2,x\n", None, r"already in graph 'people': 'b' \(line 2\)"),
        ("id,age,kind\nd,2,x\n", "source,target\nd,zed\n", "'zed'"),
        ("id,kind\nd,x\n", None, "no column 'age'"),
    ],
)
def test_attach_refuses(folder: Path, nodes: str, edges: str | None, message: str) -> None:
    loaded = read_graph(folder)
    with pytest.raises(GraphError, match=message):
        attach(loaded.graph, loaded.plan, *new_nodes(folder, nodes, edges))


def test_attach_describes_the_union_by_the_old_scale(folder: Path) -> None:
    loaded = read_graph(folder, structural_features=True)
    assert loaded.plan is not None
    paths = new_nodes(folder, "id,age,kind\nd,2,x\n", "source,target\nd,a\nd,b\n")
    union = attach(loaded.graph, loaded.plan, *paths)
    first = loaded.plan.structural[0]
    np.testing.assert_allclose(
        union.features[:, 3], (np.log1p([1, 1, 0, 2]) - first.mean) / first.scale, rtol=1e-5, atol=1e-6
    )
    assert union.feature_names == loaded.graph.feature_names


@pytest.mark.parametrize("sparse", [False, True])
def test_attach_to_a_graph_without_plan(folder: Path, sparse: bool) -> None:
    features = sp.csr_array(np.eye(3)[:, :2]) if sparse else np.eye(3)[:, :2]
    base = read_graph((sp.csr_array(np.roll(np.eye(3), 1, axis=1)), features)).graph
    union = attach(base, None, *new_nodes(folder, "id,f0,f1\n7,0.5,3\n", "source,target\n7,0\n"))
    assert union.has_sparse_features is sparse and union.ids.tolist() == [0, 1, 2, 7]
    last = union.features[[3]]
    assert (last.toarray() if sp.issparse(last) else last).tolist() == [[0.5, 3.0]]
    with pytest.raises(GraphError, match="1 feature columns"):
        attach(base, None, *new_nodes(folder, "id,f0\n7,0.5\n"))


def test_tables_of_new_nodes_are_found_as_those_of_a_graph_are(folder: Path, tmp_path: Path) -> None:
    loaded = read_graph(folder)
    (tmp_path / "nodes.csv").write_text("id,age,kind\nd,2,x\n")
    (tmp_path / "edges.csv").write_text("source,target\nd,a\n")
    expected = attach(loaded.graph, loaded.plan, tmp_path / "nodes.csv", tmp_path / "edges.csv").fingerprint
    for source in (tmp_path, str(tmp_path), tmp_path / "nodes.csv"):
        assert attach_tables(loaded.graph, loaded.plan, source, None).fingerprint == expected
    (tmp_path / "edges.csv").rename(tmp_path / "links.csv")
    named = attach_tables(loaded.graph, loaded.plan, tmp_path, tmp_path / "links.csv")
    assert named.fingerprint == expected
    with pytest.raises(GraphError, match="come in tables, and this is a Graph"):
        attach_tables(loaded.graph, loaded.plan, loaded.graph, None)
