"""What is held out is out of the graph, and nothing else is."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.heldout import hold_out

NODES, FEATURES = 60, 30


def random_graph(seed: int = 0, *, directed: bool = True, sparse: bool = False, density: float = 0.1) -> Graph:
    random = np.random.default_rng(seed)
    edges = random.random((NODES, NODES)) < density
    edges = edges if directed else edges | edges.T
    features = random.normal(size=(NODES, FEATURES)).astype(np.float32)
    return Graph(
        "some",
        sp.csr_array(edges.astype(np.float32)),
        sp.csr_array(features) if sparse else features,
        np.arange(NODES),
        labels=random.integers(3, size=NODES),
        feature_names=tuple(f"column {i}" for i in range(FEATURES)),
    )


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_held_out_pairs_were_joined_and_are_no_longer(directed: bool, seed: int) -> None:
    graph = random_graph(seed, directed=directed)
    held = hold_out(graph, edges=0.1, seed=seed)
    whole = nx.Graph(graph.adjacency)
    whole.remove_edges_from(nx.selfloop_edges(whole))
    pairs = {frozenset(pair) for pair in held.edges.T.tolist()}
    assert len(pairs) == held.edges.shape[1] == round(0.1 * whole.number_of_edges())
    assert all(whole.has_edge(*pair) for pair in pairs)
    left = {frozenset(pair) for pair in nx.Graph(held.graph.adjacency).edges() if pair[0] != pair[1]}
    assert left == {frozenset(pair) for pair in whole.edges()} - pairs
    # Every direction that was there, and every self-loop, still is.
    lost = (graph.adjacency - held.graph.adjacency).tocoo()
    assert (lost.data == 1).all() and {frozenset(pair) for pair in zip(lost.row, lost.col, strict=True)} == pairs


def test_as_many_pairs_were_never_joined() -> None:
    graph = random_graph(density=0.6)
    held = hold_out(graph, edges=0.1)
    whole, pairs = nx.Graph(graph.adjacency), {frozenset(pair) for pair in held.non_edges.T.tolist()}
    assert len(pairs) == held.non_edges.shape[1] == held.edges.shape[1]
    assert all(len(pair) == 2 and not whole.has_edge(*pair) for pair in pairs)


@pytest.mark.parametrize("sparse", [True, False])
def test_held_out_columns_are_gone_and_known(sparse: bool) -> None:
    graph = random_graph(sparse=sparse)
    held = hold_out(graph, columns=0.2)
    dense, smaller = (each.features.toarray() if sparse else each.features for each in (graph, held.graph))
    assert len(set(held.columns.tolist())) == 6 and held.graph.num_features == FEATURES - 6
    np.testing.assert_array_equal(held.values, dense[:, held.columns])
    np.testing.assert_array_equal(smaller, np.delete(dense, held.columns, axis=1))
    assert set(held.graph.feature_names).isdisjoint(f"column {i}" for i in held.columns)
    np.testing.assert_array_equal(held.graph.labels, graph.labels)


def test_a_seed_settles_everything() -> None:
    graph = random_graph()
    first, again, other = hold_out(graph, seed=1), hold_out(graph, seed=1), hold_out(graph, seed=2)
    for name in ("edges", "non_edges", "columns"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.graph.fingerprint == again.graph.fingerprint != other.graph.fingerprint


def test_what_cannot_be_held_out_is_refused() -> None:
    graph = random_graph()
    with pytest.raises(GraphError, match="cannot be held out"):
        hold_out(graph, edges=1.0)
    with pytest.raises(GraphError, match="cannot be held out"):
        hold_out(Graph("narrow", graph.adjacency, graph.features[:, :1], graph.ids))
    full = sp.csr_array(np.ones((NODES, NODES), np.float32))
    with pytest.raises(GraphError, match="0 pairs of nodes that are not joined"):
        hold_out(Graph("full", full, graph.features, graph.ids))
