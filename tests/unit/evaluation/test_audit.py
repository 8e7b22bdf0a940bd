"""Copies and lookups: graphs made by hand whose answer is known, and the published ones that leak."""

import os
import re

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.datasets.catalog import load
from fossil.evaluation.audit import LEAK, audit, describe_audit
from fossil.graph.blocks import appending
from fossil.graph.folder import seal, write_csr
from fossil.graph.graph import Graph

needs_data = pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")


def graph_of(lists, features=None, labels=None, **splits) -> Graph:
    nodes = len(lists)
    ends = [(node, other) for node, found in enumerate(lists) for other in found]
    source, target = zip(*ends, strict=True) if ends else ((), ())
    adjacency = sp.csr_array((np.ones(len(ends), np.float32), (source, target)), shape=(nodes, nodes))
    features = np.eye(nodes) if features is None else features
    labels = None if labels is None else np.array(labels)
    return Graph("hand", adjacency, features, np.arange(nodes), labels, published_splits=splits)


def test_nodes_with_equal_lists_are_counted_by_direction():
    found = audit(graph_of([[2, 3], [2, 3], [3], [], [2], []]))
    assert (found.same_out, found.same_in) == (2, 0)  # 3 is pointed to by 0, 1, 2 and 2 by 0, 1, 4
    found = audit(graph_of([[2, 3], [2, 3], [0], [0], [], []]))
    assert (found.same_out, found.same_in) == (4, 2)  # empty lists do not count
    undirected = audit(graph_of([[2, 3], [2, 3], [0, 1], [0, 1]]))
    assert (undirected.same_out, undirected.same_in) == (4, None)


@pytest.mark.parametrize("sparse", [False, True])
def test_duplicates_have_equal_features_and_equal_lists_in_both_directions(sparse):
    lists = [[4], [4], [4], [5], [0, 1, 2], [], []]
    features = np.array([[1, 0], [1, -0.0], [1, 2], [1, 0], [3, 0], [0, 0], [0, 0]], np.float32)
    given = sp.csr_array(features) if sparse else features
    # 0 and 1; not 2 (features), 3 (neighbours), nor 5 and 6, as something points to 5.
    assert audit(graph_of(lists, given)).duplicates == 2
    lists[3] = [0]
    assert audit(graph_of(lists, given)).duplicates == 2  # 5 and 6, and no longer 0 and 1, to which others point


def test_half_precision_features_of_a_graph_on_disk_are_compared(tmp_path):
    write_csr(tmp_path, "out", np.array([0, 1, 2, 3, 3]), [np.array([3, 3, 3])])
    write_csr(tmp_path, "in", np.array([0, 0, 0, 0, 3]), [np.array([0, 1, 2])])
    ids_file, features_file = tmp_path / "ids.npy", tmp_path / "features.npy"
    with appending(ids_file, np.int64) as ids, appending(features_file, np.float16, (2,)) as rows:
        ids.append(np.arange(4))
        rows.append(np.array([[1, 0], [1, 0], [1, 1e-7], [0, 0]]))
    graph = seal(tmp_path, name="half")
    assert graph.features.dtype == np.float16
    assert audit(graph).duplicates == 2  # 0 and 1; 1e-7 is not 0 in half precision


def test_copies_equal_a_plain_count_on_random_graphs():
    random = np.random.default_rng(0)
    for _ in range(20):
        lists = [sorted(random.choice(12, random.integers(3), replace=False).tolist()) for _ in range(12)]
        found = audit(graph_of(lists, np.ones((12, 1))))
        into = [[node for node in range(12) if other in lists[node]] for other in range(12)]
        both = list(zip(lists, into, strict=True))
        assert found.same_out == sum(one != [] and lists.count(one) > 1 for one in lists)
        assert found.same_in in (None, sum(one != [] and into.count(one) > 1 for one in into))
        assert found.duplicates == sum(both.count(one) > 1 for one in both)


# Three training nodes share a list, two of class 1; the tie of 3 and 4 goes to the first class.
LISTS = [[10, 11], [10, 11], [10, 11], [11], [11], [10], [10, 11], [11], [10], [10, 11], [], []]
LABELS = [1, 1, 2, 3, 2, 2, 1, 3, 0, 2, 0, 0]
PARTS = np.array([[0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 1, 2]])


