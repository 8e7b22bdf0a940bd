from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.errors import FossilWarning, SettingError
from fossil.graph.channels import CHANNELS, Channel, channels_of, operator
from fossil.graph.graph import Graph

NODES = 30


def make_graph(adjacency: np.ndarray | sp.csr_array) -> Graph:
    nodes = adjacency.shape[0]
    return Graph("town", sp.csr_array(adjacency), np.ones((nodes, 1), np.float32), np.arange(nodes))


def draw(directed: bool) -> Graph:
    edges = np.random.default_rng(0).random((NODES, NODES)) < 0.1
    np.fill_diagonal(edges, False)
    edges[3] = edges[:, 3] = False  # nobody points to it, and it points to nobody
    edges[4] = False
    return make_graph((edges if directed else edges | edges.T).astype(np.float32))


def names(found: tuple[Channel, ...]) -> list[str]:
    return [channel.name for channel in found]


def test_a_graph_has_the_channels_of_its_kind() -> None:
    assert names(channels_of(draw(False))) == ["identity", "low", "low2", "neighbours", "neighbours2"]
    assert names(channels_of(draw(True))) == ["identity", "low", "low2", "out", "out2", "in", "in2"]
    assert names(channels_of(make_graph(sp.csr_array((5, 5), dtype=np.float32)))) == ["identity"]
    assert CHANNELS["in2"] == Channel("in2", "in", 2) and CHANNELS["identity"].hops == 0


def test_channels_are_taken_in_the_order_asked_for_and_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert names(channels_of(draw(True), ["out2", "low", "out2"])) == ["out2", "low"]


def test_what_the_graph_has_not_is_left_out_with_one_warning() -> None:
    with pytest.warns(FossilWarning, match="town is undirected and has no channel in, out2, which is left out") as told:
        assert names(channels_of(draw(False), ["in", "low", "out2"])) == ["low"]
    assert len(told) == 1
    with pytest.raises(SettingError, match="is undirected and has no channel in") as caught:
        channels_of(draw(False), ["in"])
    assert caught.value.remedy == "It has identity, low, low2, neighbours, neighbours2."


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="Unknown channel 'neighbour'") as caught:
        channels_of(draw(False), ["neighbour"])
    assert caught.value.remedy == "Did you mean 'neighbours'?"
    with pytest.raises(SettingError, match="There is no channel"):
        channels_of(draw(False), [])
    with pytest.raises(SettingError, match="Unknown operator 'low2'"):
        operator(draw(False).adjacency, "low2")


@pytest.mark.parametrize("directed", [False, True])
def test_operators_are_those_of_networkx_and_pytorch_geometric(directed: bool) -> None:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import to_dense_adj

    graph = draw(directed)
    both = nx.from_scipy_sparse_array(graph.adjacency, create_using=nx.DiGraph).to_undirected()
    found = {name: operator(graph.adjacency, name) for name in ("identity", "low", "neighbours", "out", "in")}
    assert all(one.format == "csr" and one.dtype == np.float32 for one in found.values())
    np.testing.assert_array_equal(found["identity"].toarray(), np.eye(NODES))
    # The normalised Laplacian is I - D^-1/2 A D^-1/2, with zeros for a node without edges.
    laplacian = nx.normalized_laplacian_matrix(both, nodelist=range(NODES)).toarray()
    linked = np.diag((np.array([degree for _, degree in both.degree(range(NODES))]) > 0).astype(float))
    np.testing.assert_allclose(found["neighbours"].toarray(), linked - laplacian, atol=1e-6)
    edges = torch.tensor([*both.edges, *((b, a) for a, b in both.edges)]).T
    edges, weights = gcn_norm(edges, num_nodes=NODES)
    expected = to_dense_adj(edges, edge_attr=weights, max_num_nodes=NODES)[0]
    np.testing.assert_allclose(found["low"].toarray(), expected, atol=1e-6)
    values = np.random.default_rng(1).normal(size=NODES)
    for name, links in (("out", graph.adjacency.toarray() > 0), ("in", graph.adjacency.toarray().T > 0)):
        means = [values[row].mean() if row.any() else 0.0 for row in links]
        np.testing.assert_allclose(found[name] @ values, means, atol=1e-6)


def test_a_graph_of_sinks_has_finite_operators() -> None:
    edges = np.zeros((4, 4), np.float32)
    edges[0, 1:] = 1
    graph = make_graph(edges)
    for channel in channels_of(graph):
        assert np.isfinite(operator(graph.adjacency, channel.operator).toarray()).all()
    np.testing.assert_array_equal(operator(graph.adjacency, "out").sum(axis=1), [1, 0, 0, 0])
    np.testing.assert_array_equal(operator(graph.adjacency, "in").sum(axis=1), [0, 1, 1, 1])
