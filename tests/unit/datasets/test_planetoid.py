import os
import pickle
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.datasets import Planetoid
from torch_geometric.io import read_planetoid_data

from fossil.datasets.planetoid import PARTS, read_array, read_planetoid, read_restricted
from fossil.errors import DataError
from fossil.graph.assemble import assemble
from fossil.graph.published import from_masks


class RunsCommand:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def dump(path: Path, value: object) -> Path:
    path.write_bytes(pickle.dumps(value, protocol=3))
    return path


def write_small_graph(folder: Path, name: str) -> None:
    """Nodes 0 to 599 are not test nodes; 602 and 600 are, in that order; 601 is absent. One loop, two duplicates."""
    generator = np.random.default_rng(0)
    features = generator.random((602, 5)) * (generator.random((602, 5)) < 0.5)
    classes = np.eye(3, dtype=np.int32)[generator.integers(0, 3, 602)]
    parts = {"x": slice(0, 2), "allx": slice(0, 600), "tx": slice(600, 602)}
    for part, rows in parts.items():
        dump(folder / f"ind.{name}.{part}", sp.csr_matrix(features[rows]))
        dump(folder / f"ind.{name}.{part.replace('x', 'y')}", classes[rows])
    graph = defaultdict(list, {0: [1, 1, 602], 1: [0, 0], 2: [2, 3], 3: [2], 600: [602], 602: [0, 600]})
    dump(folder / f"ind.{name}.graph", graph)
    (folder / f"ind.{name}.test.index").write_text("602\n600\n")


def assert_equal_to_pyg(graph, data) -> None:
    theirs = sp.csr_array((np.ones(data.num_edges), data.edge_index.numpy()), shape=(data.num_nodes, data.num_nodes))
    assert (graph.adjacency != theirs).nnz == 0
    assert np.array_equal(graph.features.toarray(), data.x.numpy())
    assert np.array_equal(graph.labels, data.y.numpy())
    masks = (data.train_mask, data.val_mask, data.test_mask)
    assert np.array_equal(graph.published_splits["public"], from_masks(*(mask.numpy() for mask in masks)))


def test_small_graph_with_a_gap_equals_pyg(tmp_path):
    write_small_graph(tmp_path, "citeseer")
    raw = read_planetoid(tmp_path, "citeseer")
    assert_equal_to_pyg(assemble(raw), read_planetoid_data(str(tmp_path), "citeseer"))
    assert [(finding.kind, finding.count, finding.examples) for finding in raw.findings] == [
        ("self loops in the files", 1, ("2",)),
        ("nodes absent from the files", 1, ("601",)),
    ]


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")
@pytest.mark.parametrize("title", ["Cora", "CiteSeer", "PubMed"])
def test_published_files_equal_pyg(tmp_path, title):
    name = title.lower()
    folder = Path(os.environ["FOSSIL_DATA"]) / "Planetoid" / title / "raw"
    copied = tmp_path / title / "raw"
    copied.mkdir(parents=True)
    for part in PARTS:
        shutil.copyfile(folder / f"ind.{name}.{part}", copied / f"ind.{name}.{part}")
    graph = assemble(read_planetoid(folder, name))
    assert graph.has_sparse_features
    assert_equal_to_pyg(graph, Planetoid(str(tmp_path), title)[0])


def test_hostile_file_is_refused_and_not_run(tmp_path):
    marker = tmp_path / "marker"
    path = dump(tmp_path / "ind.cora.allx", [RunsCommand(f"touch {marker}")])
    with pytest.raises(DataError, match=r"ind\.cora\.allx: the file asks for posix\.system"):
        read_restricted(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", [b"builtins\neval", b"builtins\ngetattr", b"numpy\nload", b"os\nsystem", b"__builtin__\nexec"]
)
def test_only_the_needed_names_are_admitted(tmp_path, name):
    (tmp_path / "file").write_bytes(b"c" + name + b"\n.")
    with pytest.raises(DataError, match="asks for"):
        read_restricted(tmp_path / "file")


@pytest.mark.parametrize(
    "value", [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))]
)
def test_arrays_come_back_whole(tmp_path, value):
    assert np.array_equal(read_array(dump(tmp_path / "file", value)), value)


@pytest.mark.parametrize("spelling", ["numpy.core", "numpy._core"])
def test_both_spellings_of_numpy_are_read(tmp_path, spelling):
    content = pickle.dumps(np.eye(2), protocol=3)
    own = next(name for name in (b"numpy._core", b"numpy.core") if name in content)
    (tmp_path / "file").write_bytes(content.replace(own, spelling.encode()))
    assert np.array_equal(read_array(tmp_path / "file"), np.eye(2))


@pytest.mark.parametrize("spelling", ["scipy.sparse.csr", "scipy.sparse._csr"])
def test_both_spellings_of_scipy_are_read(tmp_path, spelling):
    content = pickle.dumps(sp.csr_matrix(np.eye(2)), protocol=3)
    assert b"scipy.sparse._csr\n" in content
    (tmp_path / "file").write_bytes(content.replace(b"scipy.sparse._csr\n", f"{spelling}\n".encode()))
    assert np.array_equal(read_array(tmp_path / "file").toarray(), np.eye(2))


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps(np.zeros(3), protocol=3)])
def test_other_content_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read"):
        read_array(tmp_path / "file")


def test_object_arrays_are_refused(tmp_path):
    with pytest.raises(DataError, match="not accepted"):
        read_array(dump(tmp_path / "file", np.array([["a", 1]], dtype=object)))


def test_matrix_with_columns_out_of_range_is_refused(tmp_path):
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[0] = 1_000_000
    with pytest.raises(DataError, match="cannot be read"):
        read_array(dump(tmp_path / "file", matrix))


def test_files_that_do_not_fit_each_other_are_refused(tmp_path):
    write_small_graph(tmp_path, "cora")
    (tmp_path / "ind.cora.test.index").write_text("602\n600\n601\n")
    with pytest.raises(DataError, match="do not fit each other"):
        read_planetoid(tmp_path, "cora")


@pytest.mark.parametrize("rows", ["602\n-1\n", "602\n999999999999999\n", "", "six\n"])
def test_impossible_test_rows_are_refused(tmp_path, rows):
    write_small_graph(tmp_path, "cora")
    (tmp_path / "ind.cora.test.index").write_text(rows)
    with pytest.raises(DataError, match=r"test\.index cannot be read"):
        read_planetoid(tmp_path, "cora")


def test_too_few_nodes_for_the_published_split_are_refused(tmp_path):
    write_small_graph(tmp_path, "citeseer")
    dump(tmp_path / "ind.citeseer.y", np.eye(3, dtype=np.int32)[np.zeros(101, np.int64)])
    with pytest.raises(DataError, match="500 validation nodes"):
        read_planetoid(tmp_path, "citeseer")
