from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_scipy_sparse_matrix

from fossil.errors import GraphError
from fossil.graph.assemble import assemble
from fossil.graph.graph import Graph
from fossil.graph.objects import class_labels, from_frames, from_networkx, from_pyg, from_scipy, to_pyg

EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])


@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
def test_pyg_features_labels_and_edges(layout: str) -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    stored = {"dense": x, "coo": x.to_sparse(), "csr": x.to_sparse_csr()}[layout]
    data = Data(x=stored, edge_index=EDGES, y=torch.tensor([2, 0, 1]), train_mask=torch.ones(3, dtype=torch.bool))
    graph = assemble(from_pyg(data, "g"))
    np.testing.assert_array_equal(graph.adjacency.toarray(), to_scipy_sparse_matrix(EDGES, num_nodes=3).toarray())
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    np.testing.assert_array_equal(features, x.numpy())
    assert graph.has_sparse_features is (layout != "dense")
    assert graph.labels is not None and graph.labels.tolist() == [2, 0, 1]


def test_reading_leaves_the_callers_tensors_alone() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, y=torch.tensor([0, 1, 2]))
    assemble(from_pyg(data))
    data.x[0, 0] = data.y[0] = data.edge_index[0, 0] = 1
    assert data.x.numpy().flags.writeable and data.y.numpy().flags.writeable


def test_pyg_edge_attributes_are_reported_and_many_types_refused() -> None:
    raw = from_pyg(Data(x=torch.eye(3), edge_index=EDGES, edge_attr=torch.ones(4, 2)))
    assert [(f.kind, f.count, f.examples) for f in raw.findings] == [("edge attributes", 1, ("edge_attr",))]
    assert from_pyg(Data(edge_index=EDGES, num_nodes=3)).features.shape == (3, 0)
    with pytest.raises(GraphError, match="several node types"):
        from_pyg(HeteroData())


@pytest.mark.parametrize("sparse", [False, True])
def test_pyg_round_trip(sparse: bool) -> None:
    x = np.array([[1, 0], [0, 2], [0, 0]], np.float32)
    adjacency = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]], np.float32))
    graph = Graph("g", adjacency, sp.csr_array(x) if sparse else x, np.arange(3), labels=np.array([0, 1, 0]))
    assert assemble(from_pyg(to_pyg(graph))).fingerprint == graph.fingerprint


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_networkx_edges_follow_its_own_adjacency(kind: type) -> None:
    source = kind()
    source.add_nodes_from([("a", {"w": 1.0}), ("b", {"w": 2.0}), (3, {"w": 4.0})])
    source.add_edges_from([("a", "b"), (3, "b")])
    graph = assemble(from_networkx(source)[0])
    assert graph.ids.tolist() == ["a", "b", "3"]
    np.testing.assert_array_equal(graph.adjacency.toarray(), nx.to_numpy_array(source))


def test_networkx_self_loop_counts_once() -> None:
    source = nx.Graph([(0, 0), (0, 1)])
    nx.set_node_attributes(source, {0: 1.0, 1: 2.0}, "w")
    raw, _ = from_networkx(source)
    assert len(raw.source) == 3 and raw.ids.dtype == np.int64


def test_networkx_attribute_named_node_is_a_column_like_others() -> None:
    source = nx.path_graph(3)
    nx.set_node_attributes(source, {0: 5, 1: 5, 2: 7}, "node")
    raw, _ = from_networkx(source)
    assert raw.ids.tolist() == [0, 1, 2] and raw.feature_names == ("node",)


def test_networkx_gaps_and_clashes_are_named() -> None:
    source = nx.path_graph(3)
    nx.set_node_attributes(source, {0: 1.0, 1: 2.0}, "w")
    with pytest.raises(GraphError, match="'w' of node '2'"):
        from_networkx(source)
    with pytest.raises(GraphError, match="node id '1' was already given"):
        from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(GraphError, match="no nodes"):
        from_networkx(nx.Graph())


def test_scipy_weights_are_reported_and_stored_zeros_are_no_edges() -> None:
    adjacency = sp.coo_array((np.array([1.0, 2.0, 0.0]), ([0, 1, 2], [1, 2, 0])), shape=(3, 3))
    raw = from_scipy(adjacency, np.eye(3))
    assert raw.source.tolist() == [0, 1] and [(f.count, f.done) for f in raw.findings] == [(1, "ignored")]


@pytest.mark.parametrize(
    ("adjacency", "features"),
    [
        (sp.csr_array((2, 3)), np.eye(2)),
        (np.eye(3), np.eye(3)),
        (sp.csr_array((3, 3)), np.eye(2)),
        (sp.csr_array((3, 3)), np.array([["a"]] * 3)),
        (sp.csr_array((3, 3)), np.ones(3)),
    ],
)
def test_matrices_that_do_not_fit(adjacency: object, features: object) -> None:
    with pytest.raises(GraphError):
        from_scipy(adjacency, features)


def test_data_frames_with_gaps_and_index_ids() -> None:
    nodes = pd.DataFrame({"age": [1, 3], "kind": pd.Categorical(["x", None])}, index=["a", "b"])
    edges = pd.DataFrame({"source": ["b"], "target": ["a"], "weight": [0.5]})
    raw, plan = from_frames(nodes, edges)
    assert raw.ids.tolist() == ["a", "b"] and plan.feature_names == ("age", "kind=x")
    np.testing.assert_array_equal(raw.features, [[-1, 1], [1, 0]])
    assert (int(raw.source[0]), int(raw.target[0])) == (1, 0)


def test_data_frame_ids_that_a_gap_turned_into_floats() -> None:
    nodes = pd.DataFrame({"id": [1, 2], "x": [0.0, 1.0], "label": [1.0, None]})
    raw, _ = from_frames(nodes, pd.DataFrame({"source": [1.0], "target": [2.0]}))
    assert raw.source.tolist() == [0] and raw.label_names == ("1",)
    assert raw.labels is not None and raw.labels.tolist() == [0, -1]
    with pytest.raises(GraphError, match="row 2: the node id ''"):
        from_frames(pd.DataFrame({"id": [1, None], "x": [0, 1]}), pd.DataFrame({"source": [], "target": []}))
    with pytest.raises(GraphError, match="two columns 'x'"):
        from_frames(pd.DataFrame([[1, 2, 3]], columns=["id", "x", "x"]), pd.DataFrame())


def test_labels_of_every_kind() -> None:
    assert class_labels(np.array(["b", "a"]))[0].tolist() == [1, 0]
    assert class_labels(np.array([[True, False], [False, True]]))[0].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(GraphError, match="not whole"):
        class_labels(np.array([0.5, 1.0]))
