import numpy as np
import pytest
import torch
from torch_geometric.utils import homophily

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.graph import Graph
from fossil.graph.homophily import edge_homophily, node_homophily


def random_graph(seed: int, labels: np.ndarray | None = None, nodes: int = 40) -> Graph:
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, nodes, (2, 90))
    labels = generator.integers(0, 3, nodes) if labels is None else labels
    return assemble(RawGraph("random", *ends, np.ones((nodes, 1)), np.arange(nodes), labels))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("method", "ours"), [("edge", edge_homophily), ("node", node_homophily)])
def test_agrees_with_pyg_on_a_directed_graph(seed, method, ours):
    graph = random_graph(seed)
    edges = torch.from_numpy(np.stack(graph.adjacency.nonzero())).long()
    theirs = homophily(edges, torch.from_numpy(np.array(graph.labels)), method=method)
    assert ours(graph) == pytest.approx(theirs, abs=1e-6)


def test_nodes_of_unknown_class_are_left_out():
    # 0 -> 1 agrees, 1 -> 2 does not, 3 is unknown.
    raw = RawGraph(
        "g", np.array([0, 1, 0]), np.array([1, 2, 3]), np.ones((4, 1)), np.arange(4), np.array([0, 0, 1, -1])
    )
    graph = assemble(raw)
    assert edge_homophily(graph) == 0.5
    assert node_homophily(graph) == pytest.approx(1 / 3)


def test_binary_tasks_are_refused():
    with pytest.raises(GraphError, match="2 binary tasks"):
        edge_homophily(random_graph(0, np.zeros((40, 2), np.int64)))


def test_graph_without_labelled_edges_is_refused():
    with pytest.raises(GraphError, match="no edge"):
        node_homophily(random_graph(0, np.full(40, -1)))
