from __future__ import annotations

from dataclasses import replace

import hypothesis
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import strategies as some

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph, assemble, encode_labels
from fossil.graph.findings import Finding, Treatment
from fossil.graph.graph import Graph


def odd_graph() -> RawGraph:
    """Five nodes: one self loop, one edge given three times, one edge without reverse, one isolated zero row."""
    return RawGraph(
        name="odd",
        source=np.array([0, 0, 0, 0, 1, 2, 3]),
        target=np.array([0, 1, 1, 1, 0, 3, 2]),
        features=np.array([[1.0], [2.0], [3.0], [4.0], [0.0]]),
        ids=np.array(["a", "b", "c", "d", "e"]),
        labels=np.array([0, 1, 0, 1, -1]),
        label_names=("p", "q"),
        feature_names=("x",),
    )


def found(graph: Graph) -> dict[str, tuple[int, str, tuple[str, ...]]]:
    return {finding.kind: (finding.count, finding.done, finding.examples) for finding in graph.findings}


def test_every_oddity_is_reported_with_its_treatment() -> None:
    graph = assemble(replace(odd_graph(), source=np.array([0, 0, 0, 0, 1, 2]), target=np.array([0, 1, 1, 1, 0, 3])))
    assert found(graph) == {
        "self loops": (1, "removed", ("a",)),
        "duplicate edges": (2, "merged", ("a",)),
        "edges without their reverse": (1, "kept", ("c",)),
        "isolated nodes": (1, "kept", ("e",)),
        "zero feature rows": (1, "kept", ("e",)),
    }
    assert sorted(zip(*graph.adjacency.nonzero(), strict=True)) == [(0, 1), (1, 0), (2, 3)]
    assert set(graph.adjacency.data.tolist()) == {1.0}


def test_self_loops_can_be_kept() -> None:
    assert assemble(odd_graph(), Treatment(self_loops="keep")).adjacency.diagonal().tolist() == [1, 0, 0, 0, 0]


def test_symmetrising_adds_each_missing_reverse_once() -> None:
    raw = replace(odd_graph(), source=np.array([0, 2, 3, 1]), target=np.array([1, 3, 2, 2]))
    graph = assemble(raw, Treatment(direction="symmetrize"))
    plain = np.zeros((5, 5))
    plain[raw.source, raw.target] = 1
    np.testing.assert_array_equal(graph.adjacency.toarray(), np.maximum(plain, plain.T))
    assert found(graph)["edges without their reverse"][:2] == (2, "reverse added") and not graph.is_directed


def test_reversing_turns_every_edge_round() -> None:
    raw = replace(odd_graph(), source=np.array([0, 1, 2]), target=np.array([1, 0, 3]))
    kept, turned = assemble(raw), assemble(raw, Treatment(direction="reverse"))
    np.testing.assert_array_equal(turned.adjacency.toarray(), kept.adjacency.toarray().T)
    assert found(turned)["edges without their reverse"] == (1, "reversed", ("c",))


