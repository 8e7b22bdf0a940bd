"""Splits that come with a graph: what is accepted, and where they go when nodes do."""

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import EvaluationError, GraphError
from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.describe import describe_graph
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.graph.published import from_masks, sizes
from fossil.graph.splits import SplitRule
from fossil.readers.npz import read_npz, write_npz
from fossil.readers.read import read_graph

NODES = 8
# Node 7 has no edge. It is in no part of `public`, and in one of `geom_gcn`.
PUBLIC = np.array([[0, 0, 1, 2, 2, 1, -1, -1]])
TEN = np.stack([np.roll([0, 0, 0, 1, 1, 2, 2, 2], shift) for shift in range(3)])
LABELS = np.arange(NODES) % 2


def make(**splits) -> Graph:
    ring = sp.csr_array(np.roll(np.eye(NODES - 1), 1, axis=1))
    ring.resize((NODES, NODES))
    return Graph("ring", ring, np.ones((NODES, 1)), np.arange(NODES), LABELS, published_splits=splits)


def raw(**splits) -> RawGraph:
    source = np.arange(NODES - 1)
    ends = source, (source + 1) % (NODES - 1)
    return RawGraph("ring", *ends, np.ones((NODES, 1)), np.arange(NODES), LABELS, published_splits=splits)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"mine": PUBLIC}, "cannot be named 'mine'"),
        ({"public": PUBLIC[:, 1:]}, "shape"),
        ({"public": PUBLIC[0]}, "shape"),
        ({"public": TEN}, "shape"),
        ({"geom_gcn": TEN[:0]}, "shape"),
        ({"geom_gcn": TEN + 1}, "other numbers"),
    ],
)
def test_splits_that_say_nothing_are_refused(splits, message):
    with pytest.raises(GraphError, match=message):
        make(**splits)


def test_splits_are_no_part_of_the_fingerprint_and_cannot_be_changed():
    graph = make(public=PUBLIC, geom_gcn=TEN)
    assert graph.fingerprint == make().fingerprint
    with pytest.raises(ValueError, match="read-only"):
        graph.published_splits["public"][0, 0] = 2
    assert graph.with_labels(None).published_splits.keys() == {"public", "geom_gcn"}


def test_splits_survive_a_file_and_files_without_them_are_read(tmp_path):
    graph = make(public=PUBLIC, geom_gcn=TEN)
    write_npz(tmp_path / "g.npz", graph)
    again = read_npz(tmp_path / "g.npz")
    assert again.published_splits.keys() == graph.published_splits.keys()
    assert all(
        np.array_equal(again.published_splits[name], graph.published_splits[name]) for name in ("public", "geom_gcn")
    )
    write_npz(tmp_path / "g.npz", make())
    assert read_npz(tmp_path / "g.npz").published_splits == {}


def test_a_file_with_a_damaged_split_is_refused(tmp_path):
    write_npz(tmp_path / "g.npz", make(public=PUBLIC))
    with np.load(tmp_path / "g.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "g.npz", **arrays | {"published_splits_public": PUBLIC[:, :-1]})
    with pytest.raises(GraphError, match="shape"):
        read_npz(tmp_path / "g.npz")


def test_splits_follow_the_nodes_and_those_that_lose_one_are_left_out():
    graph = assemble(raw(public=PUBLIC, geom_gcn=TEN), Treatment(isolated="drop"))
    assert graph.published_splits.keys() == {"public"}
    assert graph.published_splits["public"].tolist() == PUBLIC[:, :7].tolist()
    found = [(f.count, f.done) for f in graph.findings if "geom_gcn" in f.kind]
    assert found == [(1, "these splits left out")]
    kept = assemble(raw(public=PUBLIC, geom_gcn=TEN))
    assert kept.published_splits.keys() == {"public", "geom_gcn"} and not any("split" in f.kind for f in kept.findings)


def test_one_split_that_loses_a_node_is_enough():
    twice = np.where((np.arange(NODES) == 7) & (np.arange(3) < 2)[:, None], -1, TEN)
    assert (twice[:, 7] != -1).sum() == 1
    assert not assemble(raw(geom_gcn=twice), Treatment(isolated="drop")).published_splits


def test_another_treatment_of_a_graph_that_was_read_keeps_its_splits(tmp_path):
    write_npz(tmp_path / "g.npz", make(geom_gcn=TEN))
    again = read_graph(tmp_path / "g.npz", treatment={"direction": "symmetrize"}).graph
    assert not again.is_directed and again.published_splits["geom_gcn"].tolist() == TEN.tolist()


def test_masks_of_one_split_and_of_several():
    train, validation, test = (np.isin(np.arange(4), nodes) for nodes in ([0], [1, 2], []))
    assert from_masks(train, validation, test).tolist() == [[0, 1, 1, -1]]
    assert from_masks(*(np.stack([mask, mask]) for mask in (train, validation, test))).shape == (2, 4)
    with pytest.raises(ValueError, match="two parts"):
        from_masks(train, train, test)
    with pytest.raises(ValueError, match="length"):
        from_masks(train, validation, test[:3])


def test_a_seed_takes_the_published_split_of_its_remainder():
    rule = SplitRule("geom_gcn", None)
    for seed in (1, 4, 301):
        split = rule.draw(LABELS, seed, {"geom_gcn": TEN})
        for part, nodes in enumerate((split.train, split.validation, split.test)):
            assert nodes.tolist() == np.flatnonzero(TEN[1] == part).tolist()
        assert rule.number(seed, {"geom_gcn": TEN}) == 1
    assert rule.seeds(2, 2, {"geom_gcn": TEN}) == [2, 0]
    assert rule.seeds(2, 10, {"geom_gcn": TEN}) == [2, 0, 1]
    assert SplitRule("public", None).seeds(7, 10, {"public": PUBLIC}) == [0]
    assert SplitRule("paper", None).seeds(7, 3) == [7, 1007, 2007]


def test_nodes_without_a_label_are_in_no_part_of_a_published_split():
    labels = np.where(np.isin(np.arange(NODES), [0, 3]), -1, LABELS)
    assert SplitRule("public", None).draw(labels, 0, {"public": PUBLIC}).sizes == (1, 2, 1)


def test_what_is_not_published_cannot_be_drawn():
    with pytest.raises(EvaluationError, match="no published splits 'geom_gcn'; it has public"):
        SplitRule("geom_gcn", None).draw(LABELS, 0, {"public": PUBLIC})
    with pytest.raises(EvaluationError, match="none at all"):
        SplitRule("public", None).draw(LABELS, 0)
    with pytest.raises(EvaluationError, match="per class cannot be chosen"):
        SplitRule("public", 20)


def test_a_description_tells_the_splits():
    assert sizes(TEN) == (3, 2, 3)
    said = describe_graph(make(public=PUBLIC, geom_gcn=TEN))["splits"]
    assert said == (
        "public, 2 training, 2 validation and 2 test nodes; "
        "geom_gcn, 3 of them, the first with 3 training, 2 validation and 3 test nodes"
    )
    assert "splits" not in describe_graph(make())
