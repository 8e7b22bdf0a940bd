from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fossil.errors import GraphError
from fossil.readers.base import Request
from fossil.readers.folder import Folder, read_frame, table_paths

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,\n"
EDGES = "source,target\na,b\nb,c\n"

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(name: str, content: str) -> Path:
        (tmp_path / name).write_text(content)
        return tmp_path / name

    return put


def test_a_folder_is_named_after_itself_and_holds_two_tables_of_any_kind(write: Write, tmp_path: Path) -> None:
    write("nodes.csv", NODES)
    write("edges.tsv", EDGES.replace(",", "\t"))
    raw, plan = Folder.read(tmp_path, Request())
    assert raw.name == tmp_path.name and plan is not None and plan.label_column == "label"
    assert raw.ids.tolist() == ["a", "b", "c"] and raw.feature_names == ("age", "kind=x", "kind=y")
    assert list(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == [(0, 1), (1, 2)]  # type: ignore[union-attr]


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
