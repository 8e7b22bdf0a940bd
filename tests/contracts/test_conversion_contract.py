"""A graph that was converted from tables in batches is the graph that is read from them whole."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fossil.graph import csr
from fossil.graph.disk import DiskGraph
from fossil.graph.findings import Finding
from fossil.readers.disk import read_encoding
from fossil.readers.large import parts, sorting
from fossil.readers.read import LoadedGraph, read_graph
from fossil.runs.conversion import convert

NODES = 97


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every table into many batches, and the edges into several ranges of rows."""
    monkeypatch.setattr(parts, "_MOST_ROWS", 8)
    for module in (csr, sorting):
        monkeypatch.setattr(module, "EDGES_AT_ONCE", 16)
    monkeypatch.setattr(sorting, "BYTES_A_PAIR", 1 << 27)


def people(*, gaps: bool = False, ids: str = "text") -> pd.DataFrame:
    random = np.random.default_rng(5)
    days = pd.to_datetime("2001-02-03") + pd.to_timedelta(random.integers(0, 4000, NODES), unit="D")
    frame = pd.DataFrame(
        {
            "id": {
                "text": [f"n{number:03d}" for number in random.permutation(NODES)],
                "numbers": random.permutation(NODES) * 7 - 50,
                "rows": np.arange(NODES),
                "counted": np.arange(NODES) - 30,
            }[ids],
            "age": random.normal(40, 12, NODES).round(3),
            "income": np.exp(random.normal(8, 3, NODES)) * 1e6,
            "rooms": random.integers(1, 6, NODES),
            "same": 4,
            "city": random.choice(["Lomé", "São Paulo", "Oslo", "x,y"], NODES),
            "member": random.choice(["true", "False"], NODES),
            "joined": days.strftime("%Y-%m-%d"),
            "left": days.strftime("%d/%m/%Y"),
            "team": random.choice(["10", "9", "ops", ""], NODES),
            "nothing": "",
        }
    )
    if gaps:
        for name in ("age", "rooms", "city", "joined"):
            frame[name] = frame[name].astype(object)
            frame.loc[random.choice(NODES, 11, replace=False), name] = None
    return frame


def ties(nodes: pd.DataFrame) -> pd.DataFrame:
    random = np.random.default_rng(6)
    ends = random.integers(0, NODES - 4, (400, 2))  # the last four nodes are isolated
    ends = np.concatenate([ends, ends[:60, ::-1], ends[:9], np.repeat(ends[5:8, :1], 2, axis=1)])
    return pd.DataFrame(np.asarray(nodes["id"])[ends], columns=["source", "target"])


def written(folder: Path, form: str, nodes: pd.DataFrame, edges: pd.DataFrame) -> Path:
    folder.mkdir()
    for name, frame in (("nodes", nodes), ("edges", edges)):
        if form == "csv":
            frame.to_csv(folder / f"{name}.csv", index=False)
        elif form == "tsv.gz":
            frame.to_csv(folder / f"{name}.tsv.gz", index=False, sep="\t")
        else:
            frame.to_parquet(folder / f"{name}.parquet", index=False)
    return folder


def compare(folder: Path, out: Path, **choices: Any) -> tuple[LoadedGraph, DiskGraph]:
    """Read the tables whole and in batches; hold one to the other."""
    whole = read_graph(folder, **choices)
    disk = convert(folder, out, **choices)
    graph = whole.graph
    assert (disk.name, disk.num_nodes, disk.num_edges) == (graph.name, graph.num_nodes, graph.num_edges)
    assert disk.ids.tolist() == graph.ids.tolist()
    assert disk.ids.dtype.kind == graph.ids.dtype.kind
    assert (disk.adjacency != graph.adjacency).nnz == 0
    assert disk.is_directed == graph.is_directed
    np.testing.assert_array_equal(disk.in_indptr, graph.adjacency.T.tocsr().indptr)
    np.testing.assert_array_equal(disk.in_indices, graph.adjacency.T.tocsr().sorted_indices().indices)
    assert disk.feature_names == graph.feature_names
    dense = graph.features.toarray() if graph.has_sparse_features else graph.features
    np.testing.assert_allclose(disk.features, dense, rtol=3e-7, atol=3e-7)
    assert (disk.labels is None) == (graph.labels is None)
    if graph.labels is not None:
        assert disk.labels.tolist() == graph.labels.tolist()
    assert disk.label_names == graph.label_names
    _compare_findings(disk.findings, graph.findings)
    _compare_plans(read_encoding(out), whole)
    disk.verify()
    return whole, disk


