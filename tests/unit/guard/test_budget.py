from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fossil.guard.budget
from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.guard.arrays import Arrays
from fossil.guard.budget import MOST_TIMES, SMALL, VARIABLE, check_need
from fossil.readers.npz import read_npz

RING = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(fossil.guard.budget, "free_host_memory", lambda: 2**50)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(2**23))
    return path


def test_a_file_may_take_so_many_times_its_size(file: Path) -> None:
    check_need(file, MOST_TIMES * 2**23)
    with pytest.raises(GraphError, match=r"takes 1\.7 GB in memory, and a file of 8\.4 MB may take 1\.7 GB"):
        check_need(file, MOST_TIMES * 2**23 + 1)


def test_a_small_file_may_take_something_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    check_need(tmp_path / "f", SMALL)
    with pytest.raises(GraphError, match="a file of 1 bytes may take"):
        check_need(tmp_path / "f", SMALL + 1)


@pytest.mark.parametrize(("text", "limit"), [("3000", 3000), ("2kB", 2000), ("1.5 GB", 1_500_000_000), ("1gib", 10**9)])
def test_the_user_can_say_how_much(file: Path, monkeypatch: pytest.MonkeyPatch, text: str, limit: int) -> None:
    monkeypatch.setenv(VARIABLE, text)
    check_need(file, limit)
    with pytest.raises(GraphError, match=VARIABLE):
        check_need(file, limit + 1)


def test_what_is_no_amount_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "plenty")
    with pytest.raises(GraphError, match="'plenty', which is no amount"):
        check_need(file, 1)


def test_never_more_than_is_free(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fossil.guard.budget, "free_host_memory", lambda: 1000)
    with pytest.raises(GraphError, match="takes 1 kB in memory, and 1 kB are free"):
        check_need(file, 1001)
    monkeypatch.setattr(fossil.guard.budget, "free_host_memory", lambda: None)
    check_need(file, 1001)


def npy(header: dict[str, object], content: bytes = b"") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + content


def test_a_member_that_nobody_asks_for_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "g.npz", edge_index=RING, x=np.eye(4), unused=np.zeros(10_000))
    read: list[str] = []
    load = Arrays._load
    monkeypatch.setattr(Arrays, "_load", lambda self, name, member: (read.append(name), load(self, name, member))[1])
    assert read_npz(tmp_path / "g.npz").num_nodes == 4
    assert sorted(read) == ["edge_index", "x"]


@pytest.mark.parametrize("shape", [(10**12,), (10**12, 10**12), (4, 5)])
def test_a_shape_that_the_file_does_not_hold_is_refused_before_memory_is_taken(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    np.savez(tmp_path / "g.npz", edge_index=RING)
    with zipfile.ZipFile(tmp_path / "g.npz", "a") as archive:
        archive.writestr("x.npy", npy({"descr": "<f8", "fortran_order": False, "shape": shape}, bytes(128)))
    with pytest.raises(GraphError, match=r"Array 'x' of .* has the shape .* but holds 128"):
        read_npz(tmp_path / "g.npz")


def test_arrays_of_nothing_do_not_count_as_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=RING, x=np.eye(4))
    with zipfile.ZipFile(tmp_path / "g.npz", "a") as archive:
        archive.writestr("ids.npy", npy({"descr": "<U0", "fortran_order": False, "shape": (10**10,)}))
    with pytest.raises(GraphError, match=r"Array 'ids' of .* takes 80 GB in memory"):
        read_npz(tmp_path / "g.npz")


def test_a_used_member_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "g.npz", edge_index=RING, x=np.zeros((4, 20_000)))
    monkeypatch.setattr(fossil.guard.budget, "SMALL", 10_000)
    monkeypatch.setattr(fossil.guard.budget, "MOST_TIMES", 20)
    with pytest.raises(GraphError, match=r"Array 'x' of .* takes 1\.3 MB in memory, and a file of"):
        read_npz(tmp_path / "g.npz")


def test_members_that_each_fit_are_refused_where_all_of_them_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "g.npz", a=np.zeros(1000, np.float32), b=np.zeros(1000, np.float32))
    monkeypatch.setenv(VARIABLE, "6kB")
    with Arrays(tmp_path / "g.npz") as one:
        assert one["b"].shape == (1000,)
    with Arrays(tmp_path / "g.npz") as both, pytest.raises(GraphError, match=r"Array 'b' of .* takes 8 kB in memory"):
        assert both["a"].shape == both["b"].shape


def test_a_node_number_far_beyond_the_edges_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 10**9], [1, 0]]))
    with pytest.raises(GraphError, match=r"Node 1,000,000,000 in an edge of .* takes 64 GB in memory"):
        read_npz(tmp_path / "g.npz")


def test_nan_in_wide_sparse_features_is_found_where_it_is_stored() -> None:
    """The dense matrix of this one would take 40 TB."""
    features = sp.csr_array((np.array([1.0, np.nan]), ([0, 2], [5, 10**12])), shape=(4, 10**12 + 1))
    with pytest.raises(GraphError, match="Feature number 1000000000000 of node 'c' is NaN"):
        Graph("wide", sp.csr_array((4, 4)), features, np.array(["a", "b", "c", "d"]))
    dense = np.zeros((4, 3))
    dense[2, 1] = np.inf
    with pytest.raises(GraphError, match="Feature number 1 of node 'c' is NaN, infinite"):
        Graph("dense", sp.csr_array((4, 4)), dense, np.array(["a", "b", "c", "d"]))
