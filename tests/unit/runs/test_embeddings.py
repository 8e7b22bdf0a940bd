from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fossil
from fossil.errors import FossilError, GraphError
from fossil.runs import embeddings, folder
from fossil.runs.embeddings import Embeddings, FitResult, not_finite
from fossil.runs.folder import write_embeddings

TEXT, NUMBERS = np.array(["007", "b", "ü"]), np.array([30, 10, 20])
VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(params=[TEXT, NUMBERS], ids=["text", "numbers"])
def found(request: pytest.FixtureRequest) -> Embeddings:
    return Embeddings(request.param, VECTORS, None)


@pytest.fixture(scope="module")
def result() -> FitResult:
    return fossil.embed("csbm:nodes=30,features=6", method="dgi", epochs=2, settings={"width": 4}, seed=3, device="cpu")


def test_vectors_are_found_by_id(found: Embeddings) -> None:
    assert len(found) == 3
    for row, key in enumerate(found.ids.tolist()):
        np.testing.assert_array_equal(found[key], VECTORS[row])
        np.testing.assert_array_equal(found[str(key)], VECTORS[row])
        np.testing.assert_array_equal(found[found.ids[row]], VECTORS[row])


def test_an_unknown_id_is_a_key_error_that_explains_itself(found: Embeddings) -> None:
    with pytest.raises(KeyError) as caught:
        _ = found["n99"]
    assert isinstance(caught.value, GraphError)
    assert str(caught.value).startswith("Node 'n99' has no vector here. Check the spelling; ids here look like '")
    assert found.get("n99") is None and found.get("n99", 0) == 0


def test_it_is_a_mapping_like_a_dictionary_of_its_rows(found: Embeddings) -> None:
    plain = dict(zip(found.ids.tolist(), VECTORS, strict=True))
    assert isinstance(found, Mapping)
    assert list(found) == list(plain) == list(found.keys())
    assert all(key in found and str(key) in found for key in plain)
    assert "n99" not in found and None not in found and ["b"] not in found
    np.testing.assert_equal(dict(found), plain)
    np.testing.assert_equal(list(found.values()), list(plain.values()))
    np.testing.assert_equal(dict(found.items()), plain)


def test_it_equals_itself_alone_and_can_be_a_key(found: Embeddings) -> None:
    twin = Embeddings(found.ids, found.vectors, None)
    assert found == found and found != twin and len({found, twin}) == 2


@pytest.mark.parametrize("dtype", [None, np.float64])
def test_numpy_takes_it_as_its_vectors(found: Embeddings, dtype: Any) -> None:
    taken = np.asarray(found, dtype=dtype)
    np.testing.assert_array_equal(taken, VECTORS)
    assert taken.dtype == (dtype or np.float32)
    assert np.shares_memory(np.asarray(found), found.vectors) and not np.shares_memory(np.array(found), found.vectors)
    np.testing.assert_array_equal(np.stack([found, found])[1], VECTORS)


def test_a_data_frame_has_a_row_a_node(found: Embeddings) -> None:
    expected = pd.DataFrame(VECTORS, index=pd.Index(found.ids, name="id"), columns=["v0", "v1"])
    pd.testing.assert_frame_equal(found.to_frame(), expected)


def test_a_data_frame_without_pandas_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, found: Embeddings) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FossilError, match=re.escape("pip install 'fossil-gnn[tables]'")):
        found.to_frame()


def test_it_is_shown_in_one_line(found: Embeddings, result: FitResult) -> None:
    assert repr(found) == "Embeddings(nodes=3, width=2)"
    assert repr(result) == "FitResult(nodes=30, width=4, graph='csbm', method='dgi', seed=3, epochs=2)"


def test_what_a_fit_returns_is_such_a_mapping(result: FitResult) -> None:
    assert set(result) == set(result.graph.ids.tolist())
    np.testing.assert_array_equal(np.asarray(result), result.vectors)
    np.testing.assert_array_equal(result.to_frame().to_numpy(), result.vectors)


def test_vectors_that_a_run_makes_are_shown_in_one_line_too(tmp_path: Any) -> None:
    source = "csbm:nodes=30,features=6"
    fossil.embed(source, method="dgi", epochs=1, settings={"width": 4}, device="cpu", out=tmp_path / "run")
    assert repr(fossil.load(tmp_path / "run").embed(source)) == "NewEmbeddings(nodes=30, width=4)"


def many(rows: int = 23) -> Embeddings:
    vectors = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    names = np.array([f"n{row}" for row in range(rows)])
    return Embeddings(names, vectors, vectors[:, 0].copy(), channels={"low": vectors[:, 1].copy()})


def test_what_is_not_finite_is_found_in_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "ROWS_AT_ONCE", 5)
    found = many()
    assert not_finite(found) is None
    found.channels["low"][[9, 22]] = np.nan
    assert not_finite(found) == "the trust in channel low of 2 of 23 nodes, the first 'n9'"
    found.vectors[[6, 7, 19], 2] = np.inf
    assert not_finite(found) == "the vectors of 3 of 23 nodes, the first 'n6'"


def test_a_table_that_is_written_in_blocks_is_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "ROWS_AT_ONCE", 7)
    found = many()
    write_embeddings(tmp_path, found)
    table = pd.read_parquet(tmp_path / "embeddings.parquet")
    assert table.columns.tolist() == ["id", "v0", "v1", "v2", "fusion", "channel_low"]
    assert table["id"].tolist() == found.ids.tolist() and table["fusion"].dtype == np.float32
    np.testing.assert_array_equal(table[["v0", "v1", "v2"]].to_numpy(), found.vectors)
    np.testing.assert_array_equal(table["channel_low"].to_numpy(), found.channels["low"])
