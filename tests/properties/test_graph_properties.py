from __future__ import annotations

import csv
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fossil.graph.assemble import RawGraph, assemble
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.readers.npz import read_npz, write_npz
from fossil.readers.read import read_graph

# Ids may hold anything a text file can, delimiters, quotes and spaces included.
IDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
    min_size=2,
    max_size=8,
    unique=True,
)
MEASURES = st.floats(-1e6, 1e6, width=32)


@st.composite
def raw_graphs(draw: st.DrawFn) -> RawGraph:
    ids = draw(IDS)
    nodes = len(ids)
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    width = draw(st.integers(1, 3))
    cells = draw(st.lists(MEASURES | st.just(0.0), min_size=nodes * width, max_size=nodes * width))
    features = np.asarray(cells, np.float32).reshape(nodes, width)
    return RawGraph(
        name=draw(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)),
        source=np.asarray([a for a, _ in edges], np.int64),
        target=np.asarray([b for _, b in edges], np.int64),
        features=sp.csr_array(features) if draw(st.booleans()) else features,
        ids=np.asarray(ids),
        labels=draw(st.none() | st.just(np.arange(nodes) - 1)),
        feature_names=tuple(f"f{i}" for i in range(width)),
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(raw_graphs())
def test_npz_round_trip(raw: RawGraph) -> None:
    graph = assemble(raw, Treatment(self_loops="keep"))
    with tempfile.TemporaryDirectory() as folder:
        write_npz(Path(folder) / "g.npz", graph)
        again = read_npz(Path(folder) / "g.npz")
    assert again.fingerprint == graph.fingerprint
    assert again.has_sparse_features == graph.has_sparse_features
    assert again.ids.tolist() == graph.ids.tolist() == raw.ids.tolist()
    assert (again.name, again.feature_names, again.findings) == (graph.name, graph.feature_names, graph.findings)
    assert (again.labels is None) == (graph.labels is None)
    if graph.labels is not None and again.labels is not None:
        assert again.labels.tolist() == graph.labels.tolist()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(raw_graphs())
def test_findings_count_what_plain_counting_counts(raw: RawGraph) -> None:
    edges = list(zip(raw.source.tolist(), raw.target.tolist(), strict=True))
    apart = Counter((a, b) for a, b in edges if a != b)
    dense = raw.features.toarray() if sp.issparse(raw.features) else raw.features
    expected = {
        "self loops": sum(a == b for a, b in edges),
        "duplicate edges": sum(count - 1 for count in apart.values()),
        "edges without their reverse": sum((b, a) not in apart for a, b in apart),
        "isolated nodes": len(raw.ids) - len({end for edge in apart for end in edge}),
        "zero feature rows": sum(not any(row) for row in np.asarray(dense).tolist()),
    }
    graph = assemble(raw)
    assert {f.kind: f.count for f in graph.findings} == {kind: count for kind, count in expected.items() if count}
    assert graph.num_edges == len(apart)


def write_rows(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows(rows)


def by_id(graph: Graph) -> tuple[dict[str, list[float]], set[tuple[str, str]]]:
    names = [str(key) for key in graph.ids.tolist()]
    edges = {(names[i], names[j]) for i, j in zip(*graph.adjacency.nonzero(), strict=True)}
    return dict(zip(names, np.asarray(graph.features).tolist(), strict=True)), edges


@settings(max_examples=60, deadline=None, derandomize=True)
@given(IDS, st.data())
def test_row_order_of_tables_does_not_matter(ids: list[str], data: st.DataObject) -> None:
    measures = data.draw(st.lists(st.integers(-1000, 1000), min_size=len(ids), max_size=len(ids)))
    kinds = data.draw(st.lists(st.sampled_from(["x", "y"]), min_size=len(ids), max_size=len(ids)))
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=12))
    nodes = [[key, str(m), k] for key, m, k in zip(ids, measures, kinds, strict=True)]
    results = []
    for rows, edges in (
        (nodes, pairs),
        (data.draw(st.permutations(nodes)), data.draw(st.permutations(pairs))),
    ):
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder) / "nodes.csv", [["id", "m", "k"], *rows])
            write_rows(Path(folder) / "edges.csv", [["source", "target"], *([a, b] for a, b in edges)])
            results.append(read_graph(folder, allow_no_edges=True).graph)
    (features, edges_seen), (shuffled, shuffled_edges) = by_id(results[0]), by_id(results[1])
    assert edges_seen == shuffled_edges == {(a, b) for a, b in pairs if a != b}
    assert features.keys() == shuffled.keys() == set(ids)
    for key in ids:
        np.testing.assert_allclose(features[key], shuffled[key], rtol=1e-5, atol=1e-5)
