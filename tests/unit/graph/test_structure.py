from typing import get_args

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from fossil.graph.graph import Array
from fossil.graph.structure import Centrality, centrality, symmetric_normalized


def matrix(graph: nx.Graph) -> sp.csr_array:
    return sp.csr_array(nx.to_scipy_sparse_array(graph, nodelist=sorted(graph), dtype=np.float32, format="csr"))


def with_isolated_node(graph: nx.Graph) -> nx.Graph:
    graph.add_node(len(graph))
    return graph


GRAPHS = {
    "karate club": nx.Graph(nx.karate_club_graph().edges),
    "star": nx.star_graph(6),
    "isolated node": with_isolated_node(nx.erdos_renyi_graph(20, 0.3, seed=1)),
    "directed": nx.erdos_renyi_graph(25, 0.2, seed=2, directed=True),
    "directed with sinks": nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 3), (4, 0)]),
}


def named(measure: dict[int, float]) -> Array:
    return np.array([measure[node] for node in sorted(measure)], dtype=np.float64)


def measured(graph: nx.Graph, kind: Centrality) -> Array:
    found = centrality(matrix(graph), kind)
    assert found is not None and found.dtype == np.float32
    return found


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("self_loops", [False, True])
def test_normalisation_is_the_dense_formula(name: str, self_loops: bool) -> None:
    adjacency = matrix(GRAPHS[name])
    dense = adjacency.toarray().astype(np.float64) + (np.eye(adjacency.shape[0]) if self_loops else 0)
    degree = dense.sum(1)
    expected = np.zeros_like(dense)
    for i, j in np.argwhere(dense):
        if degree[i] > 0 and degree[j] > 0:
            expected[i, j] = dense[i, j] / np.sqrt(degree[i] * degree[j])
    found = symmetric_normalized(adjacency, self_loops=self_loops)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


def test_isolated_rows_stay_zero_without_self_loops_and_become_one_with_them() -> None:
    adjacency = sp.csr_array((3, 3), dtype=np.float32)
    np.testing.assert_array_equal(symmetric_normalized(adjacency, self_loops=False).toarray(), np.zeros((3, 3)))
    np.testing.assert_array_equal(symmetric_normalized(adjacency, self_loops=True).toarray(), np.eye(3))


def test_normalisation_leaves_the_adjacency_alone() -> None:
    adjacency = matrix(GRAPHS["star"])
    before = adjacency.toarray()
    symmetric_normalized(adjacency, self_loops=True)
    np.testing.assert_array_equal(adjacency.toarray(), before)


@pytest.mark.parametrize("name", GRAPHS)
def test_degrees_count_the_edges_that_leave(name: str) -> None:
    graph = GRAPHS[name]
    degree = dict(graph.out_degree if graph.is_directed() else graph.degree)
    by_nodes = nx.out_degree_centrality(graph) if graph.is_directed() else nx.degree_centrality(graph)
    np.testing.assert_allclose(measured(graph, "degree"), named(degree))
    np.testing.assert_allclose(measured(graph, "degree_by_nodes"), named(by_nodes), rtol=1e-6)
    shares = named(degree) / sum(degree.values())
    np.testing.assert_allclose(measured(graph, "degree_by_sum"), shares, rtol=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
def test_pagerank_is_that_of_networkx(name: str) -> None:
    expected = named(nx.pagerank(GRAPHS[name], alpha=0.85, tol=1e-12, max_iter=1000))
    np.testing.assert_allclose(measured(GRAPHS[name], "pagerank"), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["karate club", "star", "isolated node", "directed"])
def test_eigenvector_centrality_is_that_of_networkx(name: str) -> None:
    graph = GRAPHS[name]
    expected = named(nx.eigenvector_centrality(graph, tol=1e-12, max_iter=10_000))
    np.testing.assert_allclose(measured(graph, "eigenvector"), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", get_args(Centrality))
@pytest.mark.parametrize("nodes", [1, 4])
def test_every_centrality_is_finite_on_a_graph_without_edges(kind: Centrality, nodes: int) -> None:
    found = centrality(sp.csr_array((nodes, nodes), dtype=np.float32), kind)
    if kind == "none":
        assert found is None
        return
    assert found is not None and found.shape == (nodes,) and found.dtype == np.float32
    assert np.isfinite(found).all() and np.ptp(found) == 0
