from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import from_scipy_sparse_matrix, to_scipy_sparse_matrix

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.readers.base import Request
from fossil.readers.pyg import PyGData

EDGES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])


def read(data: Data | HeteroData) -> RawGraph:
    raw, plan = PyGData.read(data, Request())
    assert isinstance(raw, RawGraph) and plan is None
    return raw


@pytest.mark.parametrize("layout", ["dense", "coo", "csr"])
def test_pyg_features_labels_and_edges(layout: str) -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    stored = {"dense": x, "coo": x.to_sparse(), "csr": x.to_sparse_csr()}[layout]
    data = Data(x=stored, edge_index=EDGES, y=torch.tensor([2, 0, 1]), train_mask=torch.ones(3, dtype=torch.bool))
    graph = assemble(read(data))
    np.testing.assert_array_equal(graph.adjacency.toarray(), to_scipy_sparse_matrix(EDGES, num_nodes=3).toarray())
    features = graph.features.toarray() if sp.issparse(graph.features) else graph.features
    np.testing.assert_array_equal(features, x.numpy())
    assert graph.has_sparse_features is (layout != "dense")
    assert graph.labels is not None and graph.labels.tolist() == [2, 0, 1]


def test_reading_leaves_the_callers_tensors_alone() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, y=torch.tensor([0, 1, 2]))
    assemble(read(data))
    data.x[0, 0] = data.y[0] = data.edge_index[0, 0] = 1
    assert data.x.numpy().flags.writeable and data.y.numpy().flags.writeable


def test_pyg_weights_and_many_types_are_refused() -> None:
    raw = read(Data(x=torch.eye(3), edge_index=EDGES, edge_attr=torch.ones(4, 2)))
    assert [(f.kind, f.count, f.examples) for f in raw.findings] == [("further edge columns", 1, ("edge_attr",))]
    weighted = Data(x=torch.eye(3), edge_index=EDGES, edge_weight=torch.tensor([1.0, 1.0, 0.5, 1.0]))
    with pytest.raises(
        GraphError, match=r"'edge_weight' \(for example 0.5 and 1\).*treatment={'edge_weights': 'ignore'}"
    ):
        read(weighted)
    raw, _ = PyGData.read(weighted, Request(treatment=Treatment(edge_weights="ignore")))
    assert [(f.kind, f.done) for f in raw.findings] == [("edge weights", "ignored")]
    assert read(Data(edge_index=EDGES, num_nodes=3)).features.shape == (3, 0)
    with pytest.raises(GraphError, match="several node types"):
        read(HeteroData())


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_that_pyg_holds_is_the_same_graph(sparse: bool) -> None:
    x = np.array([[1, 0], [0, 2], [0, 0]], np.float32)
    adjacency = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1], [1, 1, 0]], np.float32))
    graph = Graph("g", adjacency, sp.csr_array(x) if sparse else x, np.arange(3), labels=np.array([0, 1, 0]))
    held = torch.tensor(x).to_sparse_csr() if sparse else torch.tensor(x)
    edges, _ = from_scipy_sparse_matrix(adjacency)
    again = assemble(read(Data(x=held, edge_index=edges, y=torch.tensor([0, 1, 0]))))
    assert again.fingerprint == graph.fingerprint
    assert again.labels is not None and again.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("edges", "told"),
    [(EDGES.T, r"shape \(4, 2\) and the type int64"), (EDGES / 2, r"shape \(2, 4\) and the type float32")],
)
def test_edges_that_are_not_two_rows_of_whole_numbers_are_refused(edges: torch.Tensor, told: str) -> None:
    with pytest.raises(GraphError, match=rf"edge_index of this Data has the {told}"):
        read(Data(x=torch.eye(3), edge_index=edges))


def test_edges_in_a_sparse_tensor_are_told_from_no_edges() -> None:
    adjacency = torch.sparse_coo_tensor(EDGES.flip(0), torch.ones(4), (3, 3))
    with pytest.raises(GraphError, match="This Data has adj_t in place of edge_index"):
        read(Data(x=torch.eye(3), adj_t=adjacency))
