"""A small part of a graph, with its features and edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.graph.graph import Graph
from fossil.sampling.few import few_of
from fossil.sampling.store import GraphStore


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_a_few_nodes_keep_their_features_and_edges(sparse: bool, directed: bool) -> None:
    random = np.random.default_rng(0)
    edges = np.triu(random.random((200, 200)) < 0.05, 1)
    edges[0, 1:] = True  # a hub
    if not directed:
        edges |= edges.T
    features = np.arange(400, dtype=np.float32).reshape(200, 2) + 1  # each row is its node
    graph = Graph(
        "g", sp.csr_array(edges.astype(np.float32)), sp.csr_array(features) if sparse else features, np.arange(200)
    )
    found = few_of(GraphStore.of(graph).scaled(0.5), nodes=10)
    count = found.num_nodes
    rows = found.features.take(torch.arange(count), torch.device("cpu")).project(torch.eye(2))
    nodes = (2 * rows[:, 0] - 1).long() // 2
    assert 10 <= count <= 10 * (1 + 3 * 4) and {0, 20, 180} <= set(nodes.tolist())
    assert torch.equal(rows, torch.from_numpy(features)[nodes] / 2)
    either = edges | edges.T
    np.fill_diagonal(either, False)
    for direction, whole in (("out", edges), ("in", edges.T), ("both", either)):
        edges = found.adjacency[direction]
        row = torch.repeat_interleave(torch.arange(count), edges.crow.diff())
        assert len(edges.col) and whole[nodes[row], nodes[edges.col]].all()
        assert len(set(zip(row.tolist(), edges.col.tolist(), strict=True))) == len(row)
        assert int(edges.crow.diff().max()) <= 4


def test_a_small_graph_is_there_with_all_its_nodes() -> None:
    graph = Graph("g", sp.csr_array((5, 5), dtype=np.float32), np.ones((5, 1), np.float32), np.arange(5))
    assert few_of(GraphStore.of(graph)).num_nodes == 5
