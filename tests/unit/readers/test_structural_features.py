from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from fossil.graph import csr
from fossil.graph.findings import Treatment
from fossil.readers import structural_features
from fossil.readers.read import read_graph
from fossil.readers.structural_features import Ways, structural_columns

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,p\n"
EDGES = "source,target\na,b\nb,c\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "people"
    path.mkdir()
    (path / "nodes.csv").write_text(NODES)
    (path / "edges.csv").write_text(EDGES)
    return path


@pytest.mark.parametrize("at_once", [7, 1 << 21])
def test_structural_features_agree_with_networkx(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(csr, "EDGES_AT_ONCE", at_once)
    monkeypatch.setattr(structural_features, "_WEDGES_AT_ONCE", at_once)
    network = nx.gnp_random_graph(50, 0.08, seed=3, directed=True)
    network.add_node(50)
    undirected = network.to_undirected()
    ranks = nx.pagerank(network, tol=1e-13, max_iter=1000)
    expected = np.array(
        [
            [
                np.log1p(network.out_degree(node)),
                np.log1p(network.in_degree(node)),
                nx.clustering(undirected, node),
                nx.core_number(undirected)[node],
                ranks[node] * len(network),
            ]
            for node in network
        ]
    )
    adjacency = sp.csr_array(nx.to_scipy_sparse_array(network))
    np.testing.assert_allclose(np.column_stack([*structural_columns(Ways.of(adjacency))]), expected, atol=1e-8)
    graph = read_graph(network, structural_features=True).graph
    np.testing.assert_allclose(graph.features, StandardScaler().fit_transform(expected), atol=1e-5)


def test_structural_features_see_the_treated_edges(folder: Path) -> None:
    graph = read_graph(folder, structural_features=True, treatment=Treatment(direction="symmetrize")).graph
    np.testing.assert_array_equal(graph.features[:, 3], graph.features[:, 4])
    assert graph.feature_names[3:5] == ("log_out_degree", "log_in_degree") and graph.num_features == 8


def test_structural_columns_stand_beside_a_sparse_matrix() -> None:
    ring = sp.csr_array(np.roll(np.eye(4), 1, axis=1))
    loaded = read_graph((ring, sp.eye_array(4, format="csr")), structural_features=True)
    assert loaded.graph.has_sparse_features and loaded.graph.num_features == 9
