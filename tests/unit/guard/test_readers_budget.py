"""What each format may take, before it takes it: small limits stand for large files."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fossil.guard.budget
from fossil.datasets.planetoid import _read_edges, read_restricted
from fossil.datasets.synthetic import csbm
from fossil.errors import DataError, GraphError, SettingError
from fossil.readers.csv import DelimitedTables
from fossil.readers.graphml import GraphMLFile
from fossil.readers.parquet import ParquetTables


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file may take 100 kB, or ten times its size."""
    monkeypatch.setattr(fossil.guard.budget, "SMALL", 100_000)
    monkeypatch.setattr(fossil.guard.budget, "MOST_TIMES", 30)


def test_gzip_is_inflated_no_further_than_it_may_be(tmp_path: Path, tight: None) -> None:
    path = tmp_path / "nodes.csv.gz"
    path.write_bytes(gzip.compress(b"id,x\n" + b"0,0\n" * 10_000_000))
    with pytest.raises(GraphError, match=r"The text of .*nodes\.csv\.gz takes .* in memory, and a file of"):
        DelimitedTables.read_frame(path)
    path.write_bytes(gzip.compress(b"id,x\n" + b"0,0\n" * 100))
    assert len(DelimitedTables.read_frame(path).lines) == 100


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0] * 1_000_000),  # a run of one number, in a few bytes
        pa.array(["x" * 10] * 1_000_000),
        pa.array([None] * 1_000_000, pa.string()),
        pa.array([b"x" * 1000] * 10_000, pa.binary(1000)),
    ],
)
def test_parquet_is_refused_by_what_its_footer_says(tmp_path: Path, tight: None, column: pa.Array) -> None:
    pq.write_table(pa.table({"id": column}), tmp_path / "nodes.parquet", compression="zstd")
    assert (tmp_path / "nodes.parquet").stat().st_size < 20_000
    with pytest.raises(GraphError, match=r"nodes\.parquet takes .* in memory, and a file of"):
        ParquetTables.read_frame(tmp_path / "nodes.parquet")


def test_a_text_in_very_many_cells_is_kept_once(tmp_path: Path) -> None:
    """One text of a megabyte in 2,000 cells: 2 GB if each cell had its own."""
    cells = pa.DictionaryArray.from_arrays(pa.array([*[0] * 2000, None]), pa.array(["x" * 1_000_000])).cast(
        pa.dictionary(pa.int32(), pa.string())
    )
    table = pa.table({"id": list(range(2001)), "text": cells})
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "nodes.parquet", store_schema=False)
    found = ParquetTables.read_frame(tmp_path / "nodes.parquet").columns["text"]
    assert found[-1] is None and len(found) == 2001
    assert len({id(cell) for cell in found[:-1]}) == 1


def test_cells_of_every_type_come_as_they_did(tmp_path: Path) -> None:
    columns = {
        "whole": pa.array([1, 2, 3]),
        "gaps": pa.array([1, None, 3]),
        "text": pa.array(["a", None, "a"]),
        "large": pa.array(["a", "b", None], pa.large_string()),
        "bytes": pa.array([b"\xff", None, b""]),
        "truth": pa.array([True, None, False]),
        "lists": pa.array([[1], [], None]),
        "categories": pa.array(["u", "v", "u"]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "nodes.parquet", row_group_size=2)
    found = ParquetTables.read_frame(tmp_path / "nodes.parquet").columns
    assert {name: list(cells) for name, cells in found.items()} == {
        name: [[]] * 3 if name == "lists" else cells.to_pylist() for name, cells in columns.items()
    }
    assert isinstance(found["whole"], np.ndarray)


def test_graphml_is_refused_where_its_tree_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g.graphml").write_bytes(b"<graphml/>" + b" " * 1000)
    monkeypatch.setattr(fossil.guard.budget, "free_host_memory", lambda: 10_000)
    with pytest.raises(GraphError, match=r"g\.graphml takes 20\.2 kB in memory, and 10 kB are free"):
        GraphMLFile.read(tmp_path / "g.graphml", None)


@pytest.mark.parametrize("index", [2**29, 2**31, 2**32 - 1])
def test_a_pickle_cannot_have_room_made_for_what_it_does_not_hold(tmp_path: Path, index: int) -> None:
    path = tmp_path / "ind.cora.x"
    path.write_bytes(b"\x80\x02]r" + index.to_bytes(4, "little") + b".")
    with pytest.raises(DataError, match=f"it puts something into place {index:,} of its memory"):
        read_restricted(path)
    path.write_bytes(b"(lp%d\n." % index)
    with pytest.raises(DataError, match="of its memory"):
        read_restricted(path)


@pytest.mark.parametrize("content", [b"\x80\x05\x96" + (2**40).to_bytes(8, "little"), b"\x8e" + b"\xff" * 7 + b"\x0f"])
def test_a_pickle_cannot_announce_more_bytes_than_it_has(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ind.cora.x").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_restricted(tmp_path / "ind.cora.x")


def test_one_list_of_neighbours_for_very_many_nodes_is_counted(tmp_path: Path, tight: None) -> None:
    shared = list(range(1000))
    (tmp_path / "ind.cora.graph").write_bytes(pickle.dumps(dict.fromkeys(range(1000), shared), 2))
    with pytest.raises(DataError, match=r"The edges of .*ind\.cora\.graph takes 32 MB in memory"):
        _read_edges(tmp_path / "ind.cora.graph")


def test_a_graph_on_the_spot_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SettingError, match=r"csbm with nodes=1000000000, features=10000 and degree=10 takes"):
        csbm(10**9, features=10**4)
