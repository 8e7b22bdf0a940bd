from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.graph.describe import describe_graph
from fossil.graph.graph import Graph


def path_and_pair(labels: np.ndarray | None = None, sparse: bool = False) -> Graph:
    """0 - 1 - 2 both ways, 3 - 4 both ways, and 5 alone; two of twelve features are zero."""
    edges = np.zeros((6, 6), np.float32)
    for a, b in ((0, 1), (1, 2), (3, 4)):
        edges[a, b] = edges[b, a] = 1
    features = np.ones((6, 2), np.float32)
    features[0] = 0
    return Graph("g", sp.csr_array(edges), sp.csr_array(features) if sparse else features, np.arange(6), labels)


def test_a_graph_in_words() -> None:
    found = describe_graph(path_and_pair())
    assert found == {
        "edges": "undirected",
        "degree": "median 1, mean 1.0, greatest 2",
        "components": "3, the largest with 3 nodes",
        "features": "dense, 83.3 % not zero",
        "fingerprint": path_and_pair().fingerprint,
    }


def test_sparse_features_and_directions_are_told() -> None:
    found = describe_graph(path_and_pair(sparse=True))
    assert found["features"] == "sparse, 83.3 % not zero"
    one_way = Graph("g", sp.csr_array(np.eye(3, k=1, dtype=np.float32)), np.ones((3, 1), np.float32), np.arange(3))
    found = describe_graph(one_way)
    # A node that is reached one way belongs to the component all the same.
    assert found["edges"] == "directed" and found["components"] == "1, the largest with 3 nodes"


def test_classes_and_homophily_are_told_where_there_are_labels() -> None:
    found = describe_graph(path_and_pair(np.array([0, 0, 1, 1, 1, -1])))
    assert found["classes"] == "2, the smallest with 2 nodes, the largest 3"
    assert found["homophily"] == "0.667 of the edges join equal labels"


@pytest.mark.parametrize("labels", [None, np.ones((6, 2), np.int64)])
def test_without_single_labels_there_is_nothing_to_say_about_them(labels: np.ndarray | None) -> None:
    assert not {"classes", "homophily"} & describe_graph(path_and_pair(labels)).keys()


@pytest.mark.parametrize("labels", [[-1, -1, -1, -1, -1, -1], [0, -1, 1, 2, -1, -1]])
def test_labels_that_no_edge_joins_leave_the_rest_to_be_told(labels: list[int]) -> None:
    # A label column may be empty, or filled for a few nodes that are not neighbours.
    found = describe_graph(path_and_pair(np.array(labels)))
    assert describe_graph(path_and_pair()).items() <= found.items() and "homophily" not in found