def _compare_findings(found: tuple[Finding, ...], wanted: tuple[Finding, ...]) -> None:
    """Repeated edges are met in the order of their nodes, not of the table, and have other examples."""
    plain = [replace(finding, examples=()) if "duplicate" in finding.kind else finding for finding in found]
    assert plain == [replace(f, examples=()) if "duplicate" in f.kind else f for f in wanted]


def _compare_plans(found: Any, whole: LoadedGraph) -> None:
    assert found is not None and whole.plan is not None
    numbers = ("mean", "scale", "fill", "start")
    for ours, theirs in zip(found.columns, whole.plan.columns, strict=True):
        for name in numbers:
            mine, other = getattr(ours, name), getattr(theirs, name)
            assert mine == (pytest.approx(other, rel=1e-12, abs=1e-12) if isinstance(other, float) else other)
        plain = dict.fromkeys(numbers, 0.0)
        assert replace(ours, **plain) == replace(theirs, **plain)


@pytest.mark.parametrize("form", ["csv", "tsv.gz", "parquet"])
@pytest.mark.parametrize("ids", ["text", "numbers", "rows", "counted"])
def test_every_form_and_kind_of_id(tmp_path: Path, form: str, ids: str) -> None:
    nodes = people(ids=ids)
    compare(written(tmp_path / "people", form, nodes, ties(nodes)), tmp_path / "out", label="team")


def test_the_bits_are_the_same_where_nothing_is_standardised(tmp_path: Path) -> None:
    nodes = people()[["id", "city", "member", "team"]]
    folder = written(tmp_path / "people", "parquet", nodes, ties(nodes))
    whole, disk = compare(folder, tmp_path / "out", label="team")
    assert disk.fingerprint == whole.graph.fingerprint


@pytest.mark.parametrize("direction", ["keep", "symmetrize", "reverse"])
@pytest.mark.parametrize("self_loops", ["remove", "keep"])
def test_directions_and_loops(tmp_path: Path, direction: str, self_loops: str) -> None:
    nodes = people()
    folder = written(tmp_path / "people", "parquet", nodes, ties(nodes))
    treatment = {"direction": direction, "self_loops": self_loops}
    compare(folder, tmp_path / "out", label="team", treatment=treatment)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("missing", ["mean", "median", "most_frequent", "zero"])
@pytest.mark.parametrize("indicator", [True, False])
def test_empty_cells(tmp_path: Path, form: str, missing: str, indicator: bool) -> None:
    nodes = people(gaps=True)
    folder = written(tmp_path / "people", form, nodes, ties(nodes))
    treatment = {"missing": missing, "missing_indicator": indicator}
    compare(folder, tmp_path / "out", label="team", treatment=treatment)


