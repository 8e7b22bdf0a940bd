"""A folder that somebody wrote by hand is sealed only if its numbers are those of one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph import csr
from fossil.graph.blocks import appending
from fossil.graph.disk import DiskGraph
from fossil.graph.folder import seal
from fossil.graph.graph import Graph

NODES = 40


def graph(*, directed: bool) -> Graph:
    draw = np.random.default_rng(4)
    edges = draw.random((NODES, NODES)) < 0.1
    matrix = edges if directed else edges | edges.T
    features = draw.normal(size=(NODES, 3)).astype(np.float32)
    labels = draw.integers(-1, 3, NODES)
    return Graph("g", sp.csr_array(matrix.astype(np.float32)), features, np.arange(NODES) * 3 % NODES, labels)


def arrays_of(whole: Graph) -> dict[str, np.ndarray[Any, Any]]:
    back = sp.csr_array(whole.adjacency.T)
    back.sort_indices()
    found = {"ids": whole.ids, "features": whole.features, "labels": whole.labels}
    ways = {"out": whole.adjacency} | ({"in": back} if whole.is_directed else {})
    for way, matrix in ways.items():
        found |= {f"{way}_indptr": matrix.indptr, f"{way}_indices": matrix.indices}
    return {name: np.array(array) for name, array in found.items() if array is not None}


def sealed(folder: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> DiskGraph:
    folder.mkdir(exist_ok=True)
    for name, array in arrays.items():
        with appending(folder / f"{name}.npy", array.dtype, array.shape[1:]) as out:
            out.append(array)
    return seal(folder, name="g")


@pytest.fixture(autouse=True)
def in_small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csr, "EDGES_AT_ONCE", 7)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("directed", [True, False])
def test_what_is_right_is_sealed(tmp_path: Path, directed: bool) -> None:
    whole = graph(directed=directed)
    found = sealed(tmp_path / "g", arrays_of(whole))
    assert found.fingerprint == whole.fingerprint and found.is_directed is directed


def _beyond(arrays: dict[str, Any]) -> None:
    arrays["out_indices"][5] = NODES


def _negative(arrays: dict[str, Any]) -> None:
    arrays["in_indices"][0] = -1


def _out_of_order(arrays: dict[str, Any]) -> None:
    row = int(np.argmax(np.diff(arrays["out_indptr"]) > 1))
    first = arrays["out_indptr"][row]
    arrays["out_indices"][[first, first + 1]] = arrays["out_indices"][[first + 1, first]]


def _twice(arrays: dict[str, Any]) -> None:
    row = int(np.argmax(np.diff(arrays["in_indptr"]) > 1))
    first = arrays["in_indptr"][row]
    arrays["in_indices"][first + 1] = arrays["in_indices"][first]


def _falling(arrays: dict[str, Any]) -> None:
    arrays["out_indptr"][4] = arrays["out_indptr"][8] + 1


def _late(arrays: dict[str, Any]) -> None:
    arrays["in_indptr"][0] = 1


def _no_offsets(arrays: dict[str, Any]) -> None:
    arrays["out_indptr"] = arrays["out_indptr"][:0]


def _one_direction(arrays: dict[str, Any]) -> None:
    del arrays["in_indptr"], arrays["in_indices"]


def _not_turned_round(arrays: dict[str, Any]) -> None:
    arrays["in_indptr"], arrays["in_indices"] = arrays["out_indptr"], arrays["out_indices"]


def _one_edge_elsewhere(arrays: dict[str, Any]) -> None:
    matrix = sp.csr_array((np.ones(len(arrays["in_indices"])), arrays["in_indices"], arrays["in_indptr"])).tolil()
    row, column = (int(each[0]) for each in matrix.nonzero())
    matrix[row, column], matrix[row, next(node for node in range(NODES) if not matrix[row, node])] = 0, 1
    moved = sp.csr_array(matrix)
    moved.eliminate_zeros()
    arrays["in_indptr"], arrays["in_indices"] = moved.indptr, moved.indices


def _no_number(arrays: dict[str, Any]) -> None:
    arrays["features"][37, 1] = np.nan


def _text_of_bytes(arrays: dict[str, Any]) -> None:
    arrays["ids"] = arrays["ids"].astype("S")


def _fractions(arrays: dict[str, Any]) -> None:
    arrays["labels"] = arrays["labels"] + 0.5


def _below(arrays: dict[str, Any]) -> None:
    arrays["labels"][3] = -2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_beyond, r"out_indices\.npy lists node 40; there are 40 nodes"),
        (_negative, r"in_indices\.npy lists node -1; there are 40 nodes"),
        (_out_of_order, r"Row \d+ of .*out_indices\.npy lists node (\d+) after \d+"),
        (_twice, r"Row \d+ of .*in_indices\.npy lists node (\d+) after \1\."),
        (_falling, r"out_indptr\.npy falls after row 4"),
        (_late, r"in_indptr\.npy begins with 1"),
        (_no_offsets, r"do not fit together: .*out_indptr"),
        (_one_direction, r"edges without their reverse, and there is no in_indices\.npy"),
        (_not_turned_round, r"edges without their reverse, and in_indices\.npy lists others"),
        (_one_edge_elsewhere, r"edges without their reverse, and in_indices\.npy lists others"),
        (_no_number, r"Feature number 1 of node '31' is NaN or infinite \(.*row 37\)"),
        (_text_of_bytes, r"ids\.npy holds \|S"),
        (_fractions, r"labels\.npy holds float64"),
        (_below, r"Label -2 is no class number"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_no_graph_is_not_sealed(tmp_path: Path, spoil: Any, said: str) -> None:
    arrays = arrays_of(graph(directed=True))
    spoil(arrays)
    with pytest.raises(GraphError, match=said) as caught:
        sealed(tmp_path / "g", arrays)
    assert caught.value.remedy and not (tmp_path / "g/manifest.json").exists()


def test_an_order_of_ids_that_were_there_before_is_not_taken(tmp_path: Path) -> None:
    whole = graph(directed=True)
    sealed(tmp_path / "g", arrays_of(whole))
    arrays = arrays_of(whole) | {"ids": np.arange(NODES)[::-1].copy()}
    assert sealed(tmp_path / "g", arrays).rows(["0", "39"]).tolist() == [NODES - 1, 0]
