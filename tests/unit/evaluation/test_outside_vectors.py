"""Vectors from elsewhere get the rows of the graph's nodes, whatever order and form they come in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fossil
from fossil.datasets.synthetic import csbm
from fossil.errors import EvaluationError, FossilWarning, GraphError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import score
from fossil.evaluation.vectors import OutsideVectors, read_vectors
from fossil.graph.graph import Graph

NODES = 40
VECTORS = np.random.default_rng(0).normal(size=(NODES, 3))
SHUFFLED = np.random.default_rng(1).permutation(NODES)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return csbm(nodes=NODES, features=4, seed=1)


def frame(graph: Graph) -> pd.DataFrame:
    columns = {"id": graph.ids[SHUFFLED]} | {f"v{i}": VECTORS[SHUFFLED, i] for i in range(3)}
    return pd.DataFrame(columns)


WRITERS: dict[str, Callable[[Path, Graph], object]] = {
    "own.npz": lambda path, graph: np.savez(path, ids=graph.ids[SHUFFLED], vectors=VECTORS[SHUFFLED]),
    "other.npz": lambda path, graph: np.savez(path, node_ids=graph.ids[SHUFFLED].astype(str), z=VECTORS[SHUFFLED]),
    "rows.npz": lambda path, graph: np.savez(path, embeddings=VECTORS),
    "rows.npy": lambda path, graph: np.save(path, VECTORS),
    "table.csv": lambda path, graph: frame(graph).to_csv(path, index=False),
    "table.csv.gz": lambda path, graph: frame(graph).to_csv(path, index=False),
    "table.tsv": lambda path, graph: frame(graph).to_csv(path, index=False, sep="\t"),
    "table.parquet": lambda path, graph: frame(graph).to_parquet(path, index=False),
    "fusion.parquet": lambda path, graph: frame(graph).assign(fusion=0.5).to_parquet(path, index=False),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_form_is_put_into_the_order_of_the_graph(name: str, graph: Graph, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, graph)
    found = read_vectors(tmp_path / name, graph)
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert found.name == str(tmp_path / name)


def test_what_a_run_wrote_is_scored_like_the_run(graph: Graph, tmp_path: Path) -> None:
    small = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 6}
    fossil.embed(graph, out=tmp_path / "run", epochs=1, settings=small, device="cpu")
    outside = [read_vectors(tmp_path / "run" / f"embeddings.{kind}", graph) for kind in ("npz", "parquet")]
    run, *others = fossil.evaluate([tmp_path / "run", *outside], splits=3, device="cpu")
    assert [row.accuracy for row in others] == [run.accuracy] * 2
    assert [row.published for row in others] == [None, None] and len({row.method for row in others}) == 2
    difference = others[0].minus(run)
    assert difference is not None and difference.values == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_class_in_an_exported_table_is_no_number_of_the_vector(form: str, graph: Graph, tmp_path: Path) -> None:
    result = fossil.embed(graph, method="dgi", epochs=1, settings={"width": 4}, device="cpu")
    path = result.export(form, tmp_path / f"vectors.{form}")
    assert "label" in (pd.read_csv if form == "csv" else pd.read_parquet)(path).columns
    np.testing.assert_array_equal(read_vectors(path, graph).vectors.astype(np.float32), result.vectors)


def test_a_column_that_is_the_class_is_refused(graph: Graph, tmp_path: Path) -> None:
    assert graph.labels is not None
    table = frame(graph).assign(team=10 * graph.labels[SHUFFLED] + 1)
    table.to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(EvaluationError, match=r"Column 'team' of .*mine\.csv tells the class of every node"):
        read_vectors(tmp_path / "mine.csv", graph)


def test_arrays_are_scored_as_the_plain_function_scores_them(graph: Graph) -> None:
    [row] = fossil.evaluate(OutsideVectors("mine", VECTORS, graph), splits=2, device="cpu")
    rule = protocol("paper")
    expected = score(VECTORS, np.asarray(graph.labels), rule, graph_name="", seeds=[0, 1000])
    assert row.accuracy.values == tuple(one.accuracy for one in expected)
    assert (row.method, row.encoders, row.splits) == ("mine", 1, 2)
    with pytest.raises(EvaluationError, match=r"mine .* is given twice"):
        fossil.evaluate([OutsideVectors("mine", VECTORS, graph)] * 2, device="cpu")


@pytest.mark.parametrize("stored", ["f2", ">f4", ">f8", "g"])
@pytest.mark.parametrize("rule", ["paper", "paper-unit-rows", "released", "converged"])
def test_scores_do_not_depend_on_the_type_that_vectors_are_stored_in(
    stored: str, rule: str, graph: Graph, tmp_path: Path
) -> None:
    # Half precision holds these numbers, and neither their squares nor the lengths of rows.
    numbers = np.random.default_rng(2).integers(-400, 400, size=(NODES, 6)) + 300 * np.asarray(graph.labels)[:, None]
    np.save(tmp_path / "vectors.npy", numbers.astype(stored))
    found, expected = read_vectors(tmp_path / "vectors.npy", graph), OutsideVectors("plain", numbers * 1.0, graph)
    rows = [fossil.evaluate(one, protocol=rule, splits=3, device="cpu")[0] for one in (found, expected)]
    assert rows[0].accuracy == rows[1].accuracy


def test_vectors_of_further_nodes_are_left_out_with_a_warning(graph: Graph, tmp_path: Path) -> None:
    ids = np.append(graph.ids[SHUFFLED].astype(str), ["stranger", "other"])
    np.savez(tmp_path / "more.npz", ids=ids, vectors=np.vstack([VECTORS[SHUFFLED], np.ones((2, 3))]))
    with pytest.warns(FossilWarning, match=r"2 vectors of nodes that are not in csbm .*'stranger'"):
        found = read_vectors(tmp_path / "more.npz", graph)
    np.testing.assert_array_equal(found.vectors, VECTORS)


def save(**arrays: np.ndarray) -> Callable[[Path], object]:
    return lambda path: np.savez(path, **arrays)


IDS = np.arange(NODES)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("gone.npz", lambda path: None, "does not exist"),
        ("notes.txt", lambda path: path.write_text("x"), r"suffix .* Use one of \.npz, \.npy, \.csv"),
        ("broken.npz", lambda path: path.write_bytes(b"PK\x03\x04"), "cannot be read .ValueError: EOF: reading magic"),
        ("text.npy", lambda path: path.write_text("1 2"), "cannot be read .ValueError: EOF: reading magic"),
        ("pickle.npy", lambda path: np.save(path, np.array([{}]), allow_pickle=True), "never loaded"),
        ("few.npy", lambda path: np.save(path, VECTORS[:-1]), "39 rows and no ids, and csbm has 40 nodes"),
        ("flat.npy", lambda path: np.save(path, VECTORS[:, 0]), r"shape \(40,\)"),
        ("words.npy", lambda path: np.save(path, VECTORS.astype(str)), "type <U"),
        ("two.npz", save(a=VECTORS, b=VECTORS), "which array holds the vectors; it has a, b"),
        ("none.npz", save(ids=IDS), "which array holds the vectors; it has ids"),
        ("uneven.npz", save(ids=IDS[:-1], vectors=VECTORS), "39 ids for 40 rows"),
        ("twice.npz", save(ids=np.append(IDS[:-1], 3), vectors=VECTORS), "two vectors of node '3'"),
        ("missing.npz", save(ids=IDS[:-1], vectors=VECTORS[:-1]), r"no vector of node '39' .* \(1 such nodes\)\."),
        ("alien.npz", save(ids=IDS + 100, vectors=VECTORS), r"\(40 such nodes\); its own ids are like '100'"),
        ("word.csv", lambda path: path.write_text("id,a,b\n0,1,2\n1,red,3\n"), "line 3: column 'a' holds 'red'"),
        ("nan.csv", lambda path: path.write_text("id,a\n0,nan\n"), "holds 'nan', not a finite number"),
        ("only.csv", lambda path: path.write_text("id\n0\n1\n"), r"shape \(2, 0\)"),
    ],
)
def test_unusable_files_are_told_apart(
    name: str, write: Callable[[Path], object], message: str, graph: Graph, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(EvaluationError, match=message):
        read_vectors(tmp_path / name, graph)


def test_a_malformed_table_is_explained_by_its_reader(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("id,a,b\n0,1\n")
    with pytest.raises(GraphError, match="line 2 has 2"):
        read_vectors(tmp_path / "short.csv", graph)