def test_a_lookup_takes_the_majority_of_equal_lists_and_else_that_of_all():
    [out, into] = audit(graph_of(LISTS, labels=LABELS, geom_gcn=PARTS)).lookups
    # Test nodes 6, 7 and 9 are found: 6 is right, 7 gets class 2 by the tie, 9 gets class 1. 8 and 11 get class 1.
    assert (out.lists, out.protocol, out.splits) == ("out", "geom_gcn", 1)
    assert (out.found, out.right, out.overall, out.majority) == (3 / 5, 1 / 3, 1 / 5, 1 / 5)
    assert out.long == 2 / 5 and out.gain == 0 and not out.is_leak  # class 1 is right for 6 anyway
    assert into.found == 0 and into.right == 0


def town(copied: int, length: int) -> Graph:
    """Return 200 nodes in two halves of equal lists, of which the first `copied` of 100 pairs share their class."""
    random = np.random.default_rng(0)
    labels = np.concatenate([random.integers(4, size=100)] * 2)
    labels[100 + copied :] = random.integers(4, size=100 - copied)
    lists = [[200 + (node % 100) * length + i for i in range(length)] for node in range(200)]
    lists += [[] for _ in range(100 * length)]
    parts = np.full(len(lists), -1)
    parts[:100], parts[100:], parts[200:] = 0, 2, 1
    labels = np.concatenate([labels, np.zeros(100 * length, np.int64)])
    return graph_of(lists, np.ones((len(lists), 1)), labels, geom_gcn=parts[None])


def test_a_leak_needs_lists_of_two_and_a_gain_over_the_most_frequent_class():
    leaking, innocent, leaves = town(100, 2), town(0, 2), town(100, 1)
    [found, _] = audit(leaking).lookups
    assert (found.found, found.right, found.overall) == (1, 1, 1) and found.is_leak
    assert found.gain == pytest.approx(1 - found.majority) and found.gain > LEAK
    [chance, _] = audit(innocent).lookups
    assert chance.found == 1 and not chance.is_leak
    [single, _] = audit(leaves).lookups
    assert single.right == 1 and single.gain == 0 and not single.is_leak
    said = describe_audit(leaking)
    assert "out-neighbours" in said["warning"] and "Leave copies out" in said["warning"]
    assert "100.0 % of test nodes" in said["lookup out"] and "no test node" in said["lookup in"]
    assert "warning" not in describe_audit(innocent)


def test_undirected_graphs_have_one_kind_of_list():
    said = describe_audit(graph_of([[2, 3], [2, 3], [0, 1], [0, 1]]))
    assert said.keys() == {"copies", "same lists"}  # without labels, no lookup
    assert said["same lists"] == "4 nodes have exactly the neighbours of another"


@pytest.mark.parametrize("labels", [[0, 1, -1, -1], np.eye(4, dtype=np.int64)])
def test_labels_that_cannot_be_split_are_left_alone(labels):
    assert audit(graph_of([[1], [2], [3], [0]], labels=labels)).lookups == ()


def test_graphs_without_published_splits_are_looked_up_on_those_of_the_paper():
    [found] = audit(load("csbm", nodes=200, features=2)).lookups
    assert (found.protocol, found.splits, found.is_leak) == ("paper", 10, False)


# Shares as reported for the splits of geom-gcn, and the duplicates that the filtered versions leave out.
@needs_data
@pytest.mark.parametrize(
    ("name", "found", "right", "same"),
    [
        ("chameleon", 0.67, 0.987, 1795),
        ("squirrel", 0.62, 0.987, 4021),
        ("chameleon_filtered_directed", 0.077, None, None),
        ("squirrel_filtered_directed", 0.021, None, None),
    ],
)
def test_the_published_graphs_that_leak(name, found, right, same):
    graph = load(name, download=False)
    lookup, said = audit(graph).lookups[0], describe_audit(graph)
    assert (lookup.protocol, lookup.splits) == ("geom_gcn", 10)
    assert lookup.found == pytest.approx(found, abs=0.005)
    if right is None:
        assert not lookup.is_leak and "warning" not in said
        return
    assert lookup.right == pytest.approx(right, abs=0.005) and audit(graph).same_out == same
    assert re.search(rf"out-neighbours\. Report {name}_filtered or {name}_filtered_directed", said["warning"])


@needs_data
@pytest.mark.parametrize("name", ["cora", "citeseer", "actor", "texas", "cornell", "coauthor_cs", "amazon_photo"])
def test_other_published_graphs_do_not(name):
    assert not any(lookup.is_leak for lookup in audit(load(name, download=False)).lookups)
