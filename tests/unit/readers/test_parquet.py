from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fossil.errors import GraphError
from fossil.readers.base import Request
from fossil.readers.folder import read_tables
from fossil.readers.parquet import ParquetTables

NODES = "id,age,kind,label\na,1,x,p\nb,2,y,q\nc,3,x,\n"
EDGES = "source,target\na,b\nb,c\n"


def test_parquet_gives_the_same_as_csv(tmp_path: Path) -> None:
    found = []
    for suffix in (".csv", ".parquet"):
        folder = tmp_path / suffix
        folder.mkdir()
        (folder / "nodes.csv").write_text(NODES)
        (folder / "edges.csv").write_text(EDGES)
        if suffix == ".parquet":
            for name in ("nodes", "edges"):
                pd.read_csv(folder / f"{name}.csv").to_parquet(folder / f"{name}.parquet")
                (folder / f"{name}.csv").unlink()
        found.append(read_tables(folder, Request()))
    (one, plan), (other, other_plan) = found
    assert plan == other_plan and one.label_names == other.label_names
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.target, other.target)  # type: ignore[union-attr]


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1")
    with pytest.raises(GraphError, match=r"fossil-gnn\[tables\]"):
        ParquetTables.read_frame(tmp_path / "nodes.parquet")


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "nodes.parquet").write_bytes(b"nonsense")
    with pytest.raises(GraphError, match="not a Parquet file"):
        ParquetTables.read_frame(tmp_path / "nodes.parquet")


def test_a_column_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes.parquet"
    pd.DataFrame({"id": [1, 2], "naïve": [0.5, 1.5]}).to_parquet(path)
    path.write_bytes(path.read_bytes().replace("ï".encode(), b"\xc3\xc3"))
    with pytest.raises(GraphError) as caught:
        ParquetTables.read_frame(path)
    assert str(path) in caught.value.what and caught.value.remedy