def test_texts_that_are_stored_as_bytes(tmp_path: Path) -> None:
    nodes = people()
    edges = ties(nodes)
    for frame, names in ((nodes, ("id", "city", "age", "team")), (edges, ("source", "target"))):
        for name in names:
            frame[name] = [str(cell).encode() for cell in frame[name]]
    whole, _ = compare(written(tmp_path / "people", "parquet", nodes, edges), tmp_path / "out", label="team")
    plain = people()
    assert whole.graph.ids.tolist() == plain["id"].tolist() and "city=Lomé" in whole.graph.feature_names
    assert "age" in whole.graph.feature_names and whole.graph.label_names == ("9", "10", "ops")
    edges["source"] = [cell.decode() for cell in edges["source"]]
    compare(written(tmp_path / "mixed", "parquet", nodes, edges), tmp_path / "other", label="team")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_that_mostly_say_that_they_are_empty(tmp_path: Path, form: str) -> None:
    nodes, rare = people(), np.arange(NODES) % 5 == 0
    for name in ("age", "member", "joined", "city"):
        nodes[name] = nodes[name].astype(str).where(rare, "NA")
    nodes["same"] = "NULL"
    folder = written(tmp_path / "people", form, nodes, ties(nodes))
    whole, _ = compare(folder, tmp_path / "out", label="team", treatment={"missing": "mean"})
    assert whole.plan is not None
    roles = {column.name: column.role for column in whole.plan.columns}
    assert (roles["age"], roles["member"], roles["joined"]) == ("numeric", "boolean", "date")
    assert (roles["city"], roles["same"]) == ("categorical", "drop")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_declared_roles(tmp_path: Path, form: str) -> None:
    nodes = people(gaps=True)
    folder = written(tmp_path / "people", form, nodes, ties(nodes))
    roles = {
        "rooms": "categorical:most_frequent",
        "age": "numeric:median",
        "joined": "calendar:mean",
        "left": "drop",
        "city": "label",
        "team": "categorical",
    }
    compare(folder, tmp_path / "out", roles=roles)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_edges_with_more_than_their_ends(tmp_path: Path, form: str) -> None:
    nodes = people()
    edges = ties(nodes).assign(weight=np.arange(472) / 7, kind="friend", one=1)
    edges.loc[[3, 250, 471], "target"] = ["zed", "zoe", "zed"]
    folder = written(tmp_path / "people", form, nodes, edges)
    treatment = {"edge_weights": "ignore", "unknown_edges": "drop"}
    compare(folder, tmp_path / "out", label="team", treatment=treatment)


def test_columns_that_look_like_counts(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    words = pd.DataFrame({f"w{place}": random.poisson(0.1, NODES) for place in range(60)})
    words.insert(0, "id", np.arange(NODES))
    folder = written(tmp_path / "words", "parquet", words, ties(words))
    whole, disk = compare(folder, tmp_path / "out")
    assert whole.graph.has_sparse_features and not disk.has_sparse_features


def test_parts_are_one_table(tmp_path: Path) -> None:
    nodes = people()
    edges = ties(nodes)
    written(tmp_path / "people", "parquet", nodes, edges)
    folder = tmp_path / "people-in-parts"
    for name, frame in (("nodes", nodes), ("edges", edges)):
        (folder / name).mkdir(parents=True)
        for number, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
            frame.iloc[rows].to_parquet(folder / name / f"part-{number}.parquet", index=False)
        (folder / name / "_SUCCESS").touch()
    whole = read_graph(tmp_path / "people", label="team").graph
    disk = convert(folder, tmp_path / "out", label="team")
    assert (disk.adjacency != whole.adjacency).nnz == 0
    assert disk.ids.tolist() == whole.ids.tolist()
    np.testing.assert_allclose(disk.features, whole.features, rtol=3e-7, atol=3e-7)


def test_half_precision_is_the_rounded_features(tmp_path: Path) -> None:
    nodes = people().drop(columns=["income"])
    folder = written(tmp_path / "people", "parquet", nodes, ties(nodes))
    whole = read_graph(folder, label="team").graph
    half = convert(folder, tmp_path / "out", label="team", feature_type="float16")
    np.testing.assert_allclose(half.features, whole.features.astype(np.float16), rtol=1e-3, atol=1e-3)


def test_numbers_that_are_written_in_odd_ways(tmp_path: Path) -> None:
    cells = ["1_000", " 12 ", "+3", "1e3", "4.", ".5", "-0", "007", "1E-2", "0x10"]
    nodes = pd.DataFrame({"id": range(90), "x": (cells * 9)[:90], "y": range(90)})
    nodes.loc[nodes["x"] == "0x10", "x"] = "16"
    folder = written(tmp_path / "odd", "csv", nodes, ties(pd.DataFrame({"id": np.arange(NODES) % 90})))
    compare(folder, tmp_path / "out")


def test_a_table_with_quotes_and_lines_in_its_cells(tmp_path: Path) -> None:
    nodes = people()
    nodes["city"] = np.where(np.arange(NODES) % 3 == 0, 'a "quoted"\nplace', "plain; here")
    folder = written(tmp_path / "people", "csv", nodes, ties(nodes))
    content = (folder / "nodes.csv").read_bytes()
    (folder / "nodes.csv").unlink()
    (folder / "nodes.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + content))
    compare(folder, tmp_path / "out", label="team")