@pytest.mark.parametrize("choice", [{"isolated": "drop"}, {"zero_features": "drop"}])
def test_dropped_nodes_leave_every_array(choice: dict[str, str]) -> None:
    graph = assemble(odd_graph(), Treatment.build(choice))
    assert graph.ids.tolist() == ["a", "b", "c", "d"] and graph.adjacency.shape == (4, 4)
    assert graph.features.shape == (4, 1) and graph.labels is not None and graph.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"self_loops": "refuse"}, r"1 self loop \(for example a\), to be refused"),
        ({"duplicates": "refuse"}, "2 duplicate edges"),
        ({"isolated": "refuse"}, r"1 isolated node \(for example e\)"),
        ({"zero_features": "refuse"}, "1 zero feature row "),
    ],
)
def test_refusals_name_an_example(choice: dict[str, str], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        assemble(odd_graph(), Treatment.build(choice))


@pytest.mark.parametrize(
    ("kind", "one"),
    [
        ("isolated nodes", "1 isolated node"),
        ("zero feature rows", "1 zero feature row"),
        ("edges without their reverse in the file", "1 edge without its reverse in the file"),
        ("edges that name unknown nodes", "1 edge that names unknown nodes"),
        ("unknown categories in column 'nodes'", "1 unknown category in column 'nodes'"),
        ("empty cells in column 'edges'", "1 empty cell in column 'edges'"),
        ("unnamed index column of the edges", "1 unnamed index column of the edges"),
        ("index of the nodes", "1 index of the nodes"),
        ("edge weights", "1 edge weight"),
    ],
)
def test_one_of_a_kind_is_told_in_the_singular(kind: str, one: str) -> None:
    assert str(Finding(kind, 1, "kept")) == f"{one}: kept"
    assert str(Finding(kind, 2000, "kept")) == f"2,000 {kind}: kept"


def test_impossible_graphs() -> None:
    with pytest.raises(GraphError, match="no nodes"):
        assemble(RawGraph("g", np.empty(0), np.empty(0), np.empty((0, 1)), np.empty(0)))
    with pytest.raises(GraphError, match="names node 9"):
        assemble(replace(odd_graph(), target=np.array([0, 1, 1, 1, 0, 3, 9])))
    with pytest.raises(GraphError, match="names node -3"):
        assemble(replace(odd_graph(), target=np.array([0, 1, -3, 1, 0, 3, 2])))
    with pytest.raises(GraphError, match="would be dropped"):
        assemble(replace(odd_graph(), features=np.zeros((5, 1))), Treatment(zero_features="drop"))


def test_sparse_features_stay_sparse_without_stored_zeros() -> None:
    features = sp.csr_array((np.array([0.0, 1.0]), (np.array([0, 1]), np.array([0, 0]))), shape=(5, 1))
    graph = assemble(replace(odd_graph(), features=features))
    assert sp.issparse(graph.features) and graph.features.nnz == 1 and found(graph)["zero feature rows"][0] == 4


def arrays_of(graph: Graph) -> list[np.ndarray]:
    matrices = [graph.adjacency, *([graph.features] if sp.issparse(graph.features) else [])]
    parts = [part for matrix in matrices for part in (matrix.data, matrix.indices, matrix.indptr)]
    assert graph.labels is not None
    return [graph.ids, graph.labels, *parts, *([] if sp.issparse(graph.features) else [graph.features])]


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_is_frozen_and_the_arrays_it_was_made_of_are_not(sparse: bool) -> None:
    x = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
    given = {
        "adjacency": sp.csr_array(np.array([[0, 1], [1, 0]], np.float32)),
        "features": sp.csr_array(x) if sparse else x,
        "ids": np.array(["a", "b"]),
        "labels": np.array([0, 1]),
    }
    graph = Graph("g", **given)  # type: ignore[arg-type]
    for array in arrays_of(graph):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
    matrices = [value for value in given.values() if sp.issparse(value)]
    own = [value for value in given.values() if isinstance(value, np.ndarray)]
    for array in (*own, *(part for m in matrices for part in (m.data, m.indices, m.indptr))):
        array[0] = array[0]


def parts_of(matrix: sp.csr_array) -> list[np.ndarray]:
    return [matrix.data, matrix.indices, matrix.indptr]


def test_what_is_in_canonical_form_is_shared() -> None:
    adjacency = sp.csr_array(np.array([[0, 1], [1, 0]], np.float32))
    for x in (np.eye(2, dtype=np.float32), sp.csr_array(np.eye(2, dtype=np.float32))):
        graph = Graph("g", adjacency, x, np.array(["a", "b"]), np.array([0, 1]))
        theirs = [*parts_of(adjacency), *(parts_of(x) if sp.issparse(x) else [x])]
        ours = [*parts_of(graph.adjacency), *(parts_of(graph.features) if sp.issparse(x) else [graph.features])]
        for own, given in zip(ours, theirs, strict=True):
            assert np.shares_memory(own, given)


def test_what_is_not_is_brought_into_it_and_the_callers_own_left_alone() -> None:
    # Row 0 in falling order, row 1 with an entry in two parts, row 2 with a stored zero.
    data, indices, indptr = np.array([3.0, 1.0, 0.5, 1.5, 0.0, 4.0]), np.array([2, 0, 1, 1, 0, 2]), [0, 2, 4, 6]
    features = sp.csr_array((data, indices, indptr), shape=(3, 3))
    adjacency = sp.csr_array((np.ones(3), np.array([2, 1, 0]), [0, 2, 3, 3]), shape=(3, 3))
    labels = np.array([0.0, 1.0, -1.0])
    before = [part.copy() for matrix in (features, adjacency) for part in parts_of(matrix)]
    graph = Graph("g", adjacency, features, np.array(["a", "b", "c"]), labels)
    for part, then in zip([*parts_of(features), *parts_of(adjacency)], before, strict=True):
        np.testing.assert_array_equal(part, then)
    np.testing.assert_array_equal(graph.features.toarray(), [[1, 0, 3], [0, 2, 0], [0, 0, 4]])
    assert graph.features.data.tolist() == [1, 3, 2, 4] and graph.features.indices.tolist() == [0, 2, 1, 2]
    assert graph.features.dtype == graph.adjacency.dtype == np.float32
    assert graph.adjacency.indices.tolist() == [1, 2, 0]
    assert graph.labels is not None and graph.labels.dtype == np.int64 and labels.dtype == np.float64
    tidy = Graph("h", sp.csr_array(adjacency.toarray()), sp.csr_array(features.toarray()), graph.ids)
    assert tidy.fingerprint == graph.fingerprint
    strided = Graph("i", adjacency, np.asfortranarray(features.toarray()), graph.ids)
    assert strided.features.flags.c_contiguous and strided.features.dtype == np.float32


def test_assembling_leaves_the_arrays_of_the_reader_alone() -> None:
    raw = odd_graph()
    assemble(raw)
    for array in (raw.source, raw.target, raw.features, raw.ids, raw.labels):
        array[0] = array[0]


def test_fingerprint_depends_on_content_and_not_on_edge_order_or_name() -> None:
    raw = odd_graph()
    print_of = assemble(raw).fingerprint
    order = np.random.default_rng(0).permutation(len(raw.source))
    assert assemble(replace(raw, source=raw.source[order], target=raw.target[order], name="b")).fingerprint == print_of
    assert assemble(replace(raw, features=np.asarray(raw.features) + 1)).fingerprint != print_of
    assert assemble(replace(raw, ids=raw.ids[::-1])).fingerprint != print_of
    assert assemble(replace(raw, source=raw.source[1:6], target=raw.target[1:6])).fingerprint != print_of


def test_rows_answers_in_the_order_asked() -> None:
    graph = assemble(replace(odd_graph(), ids=np.array([10, 20, 30, 40, 50])))
    assert graph.rows([30, "10"]).tolist() == [2, 0] and 40 in graph and "41" not in graph
    with pytest.raises(GraphError, match="'41'"):
        graph.rows([41])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": np.array(["a", "a"])}, "'a' occurs 2 times"),
        ({"ids": np.array(["a"])}, "1 ids for 2 nodes"),
        ({"features": np.ones((3, 1), np.float32)}, r"shape \(3, 1\) for 2 nodes"),
        ({"features": np.array([[1.0], [np.nan]], np.float32), "feature_names": ("age",)}, "age of node 'b' is NaN"),
        ({"features": np.array([[1.0], [1e300]])}, "number 0 of node 'b' is .*too large for float32"),
        ({"labels": np.zeros(3)}, "3 labels for 2 nodes"),
        ({"labels": np.array([0.5, 1])}, "are not class numbers"),
        ({"labels": np.array(["p", "q"])}, "are not class numbers"),
        ({"adjacency": sp.csr_array(np.array([[0, 0], [0.5, 0]]))}, "edge of node 'b' has the weight 0.5"),
        ({"adjacency": sp.csr_array((2, 3))}, "must be square"),
    ],
)
def test_graph_refuses_parts_that_do_not_fit(change: dict[str, object], message: str) -> None:
    parts = {"adjacency": sp.csr_array((2, 2)), "features": np.ones((2, 1), np.float32), "ids": np.array(["a", "b"])}
    with pytest.raises(GraphError, match=message):
        Graph("g", **{**parts, **change})  # type: ignore[arg-type]


def test_labels_are_numbered_in_natural_order() -> None:
    numbers, names = encode_labels(["10", "9", None, " 9 "])
    assert names == ("9", "10") and numbers.tolist() == [1, 0, -1, 0]


@hypothesis.given(some.permutations(["a", "nan", "NaN", "10", "9", "-inf", "inf", "b"]))
def test_classes_called_like_no_number_have_an_order_too(labels: list[str]) -> None:
    assert encode_labels(labels)[1] == ("-inf", "9", "10", "inf", "NaN", "a", "b", "nan")
