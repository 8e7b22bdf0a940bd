from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Finding
from fossil.graph.graph import Graph
from fossil.readers.npz import load_npz, read_npz, write_npz


def small_graph(sparse: bool = False) -> Graph:
    features = np.array([[0.5, 0.0], [0.0, -1.0], [2.0, 0.0]], np.float32)
    return Graph(
        name="kleiner Graph é",
        adjacency=sp.csr_array(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], np.float32)),
        features=sp.csr_array(features) if sparse else features,
        ids=np.array(["007", "b", "ü"]),
        labels=np.array([1, -1, 0]),
        label_names=("no", "yes"),
        feature_names=("x", "y"),
        findings=(Finding("self loops", 1, "kept", ("007",)),),
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_own_format_is_lossless(tmp_path: Path, sparse: bool) -> None:
    graph = small_graph(sparse)
    write_npz(tmp_path / "g.npz", graph)
    again = read_npz(tmp_path / "g.npz")
    assert again.fingerprint == graph.fingerprint
    assert again.has_sparse_features is sparse
    assert (again.name, again.label_names, again.feature_names, again.findings) == (
        graph.name,
        graph.label_names,
        graph.feature_names,
        graph.findings,
    )
    np.testing.assert_array_equal(again.labels, graph.labels)  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.ids, graph.ids)


def test_unknown_version_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", fossil_graph=np.asarray(99))
    with pytest.raises(GraphError, match="format 99"):
        read_npz(tmp_path / "g.npz")


def test_truncated_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    with pytest.raises(GraphError, match="does not exist"):
        read_npz(path)
    write_npz(path, small_graph())
    content = path.read_bytes()
    for length in (0, 10, len(content) // 2):
        path.write_bytes(content[:length])
        with pytest.raises(GraphError):
            read_npz(path)
    np.savez(path, edge_index=np.array([{"a": 1}], dtype=object))
    with pytest.raises(GraphError, match="Python objects"):
        read_npz(path)
    np.savez(path, nothing=np.zeros(3))
    with pytest.raises(GraphError, match="no edges under a known key; it has nothing"):
        read_npz(path)


def test_own_file_with_impossible_structure(tmp_path: Path) -> None:
    write_npz(tmp_path / "g.npz", small_graph())
    arrays = dict(np.load(tmp_path / "g.npz"))
    np.savez(tmp_path / "g.npz", **{**arrays, "adjacency_indices": np.array([0, 1, 7], np.int32)})
    with pytest.raises(
        GraphError, match=r"cannot be read \(ValueError: the indices of a sparse matrix are not all from 0 to 2\)"
    ):
        read_npz(tmp_path / "g.npz")


EDGE_INDEX = np.array([[0, 1, 2], [1, 2, 0]])
X = np.arange(6.0).reshape(3, 2)
ADJACENCY = sp.csr_array((np.ones(3), EDGE_INDEX), shape=(3, 3))
PARTS = {
    "adj_data": ADJACENCY.data,
    "adj_indices": ADJACENCY.indices.astype(np.int16),
    "adj_indptr": ADJACENCY.indptr,
    "adj_shape": np.array([3, 3]),
}


@pytest.mark.parametrize(
    "arrays",
    [
        {"edge_index": EDGE_INDEX, "x": X, "y": np.array([0, 1, 0])},
        {"edges": EDGE_INDEX.T, "node_features": X, "node_labels": np.array(["a", "b", "a"])},
        {**PARTS, "features": X, "labels": np.array([[0], [1], [0]])},
    ],
)
def test_plain_arrays(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "plain.npz", **arrays)
    graph = read_npz(tmp_path / "plain.npz")
    np.testing.assert_array_equal(graph.adjacency.toarray(), ADJACENCY.toarray())
    np.testing.assert_array_equal(graph.features, X)
    assert graph.name == "plain" and graph.labels is not None and graph.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("key", "edges", "told"),
    [
        ("edge_index", EDGE_INDEX.T, r"shape \(3, 2\) and the type int64"),
        ("edge_index", EDGE_INDEX.astype(float), r"shape \(2, 3\) and the type float64"),
        ("edges", EDGE_INDEX, r"shape \(2, 3\) and the type int64"),
    ],
)
def test_edges_in_another_shape_are_told_from_no_edges(tmp_path: Path, key: str, edges: np.ndarray, told: str) -> None:
    np.savez(tmp_path / "plain.npz", **{key: edges, "x": X})
    with pytest.raises(GraphError, match=rf"Array '{key}' of .* has the {told}\. .*two rows, or edges in two columns"):
        load_npz(tmp_path / "plain.npz")


@pytest.mark.parametrize(
    ("ids", "read"),
    [
        (np.array([b"ann", "Lomé".encode(), b"7"]), ["ann", "Lomé", "7"]),
        (np.array([2.0, 0.0, 1.0]), [2, 0, 1]),
        (np.array(["007", "b", "7"]), ["007", "b", "7"]),
    ],
)
def test_ids_read_as_those_of_a_table_do(tmp_path: Path, ids: np.ndarray, read: list[object]) -> None:
    np.savez(tmp_path / "plain.npz", edge_index=EDGE_INDEX, x=X, ids=ids, y=np.array([b"u", b"v", b"u"]))
    graph = read_npz(tmp_path / "plain.npz")
    assert graph.ids.tolist() == read and graph.label_names == ("u", "v")


@pytest.mark.parametrize("ids", [np.arange(4), np.arange(3)[:, None]])
def test_ids_that_are_not_one_a_node_are_refused(tmp_path: Path, ids: np.ndarray) -> None:
    np.savez(tmp_path / "plain.npz", edge_index=EDGE_INDEX, x=X, ids=ids)
    with pytest.raises(GraphError, match=rf"Ids have shape {re.escape(str(ids.shape))} for 3 nodes"):
        read_npz(tmp_path / "plain.npz")


def test_scipy_file_has_no_features(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", ADJACENCY)
    raw = load_npz(tmp_path / "a.npz")
    assert raw.features.shape == (3, 0)


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_scipy_file_keeps_the_direction_of_edges_in_either_form(tmp_path: Path, form: str) -> None:
    one_way = sp.csr_array(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], np.float32))
    sp.save_npz(tmp_path / "a.npz", one_way.asformat(form))
    raw = load_npz(tmp_path / "a.npz")
    assert isinstance(raw, RawGraph)
    assert sorted(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2)]


def test_scipy_file_in_another_form_is_refused(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", ADJACENCY.tocoo())
    with pytest.raises(GraphError, match=r"in the form 'coo'; csr and csc are read\. Save it with .*tocsr"):
        load_npz(tmp_path / "a.npz")


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA is not set")
def test_real_file_has_the_published_counts() -> None:
    graph = read_npz(Path(os.environ["FOSSIL_DATA"]) / "WordNet" / "wordnet30.npz")
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (117_659, 361_638, 2_000, 45)
    counts = {finding.kind: finding.count for finding in graph.findings}
    assert (counts["isolated nodes"], counts["zero feature rows"]) == (1_009, 3_256)


def test_an_archive_that_is_packed_in_an_unknown_way_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=EDGE_INDEX, x=X)
    content = bytearray((tmp_path / "g.npz").read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # where an entry says how it is packed
        place = content.find(signature)
        while place >= 0:
            content[place + offset] = 77
            place = content.find(signature, place + 1)
    (tmp_path / "g.npz").write_bytes(content)
    with pytest.raises(GraphError, match="compression method is not supported"):
        read_npz(tmp_path / "g.npz")
