from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Treatment
from fossil.readers.base import Request
from fossil.readers.networkx import NetworkXGraph
from fossil.readers.planning import ColumnChoices


def read(source: nx.Graph[Any]) -> RawGraph:
    raw, plan = NetworkXGraph.read(source, Request())
    assert isinstance(raw, RawGraph) and plan is not None
    return raw


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_networkx_edges_follow_its_own_adjacency(kind: type) -> None:
    source = kind()
    source.add_nodes_from([("a", {"w": 1.0}), ("b", {"w": 2.0}), (3, {"w": 4.0})])
    source.add_edges_from([("a", "b"), (3, "b")])
    graph = assemble(read(source))
    assert graph.ids.tolist() == ["a", "b", "3"]
    np.testing.assert_array_equal(graph.adjacency.toarray(), nx.to_numpy_array(source))


def test_networkx_self_loop_counts_once() -> None:
    source = nx.Graph([(0, 0), (0, 1)])
    nx.set_node_attributes(source, {0: 1.0, 1: 2.0}, "w")
    raw = read(source)
    assert len(raw.source) == 3 and raw.ids.dtype == np.int64


def test_networkx_attribute_named_node_is_a_column_like_others() -> None:
    source = nx.path_graph(3)
    nx.set_node_attributes(source, {0: 5, 1: 5, 2: 7}, "node")
    raw = read(source)
    assert raw.ids.tolist() == [0, 1, 2] and raw.feature_names == ("node",)


def test_networkx_weights_are_refused_unless_they_say_nothing() -> None:
    source = nx.Graph()
    source.add_nodes_from([(0, {"x": 1.0}), (1, {"x": 2.0}), (2, {"x": 4.0})])
    source.add_edge(0, 1, weight=2, kind="kin")
    source.add_edge(1, 2, weight=2, kind="work")
    assert [(f.kind, f.examples) for f in read(source).findings] == [("further edge columns", ("weight", "kind"))]
    source[0][1]["weight"] = 3
    with pytest.raises(GraphError, match=r"differ between edges: 'weight' \(for example 2 and 3\)"):
        read(source)
    raw, _ = NetworkXGraph.read(source, Request(treatment=Treatment(edge_weights="ignore")))
    assert ("edge weights", "ignored") in [(f.kind, f.done) for f in raw.findings]


def test_networkx_gaps_and_clashes_are_named() -> None:
    source = nx.path_graph(3)
    nx.set_node_attributes(source, {0: 1.0, 1: 2.0}, "w")
    with pytest.raises(GraphError, match=r"column 'w' .* is empty \(node '2'\)"):
        read(source)
    with pytest.raises(GraphError, match=r"1 node id is given more than once in .*: '1'"):
        read(nx.Graph([(1, "1")]))
    with pytest.raises(GraphError, match="no nodes"):
        read(nx.Graph())


def test_networkx_ids_are_those_of_the_attribute_that_is_declared_to_hold_them() -> None:
    source = nx.DiGraph([("n0", "n1"), ("n1", "n2")])
    nx.set_node_attributes(source, {"n0": "ann", "n1": "bob", "n2": "cho"}, "name")
    nx.set_node_attributes(source, {"n0": 1.0, "n1": 2.0, "n2": 4.0}, "age")
    raw, plan = NetworkXGraph.read(source, Request(ColumnChoices(roles={"name": "id"})))
    assert isinstance(raw, RawGraph) and plan is not None
    assert raw.ids.tolist() == ["ann", "bob", "cho"] and raw.feature_names == ("age",)
    assert (raw.source.tolist(), raw.target.tolist()) == ([0, 1], [1, 2])
    again, _ = NetworkXGraph.read(source, Request(ColumnChoices(plan=plan)))
    assert isinstance(again, RawGraph) and again.ids.tolist() == ["ann", "bob", "cho"]
    source.nodes["n2"]["name"] = "bob"
    with pytest.raises(GraphError, match=r"1 node id is given more than once in .*: 'bob' \(nodes 'n1' and 'n2'\)"):
        NetworkXGraph.read(source, Request(ColumnChoices(roles={"name": "id"})))


def test_networkx_attributes_of_one_name_are_told() -> None:
    source = nx.path_graph(2)
    for node in source:
        source.nodes[node].update({1: node, "1": -node})
    with pytest.raises(GraphError, match="two attributes called '1'"):
        read(source)
