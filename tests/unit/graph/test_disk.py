from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError, RunError
from fossil.graph import lookup
from fossil.graph.blocks import appending, mapped
from fossil.graph.disk import DiskGraph
from fossil.graph.folder import seal, write_csr, write_disk_graph
from fossil.graph.graph import Graph
from fossil.graph.lookup import as_keys, repeated_ids, rows_of
from fossil.storage import read_json, write_json

DIRECTED = sp.csr_array(np.array([[0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], np.float32))


def small_graph(*, directed: bool = True, ids: list[str] | None = None) -> Graph:
    adjacency = DIRECTED if directed else sp.csr_array(DIRECTED.maximum(DIRECTED.T))
    features = np.arange(12, dtype=np.float32).reshape(4, 3)
    names = np.asarray(ids or ["b", "ä", "a", "c"])
    return Graph("small", adjacency, features, names, np.array([1, 0, -1, 1]), ("x", "y"), ("p", "q", "r"))


@pytest.mark.parametrize("directed", [True, False])
def test_a_graph_comes_back_from_disk_as_it_was(tmp_path: Path, directed: bool) -> None:
    graph = small_graph(directed=directed)
    disk = write_disk_graph(tmp_path / "g", graph)
    assert disk.fingerprint == graph.fingerprint == disk.loaded().fingerprint
    assert disk.is_directed == graph.is_directed == directed
    assert (disk.adjacency != graph.adjacency).nnz == 0
    reverse = sp.csr_array((np.ones(disk.num_edges), disk.in_indices, disk.in_indptr), shape=(4, 4))
    assert (reverse != graph.adjacency.T).nnz == 0
    np.testing.assert_array_equal(disk.features, graph.features)
    assert (disk.ids.tolist(), disk.labels.tolist()) == (graph.ids.tolist(), [1, 0, -1, 1])
    assert (disk.label_names, disk.feature_names, disk.num_classes) == (("x", "y"), ("p", "q", "r"), 2)
    disk.verify()


def test_nothing_is_loaded_when_a_folder_is_opened(tmp_path: Path) -> None:
    disk = write_disk_graph(tmp_path / "g", small_graph())
    for array in (disk.features, disk.out_indices, disk.out_indptr, disk.in_indices, disk.ids):
        assert isinstance(array.base, np.memmap)
        assert not array.flags.writeable
    assert "adjacency" not in vars(disk)


@pytest.mark.parametrize("ids", [["bee", "ä", "a", "c"], ["30", "4", "100", "-7"], ["0", "1", "2", "3"]])
def test_rows_are_found_by_id(tmp_path: Path, ids: list[str]) -> None:
    texts = np.asarray(ids)
    numbers = texts.astype(np.int64) if ids[0].isdigit() else texts
    graph = small_graph()
    whole = Graph("g", graph.adjacency, graph.features, numbers)
    disk = write_disk_graph(tmp_path / "g", whole)
    asked = [ids[2], ids[0], ids[0], ids[3]]
    assert disk.rows(asked).tolist() == whole.rows(asked).tolist() == [2, 0, 0, 3]
    for stranger in ("zz", "", "04", "1.0", "99999999999999999999", f"{ids[2]}\0", f"{ids[2]}\0\0"):
        assert (stranger in disk) == (stranger in whole) is False
    with pytest.raises(GraphError, match="'zz' is not in graph"):
        disk.rows(["zz"])


def test_a_search_for_many_ids_agrees_with_a_dictionary() -> None:
    random = np.random.default_rng(3)
    ids = random.permutation(1000)[:700].astype(np.int64) * 3
    order = np.argsort(ids)
    keys = random.integers(-5, 3100, 5000)
    position = {key: row for row, key in enumerate(ids.tolist())}
    assert rows_of(keys, ids, order).tolist() == [position.get(key, -1) for key in keys.tolist()]
    assert rows_of(as_keys(["x", str(ids[5])], ids.dtype), ids, order).tolist() == [-1, 5]


def test_the_first_repeats_are_found_without_keeping_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.zeros(2_000_000, np.int64)
    ids[:1000] = np.arange(1000, 2000)
    ids[[40, 700_000]] = ids[7]
    monkeypatch.setattr(lookup, "rows_at_once", lambda itemsize: 10_000)
    order = np.argsort(ids, kind="stable")
    tracemalloc.start()
    found = repeated_ids(ids, order)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [40, *range(1001, 1020)] and most < 2_000_000


def test_features_may_be_half_precision(tmp_path: Path) -> None:
    disk = write_disk_graph(tmp_path / "g", small_graph(), dtype="float16")
    assert disk.features.dtype == np.float16
    assert disk.loaded().features.dtype == np.float32


def test_another_name_and_other_labels(tmp_path: Path) -> None:
    disk = write_disk_graph(tmp_path / "g", small_graph()).named("other")
    assert (disk.name, disk.num_classes) == ("other", 2)
    blind = disk.with_labels(None)
    assert (blind.name, blind.num_classes, blind.fingerprint) == ("other", 0, disk.fingerprint)


def _without_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def _cut(folder: Path) -> None:
    content = (folder / "features.npy").read_bytes()
    (folder / "features.npy").write_bytes(content[:-5])


def _other_array(folder: Path) -> None:
    shutil.copy(folder / "out_indptr.npy", folder / "labels.npy")


def _missing(folder: Path) -> None:
    (folder / "ids.npy").unlink()


def _newer(folder: Path) -> None:
    write_json(folder / "manifest.json", read_json(folder / "manifest.json") | {"fossil_graph_folder": 2})


def _hollow(folder: Path) -> None:
    write_json(folder / "manifest.json", {"fossil_graph_folder": 1})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without_manifest, "holds no whole graph"),
        (_cut, "features.npy is no whole array"),
        (_other_array, "labels.npy holds"),
        (_missing, "ids.npy is no whole array"),
        (_newer, "of format 2"),
        (_hollow, "parts of it are missing"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    write_disk_graph(tmp_path / "g", small_graph())
    damage(tmp_path / "g")
    with pytest.raises(GraphError, match=said):
        DiskGraph(tmp_path / "g")


def test_a_changed_number_is_found_by_its_digest(tmp_path: Path) -> None:
    disk = write_disk_graph(tmp_path / "g", small_graph())
    with (tmp_path / "g/out_indices.npy").open("r+b") as stream:
        stream.seek(-4, 2)
        stream.write(b"\3\0\0\0")
    with pytest.raises(GraphError, match=r"out_indices\.npy is not the array"):
        disk.verify()


def test_arrays_that_do_not_fit_are_not_sealed(tmp_path: Path) -> None:
    write_csr(tmp_path, "out", np.array([0, 1, 2]), [np.array([1]), np.array([0])])
    for name, array in {"ids": np.arange(3), "features": np.ones((2, 1))}.items():
        with appending(tmp_path / f"{name}.npy", array.dtype, array.shape[1:]) as out:
            out.append(array)
    with pytest.raises(GraphError, match="do not fit together: ids, features"):
        seal(tmp_path, name="odd")


def test_a_block_that_fails_leaves_no_array_behind(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No space left"), appending(tmp_path / "x.npy", np.int32) as out:
        out.append(np.arange(5))
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_an_array_without_rows_is_an_array(tmp_path: Path) -> None:
    with appending(tmp_path / "x.npy", np.int32, (3,)) as out:
        out.append(np.empty((0, 3)))
    assert mapped(tmp_path / "x.npy").shape == (0, 3)
