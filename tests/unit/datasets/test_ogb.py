import gzip
import io
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fossil.datasets import fetch
from fossil.datasets.archive import unpack
from fossil.datasets.fetch import find_or_fetch
from fossil.datasets.ogb import mean_over_edges, read_ogb
from fossil.errors import DataError
from fossil.graph.assemble import assemble

EDGES = np.array([[0, 1], [1, 2], [3, 0], [0, 2]])


def write_table(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(",".join(map(str, row)) + "\n" for row in np.atleast_2d(values).tolist())
    path.write_bytes(gzip.compress(lines.encode()))


def write_ogb(folder: Path, labels: np.ndarray, nodes: int = 5, **tables: np.ndarray) -> Path:
    write_table(folder / "num-node-list.csv.gz", np.array([[nodes]]))
    write_table(folder / "num-edge-list.csv.gz", np.array([[len(EDGES)]]))
    write_table(folder / "edge.csv.gz", EDGES)
    write_table(folder / "node-label.csv.gz", labels)
    for name, values in tables.items():
        write_table(folder / f"{name.replace('_', '-')}.csv.gz", values)
    return folder


def test_node_features_and_one_class_per_node(tmp_path):
    features = np.random.default_rng(0).standard_normal((5, 3)).round(6)
    labels = np.array([[4], [0], [2], [2], [1]])
    raw = read_ogb(write_ogb(tmp_path, labels, node_feat=features), "small")
    assert np.array_equal(np.stack([raw.source, raw.target], 1), EDGES)
    assert raw.features == pytest.approx(features.astype(np.float32))
    assert raw.labels.tolist() == [4, 0, 2, 2, 1]


def test_edge_features_are_averaged_and_tasks_stay_a_matrix(tmp_path):
    edge_features = np.random.default_rng(1).random((4, 8)).round(3)
    tasks = np.random.default_rng(2).integers(0, 2, (5, 6))
    raw = read_ogb(write_ogb(tmp_path, tasks, edge_feat=edge_features), "small", add_inverse=True)
    graph = assemble(raw)
    assert graph.num_edges == 8
    assert not graph.is_directed
    assert graph.num_classes == 6
    assert np.array_equal(graph.labels, tasks)
    for node in range(5):
        touching = np.isin(EDGES, node).any(axis=1)
        expected = edge_features[touching].mean(axis=0) if touching.any() else np.zeros(8)
        assert graph.features[node] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("table", "count"), [("num-edge-list", 10**12), ("num-node-list", 10**12), ("num-edge-list", -1)]
)
def test_no_room_is_made_for_rows_that_are_only_announced(tmp_path, table, count):
    write_ogb(tmp_path, np.zeros((5, 1), int), node_feat=np.ones((5, 3)))
    write_table(tmp_path / f"{table}.csv.gz", np.array([[count]]))
    with pytest.raises(DataError):
        read_ogb(tmp_path, "small")


def test_no_more_rows_are_read_than_there_may_be(tmp_path):
    write_ogb(tmp_path, np.zeros((5, 1), int), node_feat=np.ones((5, 3)))
    write_table(tmp_path / "edge.csv.gz", np.tile(EDGES, (1000, 1)))
    with pytest.raises(DataError, match="has 5 rows of 2 columns; expected are 4"):
        read_ogb(tmp_path, "small")


def test_mean_over_edges_counts_both_ends():
    mean = mean_over_edges(np.array([[1.0], [3.0]]), np.array([0, 0]), np.array([1, 2]), 4)
    assert mean.ravel().tolist() == [2, 1, 3, 0]


def test_table_shorter_than_the_list_says_is_refused(tmp_path):
    write_ogb(tmp_path, np.zeros((5, 1), int), node_feat=np.ones((4, 2)))
    with pytest.raises(DataError, match="4 rows of 2 columns; expected are 5 rows"):
        read_ogb(tmp_path, "small")


def test_edge_outside_the_graph_is_refused(tmp_path):
    write_ogb(tmp_path, np.zeros((3, 1), int), nodes=3, node_feat=np.ones((3, 2)))
    with pytest.raises(DataError, match="outside 0 to 2"):
        read_ogb(tmp_path, "small")


@pytest.mark.parametrize("damage", [lambda content: content[:-12], lambda _: b"plain text", lambda _: b""])
def test_damaged_file_is_refused(tmp_path, damage):
    write_ogb(tmp_path, np.zeros((5, 1), int), node_feat=np.ones((5, 2)))
    path = tmp_path / "edge.csv.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"edge\.csv\.gz"):
        read_ogb(tmp_path, "small")


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"num-node-list\.csv\.gz"):
        read_ogb(tmp_path, "small")


def zipped(members: dict[str, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def test_archive_is_unpacked_into_the_layout_and_read(tmp_path, monkeypatch):
    folder = write_ogb(tmp_path / "made", np.ones((5, 1), int), node_feat=np.eye(5))
    members = {f"small/raw/{path.name}": path.read_bytes() for path in folder.iterdir()}
    archive = tmp_path / "small.zip"
    archive.write_bytes(zipped({"small/RELEASE_v1.txt": b"", **members}).read())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FOSSIL_DATA", raising=False)
    origins = {f"ogbn_small/raw/{path.name}": archive.as_uri() for path in folder.iterdir()}

    monkeypatch.setattr(fetch, "open_address", urllib.request.urlopen)
    root = find_or_fetch("ogbn_small", origins, lambda root: root)
    assert root == tmp_path / "cache" / "fossil" / "datasets"
    assert sorted(path.name for path in root.rglob("*") if path.is_file()) == sorted(p.name for p in folder.iterdir())
    assert np.array_equal(read_ogb(root / "ogbn_small" / "raw", "small").features, np.eye(5))


@pytest.mark.parametrize("member", ["../evil", "small/../../evil", "/evil", "..\\evil", "C:/evil"])
def test_archive_that_points_outside_is_refused(tmp_path, member):
    root = tmp_path / "deep" / "root"
    archive = zipped({"small/raw/edge.csv.gz": b"good", member: b"bad"})
    with pytest.raises(DataError, match="points outside"):
        unpack(archive, ["ogbn_small/raw/edge.csv.gz"], root)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_archive_without_the_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no raw/edge\.csv\.gz"):
        unpack(zipped({"small/raw/other": b""}), ["ogbn_small/raw/edge.csv.gz"], tmp_path)
