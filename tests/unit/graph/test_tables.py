from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fossil.errors import GraphError
from fossil.graph.encoding import ColumnChoices
from fossil.graph.tables import as_ids, read_frame, read_tables, table_paths

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,\n"
EDGES = "source,target\na,b\nb,c\n"


Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put


def test_csv_pair(write: Write) -> None:
    raw, plan = read_tables(write("nodes.csv", NODES), write("edges.csv", EDGES), name="g")
    assert raw.ids.tolist() == ["a", "b", "c"]
    assert list(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert raw.feature_names == ("age", "kind=x", "kind=y") and plan.label_column == "label"
    assert raw.labels is not None and raw.labels.tolist() == [0, 1, -1] and raw.label_names == ("p", "q")


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ";"), (".tsv", "\t")])
def test_other_delimiters_and_byte_order_mark(write: Write, suffix: str, delimiter: str) -> None:
    content = b"\xef\xbb\xbf" + NODES.replace(",", delimiter).replace("\n", "\r\n").encode()
    frame = read_frame(write(f"nodes{suffix}", content))
    assert list(frame.columns) == ["id", "age", "kind", "label"] and list(frame.columns["age"]) == ["1", "2", "3"]


def test_parquet_gives_the_same_as_csv(write: Write, tmp_path: Path) -> None:
    nodes, edges = write("nodes.csv", NODES), write("edges.csv", EDGES)
    pd.read_csv(nodes).to_parquet(tmp_path / "nodes.parquet")
    pd.read_csv(edges).to_parquet(tmp_path / "edges.parquet")
    one, plan = read_tables(nodes, edges)
    other, other_plan = read_tables(tmp_path / "nodes.parquet", tmp_path / "edges.parquet")
    assert plan == other_plan and one.label_names == other.label_names
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.target, other.target)


def test_parquet_without_pyarrow_names_the_extra(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(GraphError, match=r"fossil-gnn\[tables\]"):
        read_frame(write("nodes.parquet", b"PAR1"))


def test_damaged_parquet(write: Write) -> None:
    with pytest.raises(GraphError, match="not a Parquet file"):
        read_frame(write("nodes.parquet", b"nonsense"))


def test_ids_are_kept_as_written() -> None:
    assert as_ids(["007", "7"]).tolist() == ["007", "7"]
    assert as_ids(["10", "-3"]).dtype == np.int64
    assert as_ids(["1", "+2"]).tolist() == ["1", "+2"]
    assert as_ids([str(2**70)]).tolist() == [str(2**70)]


def test_leading_zeros_distinguish_nodes(write: Write) -> None:
    raw, _ = read_tables(write("n.csv", "id,x\n007,1\n7,2\n"), write("e.csv", "source,target\n7,007\n"))
    assert raw.source.tolist() == [1] and raw.target.tolist() == [0]


@pytest.mark.parametrize("header", ["src,dst", "From,To", "one,two", "target,source"])
def test_edge_column_names(write: Write, header: str) -> None:
    raw, _ = read_tables(write("n.csv", NODES), write("e.csv", f"{header}\na,b\n"))
    expected = (1, 0) if header == "target,source" else (0, 1)
    assert (int(raw.source[0]), int(raw.target[0])) == expected


def test_node_id_column_is_found_or_declared(write: Write) -> None:
    nodes = write("n.csv", "x,Node_ID,code\n1,a,k\n2,b,l\n")
    assert read_tables(nodes, None)[0].ids.tolist() == ["a", "b"]
    assert read_tables(nodes, None, ColumnChoices(roles={"code": "id"}))[0].ids.tolist() == ["k", "l"]
    assert read_tables(write("m.csv", "who,x\na,1\nb,2\n"), None)[0].ids.tolist() == ["a", "b"]


def test_further_edge_columns_are_reported(write: Write) -> None:
    raw, _ = read_tables(write("n.csv", NODES), write("e.csv", "weight,source,target,time\n2,a,b,9\n"))
    found = raw.findings[-1]
    assert (found.kind, found.count, found.done, found.examples) == (
        "further edge columns",
        2,
        "ignored",
        ("weight", "time"),
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("id,x\n", "has no nodes"),
        ("id,x\na,1\nb\n", "line 3 has 1 cells"),
        ("id,x\na,1\nb,2,3\n", "line 3 has 3 cells"),
        ('id,x\n"a\nb",1\n\nc,2\nc,3\n', r"line 6: node id 'c' was already given in line 5"),
        ("id,x\n,1\n", "line 2: the node id ''"),
        ("id,x,x\na,1,2\n", "two columns named 'x'"),
        ("1,2\n3,4\n", "not column names"),
        ('id,x\na,"1\n', "unexpected end of data"),
        (b"id,x\ncaf\xe9,1\n", r"not UTF-8: byte 0xe9 at offset 8"),
    ],
)
def test_malformed_node_tables(write: Write, content: str | bytes, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read_tables(write("nodes.csv", content), None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("source,target\na,b\nb,zed\n", r"line 3: target names node 'zed'.*remove the edge"),
        ("source,target\na, b\n", "known without the spaces"),
        ("source\na\n", "one column"),
        ("a,b\nb,c\n", r"is an edge \(a, b\), not column names"),
        ("", "is empty"),
    ],
)
def test_malformed_edge_tables(write: Write, content: str, message: str) -> None:
    nodes, edges = write("nodes.csv", NODES), write("edges.csv", content)
    with pytest.raises(GraphError, match=message):
        read_tables(nodes, edges)


def test_missing_file_and_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="does not exist"):
        read_frame(tmp_path / "nodes.csv")
    with pytest.raises(GraphError, match="no table"):
        read_frame(tmp_path / "nodes.xlsx")


def test_folder_must_be_unambiguous(write: Write, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"none of nodes\.csv"):
        table_paths(tmp_path, None)
    nodes = write("nodes.csv", NODES)
    assert table_paths(tmp_path, None) == (nodes, None)
    edges = write("edges.tsv", EDGES.replace(",", "\t"))
    assert table_paths(tmp_path, None) == (nodes, edges) == table_paths(nodes, None)
    write("nodes.tsv", NODES)
    with pytest.raises(GraphError, match=r"both nodes\.csv and nodes\.tsv"):
        table_paths(tmp_path, None)
