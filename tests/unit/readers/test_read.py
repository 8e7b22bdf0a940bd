from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from fossil.errors import GraphError
from fossil.graph.findings import Treatment
from fossil.readers.encoding import EncodingPlan
from fossil.readers.npz import write_npz
from fossil.readers.read import read_graph
from fossil.readers.source import open_graph
from fossil.readers.structural_features import STRUCTURAL_NAMES

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,p\n"
EDGES = "source,target\na,b\nb,c\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "people"
    path.mkdir()
    (path / "nodes.csv").write_text(NODES)
    (path / "edges.csv").write_text(EDGES)
    return path


def test_the_same_graph_through_every_door(folder: Path, tmp_path: Path) -> None:
    expected = read_graph(folder).graph
    assert expected.name == "people" and expected.num_edges == 2
    nodes, edges = pd.read_csv(folder / "nodes.csv"), pd.read_csv(folder / "edges.csv")
    network = nx.DiGraph(list(edges.itertuples(index=False, name=None)))
    nx.set_node_attributes(network, nodes.set_index("id").to_dict("index"))
    nx.write_graphml(network, tmp_path / "people.graphml")
    write_npz(tmp_path / "people.npz", expected)
    sources = (
        str(folder),
        folder / "nodes.csv",
        (nodes, edges),
        network,
        tmp_path / "people.graphml",
        tmp_path / "people.npz",
        expected,
    )
    for source in sources:
        graph = read_graph(source).graph
        assert graph.fingerprint == expected.fingerprint
        assert graph.label_names == ("p", "q") and graph.labels is not None and graph.labels.tolist() == [0, 1, 0]
    matrices = (expected.adjacency, expected.features)
    data = Data(x=torch.tensor(expected.features), edge_index=torch.tensor([[0, 1], [1, 2]]))
    for source in (matrices, data):
        assert read_graph(source).graph.features.tolist() == np.asarray(expected.features).tolist()
        assert (read_graph(source).graph.adjacency != expected.adjacency).nnz == 0


def test_edge_file_beside_or_named(folder: Path) -> None:
    (folder / "edges.csv").rename(folder / "links.csv")
    with pytest.raises(GraphError, match=r"no edges.*edges\.csv"):
        read_graph(folder)
    assert read_graph(folder / "nodes.csv", edges=folder / "links.csv").graph.num_edges == 2
    assert read_graph(folder, allow_no_edges=True).graph.num_edges == 0


@pytest.mark.parametrize("source", ["no/such/place", "cora"])
def test_text_that_is_no_path(source: str) -> None:
    with pytest.raises(GraphError, match=f"'{source}' is no existing file"):
        read_graph(source)


def test_sources_of_other_kinds(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="A int is not a graph"):
        read_graph(3)
    with pytest.raises(GraphError, match=r"edge table is a dict, not a path\. Give objects as a pair"):
        read_graph(tmp_path, edges={})  # type: ignore[arg-type]
    (tmp_path / "g.xml").write_text("")
    with pytest.raises(GraphError, match="suffix"):
        read_graph(tmp_path / "g.xml")


def test_a_single_node_is_refused() -> None:
    with pytest.raises(GraphError, match="single node"):
        read_graph((sp.csr_array((1, 1)), np.ones((1, 1))), allow_no_edges=True)


def test_only_self_loops_count_as_no_edges() -> None:
    with pytest.raises(GraphError, match="no edges between different nodes"):
        read_graph((sp.eye_array(3, format="csr"), np.ones((3, 1))))


def test_column_choices_need_columns(folder: Path, tmp_path: Path) -> None:
    graph = read_graph(folder).graph
    write_npz(tmp_path / "g.npz", graph)
    for source in (graph, tmp_path / "g.npz"):
        with pytest.raises(GraphError, match="no columns to choose from"):
            read_graph(source, roles={"age": "drop"})
        with pytest.raises(GraphError, match="edge table"):
            read_graph(source, edges=folder / "edges.csv")


@pytest.mark.parametrize("asked", [{"missing": "median"}, {"missing_indicator": True}])
def test_filling_of_empty_cells_needs_a_table(folder: Path, tmp_path: Path, asked: dict[str, object]) -> None:
    write_npz(tmp_path / "people.npz", read_graph(folder).graph)
    with pytest.raises(GraphError, match=f"npz file .* no empty cells to fill \\({next(iter(asked))}"):
        read_graph(tmp_path / "people.npz", treatment=asked)
    with pytest.raises(GraphError, match=f"'{next(iter(asked))}' does not apply to the catalogue graph 'digits'"):
        open_graph("digits", treatment=asked)
    assert read_graph(folder, treatment=asked).graph.num_nodes == 3


def test_roles_and_label_reach_the_plan(folder: Path) -> None:
    loaded = read_graph(folder, roles={"age": "drop", "label": "categorical"}, label="kind")
    assert loaded.graph.feature_names == ("label=p", "label=q")
    assert loaded.graph.label_names == ("x", "y")


def test_treatment_reaches_assembly_and_graphs_can_be_treated_again(folder: Path) -> None:
    graph = read_graph(folder).graph
    again = read_graph(graph, treatment=Treatment(direction="symmetrize"), name="other").graph
    assert again.num_edges == 4 and again.name == "other"
    assert [f.done for f in again.findings if f.kind == "edges without their reverse"] == ["reverse added"]
    assert read_graph(graph).graph is graph


def test_saved_plan_encodes_new_data_alike(folder: Path, tmp_path: Path) -> None:
    plan = read_graph(folder).plan
    assert plan is not None
    plan = EncodingPlan.from_json(json.loads(json.dumps(plan.to_json())))
    (tmp_path / "nodes.csv").write_text("id,age,kind\nu,2,y\nv,3,new\n")
    (tmp_path / "edges.csv").write_text("source,target\nu,v\n")
    loaded = read_graph(tmp_path, plan=plan)
    deviation = np.std([1, 2, 3])
    np.testing.assert_allclose(loaded.graph.features, [[0, 0, 1], [1 / deviation, 0, 0]], rtol=1e-6)
    assert loaded.plan == plan and loaded.graph.labels is None
    with pytest.raises(GraphError, match="no structural features"):
        read_graph(tmp_path, plan=plan, structural_features=True)


def test_no_features_offers_structural_ones(folder: Path) -> None:
    (folder / "nodes.csv").write_text("id\na\nb\nc\n")
    with pytest.raises(GraphError, match="no features") as caught:
        read_graph(folder)
    assert "--structural-features" in caught.value.remedy
    loaded = read_graph(folder, structural_features=True)
    assert loaded.graph.feature_names == STRUCTURAL_NAMES and loaded.plan is not None
    assert len(loaded.plan.describe()) == 6
