import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import subgraph

from fossil.graph.graph import Array
from fossil.graph.structure import undirected
from fossil.sampling.pagerank import Neighbourhoods, convolution_matrices, pagerank_neighbourhoods


def random_graph(nodes: int = 30, seed: int = 3) -> sp.csr_array:
    """A connected random graph without two nodes of equal score (the tests check that), and an isolated node."""
    graph = nx.connected_watts_strogatz_graph(nodes, 4, 0.5, seed=seed)
    graph.add_node(nodes)
    return sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=np.float32, format="csr"))


def scores(adjacency: sp.csr_array, restart: float, iterations: int | None) -> Array:
    """PageRank divided by degree, column v for centre v: the definition in dense float64."""
    dense = adjacency.toarray().astype(np.float64)
    degree = np.maximum(dense.sum(0), 1)
    step, start = dense / degree, np.eye(len(dense))
    if iterations is None:
        return np.linalg.solve(start - (1 - restart) * step, restart * start) / degree[:, None]
    x = start
    for _ in range(iterations):
        x = restart * start + (1 - restart) * step @ x
    return x / degree[:, None]


def assert_follows(found: Neighbourhoods, expected: Array, size: int) -> None:
    for centre, column in enumerate(expected.T):
        ranked = [node for node in np.argsort(-column, kind="stable") if node != centre and column[node] > 1e-12]
        values = column[ranked[:size]]
        assert len(values) < 2 or (np.diff(values) < -1e-9 * values[1:]).all()  # ties would leave the order open
        there = found.present[centre]
        assert found.nodes[centre][there].tolist() == [centre, *ranked[: size - 1]]
        assert (found.nodes[centre][~there] == centre).all()


@pytest.mark.parametrize("restart", [0.15, 0.4])
def test_few_iterations_follow_the_definition(restart: float) -> None:
    adjacency = random_graph()
    found = pagerank_neighbourhoods(adjacency, 8, restart=restart, iterations=10)
    assert_follows(found, scores(adjacency, restart, 10), 8)


def test_many_iterations_reach_the_solution_of_the_linear_system() -> None:
    adjacency = random_graph()
    found = pagerank_neighbourhoods(adjacency, 8, iterations=300)
    assert_follows(found, scores(adjacency, 0.15, None), 8)


def test_one_iteration_looks_one_hop_far() -> None:
    adjacency = random_graph()
    found = pagerank_neighbourhoods(adjacency, 30, iterations=1)
    for centre in range(adjacency.shape[0]):
        neighbours = set(adjacency[[centre]].indices.tolist())
        assert set(found.nodes[centre][found.present[centre]].tolist()) == {centre} | neighbours


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunks_do_not_change_the_result(chunk: int) -> None:
    adjacency = random_graph()
    whole = pagerank_neighbourhoods(adjacency, 6)
    pieces = pagerank_neighbourhoods(adjacency, 6, chunk=chunk)
    assert torch.equal(whole.nodes, pieces.nodes) and torch.equal(whole.present, pieces.present)


def test_an_isolated_node_is_alone_and_a_small_graph_is_taken_whole() -> None:
    adjacency = random_graph(6)
    found = pagerank_neighbourhoods(adjacency, 50)
    assert found.nodes.shape == (7, 7)
    assert found.present.sum(1).tolist() == [6] * 6 + [1]
    assert (found.nodes[6] == 6).all()


def test_a_centre_stays_in_its_own_subgraph_though_others_score_higher() -> None:
    star = sp.csr_array(nx.to_scipy_sparse_array(nx.star_graph(9), dtype=np.float32, format="csr"))
    ranking = scores(star, 0.15, 1)[:, 0]
    assert (ranking[1:] > ranking[0]).all()
    assert pagerank_neighbourhoods(star, 4, iterations=1).nodes[0].tolist() == [0, 1, 2, 3]


def test_equal_scores_are_ordered_by_the_tie_break() -> None:
    star = sp.csr_array(nx.to_scipy_sparse_array(nx.star_graph(5), dtype=np.float32, format="csr"))
    names = np.array(["hub", "e", "d", "c", "b", "a"])
    assert pagerank_neighbourhoods(star, 4, tie_break=names).nodes[0].tolist() == [0, 5, 4, 3]


def test_directed_edges_and_loops_become_undirected_edges() -> None:
    edges = np.array([[1, 1, 0], [0, 0, 1], [0, 1, 0]], np.float32)
    expected = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.float32)
    np.testing.assert_array_equal(undirected(sp.csr_array(edges)).toarray(), expected)


def test_convolution_matrices_are_the_gcn_matrices_of_the_induced_subgraphs() -> None:
    adjacency = random_graph()
    found = pagerank_neighbourhoods(adjacency, 7)
    matrices = convolution_matrices(adjacency, found)
    edges = torch.from_numpy(np.stack(adjacency.nonzero())).long()
    for centre in range(adjacency.shape[0]):
        members = found.nodes[centre][found.present[centre]]
        inside, _ = subgraph(members, edges, num_nodes=adjacency.shape[0])
        position = torch.full((adjacency.shape[0],), -1).scatter(0, members, torch.arange(len(members)))
        index, weight = gcn_norm(position[inside], num_nodes=len(members))
        expected = torch.zeros(7, 7).index_put((index[1], index[0]), weight)
        torch.testing.assert_close(matrices[centre], expected)


def test_without_edges_every_subgraph_is_its_centre() -> None:
    empty = sp.csr_array((4, 4), dtype=np.float32)
    found = pagerank_neighbourhoods(empty, 3)
    assert found.present.tolist() == [[True, False, False]] * 4
    matrices = convolution_matrices(empty, found)
    assert matrices[:, 0, 0].tolist() == [1.0] * 4 and matrices.sum() == 4
