"""Tables that are odd and yet graphs, or odd and refused, converted as small tables are read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fossil.errors import GraphError
from fossil.readers.read import read_graph
from fossil.runs.conversion import convert

RING = "source,target\n" + "".join(f"n{row},n{(row + step) % 9}\n" for row in range(9) for step in (1, 8))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("columns", [("id",), ("id", "x")], ids=str)
def test_a_node_table_of_ids_alone_has_features_from_the_edges(
    tmp_path: Path, suffix: str, columns: tuple[str, ...]
) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring/edges.csv").write_text(RING + "n0,n5\n")
    frame = pd.DataFrame({"id": [f"n{row}" for row in range(9)], "x": range(9)})[list(columns)]
    frame.to_csv(tmp_path / "ring/nodes.csv", index=False)
    choices: Any = {"structural_features": True, "roles": {"x": "drop"} if "x" in columns else None}
    small = read_graph(tmp_path / "ring", **choices).graph
    if suffix == "parquet":
        (tmp_path / "ring/nodes.csv").unlink()
        frame.to_parquet(tmp_path / "ring/nodes.parquet", index=False)
    graph = convert(tmp_path / "ring", tmp_path / "out", **choices)
    assert graph.feature_names == small.feature_names
    np.testing.assert_allclose(graph.features, small.features, rtol=0, atol=1e-6)


def test_nodes_that_the_edges_alone_do_not_tell_apart_are_told(tmp_path: Path) -> None:
    """In a ring every node has the same degree, so that what is standardised is zero."""
    (tmp_path / "edges.csv").write_text(RING)
    graph = convert(tmp_path / "edges.csv", tmp_path / "out", structural_features=True)
    small = read_graph(tmp_path / "edges.csv", structural_features=True).graph
    found, wanted = ([(one.kind, one.count, one.done) for one in each.findings] for each in (graph, small))
    assert found == wanted and found[-1] == ("zero feature rows", 9, "kept")
    with pytest.raises(GraphError, match=r"9 zero feature rows .*, to be refused"):
        convert(
            tmp_path / "edges.csv",
            tmp_path / "no",
            structural_features=True,
            treatment={"zero_features": "refuse"},
        )


def town(folder: Path, nodes: str | bytes, edges: str | bytes = "source,target\na,b\nb,c\nc,a\n") -> Path:
    folder.mkdir()
    for name, content in (("nodes", nodes), ("edges", edges)):
        (folder / f"{name}.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize(
    "header", ['id,"x\ny"', "\nid,x", '\n\n"id","x\n\ny"'], ids=["broken line", "empty line before", "both"]
)
def test_a_header_may_begin_late_and_break_its_lines(tmp_path: Path, header: str, end: str) -> None:
    source = town(tmp_path / "town", f"{header}\na,1\n\nb,2\nc,4\n".replace("\n", end))
    small, graph = read_graph(source).graph, convert(source, tmp_path / "out")
    assert (graph.ids.tolist(), graph.feature_names) == (small.ids.tolist(), small.feature_names)
    np.testing.assert_allclose(graph.features, small.features, rtol=1e-6)


@pytest.mark.parametrize("quotes", ['"id,x\na,1\n', '"' + "x" * 200_000 + ",\na,1\n"], ids=["short", "long"])
def test_quotation_marks_that_do_not_end_are_told_with_the_line(tmp_path: Path, quotes: str) -> None:
    source = town(tmp_path / "town", quotes)
    with pytest.raises(GraphError, match=r"nodes\.csv, line \d: (unexpected end of data|field larger)") as caught:
        convert(source, tmp_path / "out")
    assert "quotation marks" in caught.value.remedy and not (tmp_path / "out").exists()


def test_a_quotation_mark_far_from_the_next_is_told_with_the_row_before_it(tmp_path: Path) -> None:
    rows = [f"n{row},{row}\n" for row in range(300_000)]
    rows[70_000] = '"' + rows[70_000]
    source = town(tmp_path / "town", "id,x\n" + "".join(rows))
    with pytest.raises(GraphError, match=r"nodes\.csv has a row after row 70,000 that does not end") as caught:
        convert(source, tmp_path / "out", memory="270MB")
    assert "quotation marks" in caught.value.remedy and not (tmp_path / "out").exists()


@pytest.mark.parametrize("rows", [0, 300_000], ids=["at once", "far down"])
def test_a_text_that_is_not_utf_8_is_told_to_be_saved_so(tmp_path: Path, rows: int) -> None:
    nodes = "id,x\n" + "".join(f"n{row},{row}\n" for row in range(rows))
    source = town(tmp_path / "town", nodes.encode() + "é,3\n".encode("latin-1"))
    with pytest.raises(GraphError, match=r"nodes\.csv is not UTF-8") as caught:
        convert(source, tmp_path / "out", memory="1GB")
    assert caught.value.remedy == "Save the file as UTF-8."


@pytest.mark.parametrize("where", ["edges", "nodes", "edges alone"])
def test_one_long_id_makes_no_other_as_wide_in_memory(tmp_path: Path, where: str) -> None:
    """A quotation mark that ends nowhere near makes such an id; 2,000 texts as wide would take 800 MB."""
    long, rows = "z" * 100_000, range(2_000)
    edges = "source,target\n" + "".join(f"n{row},n{(7 * row + 1) % 2000}\n" for row in rows)
    nodes = "id,x\n" + "".join(f"n{row},{row}\n" for row in rows)
    source = town(
        tmp_path / "town", nodes + f"{long},5\n" * (where == "nodes"), edges + f"{long},n1\n" * (where != "nodes")
    )
    choices: Any = {"treatment": {"unknown_edges": "drop"}}
    if where == "edges alone":
        (source / "nodes.csv").unlink()
        choices = {"structural_features": True}
    tracemalloc.start()
    graph = convert(source, tmp_path / "out", memory="1GB", **choices)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert graph.num_nodes == 2_000 + (where != "edges") and most < 300e6
    assert (long in graph) is (where != "edges") and graph.rows(["n7", "n1999"]).tolist() == [
        graph.ids.tolist().index(each) for each in ("n7", "n1999")
    ]


def test_ids_from_edges_are_in_the_order_of_their_letters(tmp_path: Path) -> None:
    names = ["é", "z", "\U0001f600", "\uffee", "a", "aa", "Z"]
    ends = [(one, other) for one in names for other in names if one < other]
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in ends), encoding="utf-8")
    graph = convert(tmp_path / "edges.csv", tmp_path / "out", structural_features=True)
    assert graph.ids.tolist() == sorted(names) and graph.rows(names).tolist() == [sorted(names).index(n) for n in names]
