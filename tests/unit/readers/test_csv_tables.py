from __future__ import annotations

from pathlib import Path

import pytest

from fossil.errors import GraphError
from fossil.readers.csv import DelimitedTables

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,\n"


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".csv", ";"), (".tsv", "\t")])
def test_delimiters_line_ends_and_byte_order_mark(tmp_path: Path, suffix: str, delimiter: str) -> None:
    path = tmp_path / f"nodes{suffix}"
    path.write_bytes(b"\xef\xbb\xbf" + NODES.replace(",", delimiter).replace("\n", "\r\n").encode())
    frame = DelimitedTables.read_frame(path)
    assert list(frame.columns) == ["id", "age", "kind", "label"] and list(frame.columns["age"]) == ["1", "2", "3"]
    assert list(frame.lines) == [2, 3, 4] and frame.unit == "line"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"id,x\na,1\nb\n", "line 3 has 1 cells"),
        (b"id,x\na,1\nb,2,3\n", "line 3 has 3 cells"),
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
