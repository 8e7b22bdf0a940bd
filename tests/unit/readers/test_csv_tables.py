from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fossil.errors import GraphError
from fossil.readers.csv import DelimitedTables

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,\n"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".csv", ";"), (".tsv", "\t")])
def test_delimiters_line_ends_and_byte_order_mark(
    tmp_path: Path, suffix: str, delimiter: str, compressed: bool
) -> None:
    path = tmp_path / f"nodes{suffix}{'.gz' if compressed else ''}"
    content = b"\xef\xbb\xbf" + NODES.replace(",", delimiter).replace("\n", "\r\n").encode()
    path.write_bytes(gzip.compress(content) if compressed else content)
    frame = DelimitedTables.read_frame(path)
    assert list(frame.columns) == ["id", "age", "kind", "label"] and list(frame.columns["age"]) == ["1", "2", "3"]
    assert list(frame.lines) == [2, 3, 4] and frame.unit == "line"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"id,x\na,1\nb\nc,1\nd,2,3\n", "2 columns, and 2 rows have another number.*: line 3 has 1 and line 5 has 3"),
        (b"id,x\na,1\nb,2,3\n", "1 row has another number of cells: line 3 has 3"),
        (b"id,x,x\na,1,2\n", "two columns named 'x'"),
        (b"1,2\n3,4\n", "not column names"),
        (b'id,x\na,"1\n', "unexpected end of data"),
        (b"id,x\ncaf\xe9,1\n", r"not UTF-8: byte 0xe9 at offset 8"),
    ],
)
def test_malformed_tables(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "nodes.csv").write_bytes(content)
    with pytest.raises(GraphError, match=message):
        DelimitedTables.read_frame(tmp_path / "nodes.csv")


@pytest.mark.parametrize(
    "content",
    [NODES.encode(), gzip.compress(NODES.encode())[:-9], gzip.compress(b"")[:5]],
    ids=["not compressed", "cut short", "cut in its header"],
)
def test_damaged_gzip_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "nodes.csv.gz").write_bytes(content)
    with pytest.raises(GraphError, match="is not a whole gzip file"):
        DelimitedTables.read_frame(tmp_path / "nodes.csv.gz")


@pytest.mark.parametrize("header", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_is_told_from_columns(tmp_path: Path, header: str) -> None:
    (tmp_path / "nodes.csv").write_text(f"{header},name,age\n0,a,1\n1,b,2\n")
    frame = DelimitedTables.read_frame(tmp_path / "nodes.csv")
    assert list(frame.columns) == ["name", "age"] and frame.index is not None
    assert list(frame.index.cells) == ["0", "1"] and frame.index.in_file
