"""Ids, columns and the ends of edges, whatever kind of table they come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph
from fossil.readers.base import Request
from fossil.readers.encoding import EncodingPlan
from fossil.readers.folder import read_tables
from fossil.readers.frame import as_ids
from fossil.readers.planning import ColumnChoices

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


def read(
    nodes: Path, edges: Path | None = None, choices: ColumnChoices | None = None, name: str | None = None
) -> tuple[RawGraph, EncodingPlan]:
    raw, plan = read_tables(nodes, Request(choices or ColumnChoices(), edges, name))
    assert isinstance(raw, RawGraph) and plan is not None
    return raw, plan


def test_csv_pair(write: Write) -> None:
    raw, plan = read(write("people.csv", NODES), write("ties.csv", EDGES), name="g")
    assert raw.name == "g" and raw.ids.tolist() == ["a", "b", "c"]
    assert list(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert raw.feature_names == ("age", "kind=x", "kind=y") and plan.label_column == "label"
    assert raw.labels is not None and raw.labels.tolist() == [0, 1, -1] and raw.label_names == ("p", "q")


def test_ids_are_kept_as_written() -> None:
    assert as_ids(["007", "7"]).tolist() == ["007", "7"]
    assert as_ids(["10", "-3"]).dtype == np.int64
    assert as_ids(["1", "+2"]).tolist() == ["1", "+2"]
    assert as_ids([str(2**70)]).tolist() == [str(2**70)]


def test_leading_zeros_distinguish_nodes(write: Write) -> None:
    raw, _ = read(write("n.csv", "id,x\n007,1\n7,2\n"), write("e.csv", "source,target\n7,007\n"))
    assert raw.source.tolist() == [1] and raw.target.tolist() == [0]


@pytest.mark.parametrize("header", ["src,dst", "From,To", "one,two", "target,source"])
def test_edge_column_names(write: Write, header: str) -> None:
    raw, _ = read(write("n.csv", NODES), write("e.csv", f"{header}\na,b\n"))
    expected = (1, 0) if header == "target,source" else (0, 1)
    assert (int(raw.source[0]), int(raw.target[0])) == expected


def test_node_id_column_is_found_or_declared(write: Write) -> None:
    nodes = write("n.csv", "x,Node_ID,code\n1,a,k\n2,b,l\n")
    assert read(nodes)[0].ids.tolist() == ["a", "b"]
    assert read(nodes, None, ColumnChoices(roles={"code": "id"}))[0].ids.tolist() == ["k", "l"]
    assert read(write("m.csv", "who,x\na,1\nb,2\n"))[0].ids.tolist() == ["a", "b"]


def test_further_edge_columns_are_reported(write: Write) -> None:
    raw, _ = read(write("n.csv", NODES), write("e.csv", "weight,source,target,time\n2,a,b,9\n"))
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
        ("id,x\n", "has no nodes"),
        ('id,x\n"a\nb",1\n\nc,2\nc,3\n', r"1 node id is given more than once .*'c' \(lines 5 and 6\)"),
        ("id,x\n,1\n", r"1 row has no usable node id .*\(line 2\)"),
    ],
)
def test_unusable_node_ids(write: Write, content: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read(write("nodes.csv", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "source,target\na,b\nb,zed\n",
            r"1 edge .* names 1 node not in .*: 'zed' \(line 3\).*treatment={'unknown_edges': 'drop'}",
        ),
        (
            "source,target\na,x\nx,y\ny,x\n",
            r"3 edges .* 2 nodes .*'x' \(lines 2, 3 and 4\) and 'y' \(lines 3 and 4\)",
        ),
        ("source,target\na, b\n", "without them it is known"),
        ("source,target\n1,2\n", r"Column 'age' holds them: choose it with roles={'age': 'id'}"),
        ("source\na\n", "one column"),
        ("a,b\nb,c\n", r"is an edge \(a, b\), not column names"),
        ("", "is empty"),
    ],
)
def test_malformed_edge_tables(write: Write, content: str, message: str) -> None:
    nodes, edges = write("nodes.csv", NODES), write("edges.csv", content)
    with pytest.raises(GraphError, match=message):
        read(nodes, edges)
