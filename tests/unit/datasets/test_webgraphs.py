import os
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch_geometric.datasets import Actor, Amazon, Coauthor, HeterophilousGraphDataset, WebKB, WikipediaNetwork
from torch_geometric.io import read_npz

from fossil.datasets.catalog import load
from fossil.datasets.webgraphs import (
    compact,
    read_benchmark_npz,
    read_geom_gcn,
    read_heterophilous_npz,
    read_wordnet,
)
from fossil.errors import DataError
from fossil.graph.assemble import assemble
from fossil.graph.findings import Treatment
from fossil.graph.homophily import edge_homophily
from fossil.graph.published import from_masks

DATA = os.environ.get("FOSSIL_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="FOSSIL_DATA does not point to the graphs")

HEADING = "node_id\tfeature\tlabel\n"
EDGES = "node_id\tnode_id\n0\t1\n1\t1\n0\t1\n2\t0\n"


def write_text_graph(folder: Path, nodes: str, edges: str = EDGES) -> None:
    (folder / "out1_node_feature_label.txt").write_text(HEADING + nodes)
    (folder / "out1_graph_edges.txt").write_text(edges)


def write_npz(path: Path, adjacency: np.ndarray, features: np.ndarray, labels: np.ndarray, **more: np.ndarray) -> None:
    arrays = {}
    for prefix, matrix in (("adj", sp.csr_array(adjacency)), ("attr", sp.csr_array(features))):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{prefix}_{part}"] = np.asarray(getattr(matrix, part))
    np.savez(path, labels=labels, **arrays, **more)


def assert_equal_to_pyg(graph, data) -> None:
    theirs = sp.csr_array((np.ones(data.num_edges), data.edge_index.numpy()), shape=(data.num_nodes, data.num_nodes))
    assert (graph.adjacency != theirs).nnz == 0
    ours = graph.features.toarray() if graph.has_sparse_features else graph.features
    assert np.array_equal(ours, data.x.numpy())
    assert np.array_equal(graph.labels, data.y.numpy())


@needs_data
@pytest.mark.parametrize(
    ("name", "path", "dataset"),
    [
        ("actor", "Actor", lambda root: Actor(f"{root}/Actor")),
        ("chameleon", "WikipediaNetwork/chameleon/geom_gcn", lambda root: wikipedia(root, "chameleon")),
        ("squirrel", "WikipediaNetwork/squirrel/geom_gcn", lambda root: wikipedia(root, "squirrel")),
        ("texas", "WebKB/texas", lambda root: WebKB(f"{root}/WebKB", "Texas")),
        ("cornell", "WebKB/cornell", lambda root: WebKB(f"{root}/WebKB", "Cornell")),
    ],
)
def test_published_text_files_and_splits_equal_pyg(tmp_path, name, path, dataset):
    shutil.copytree(f"{DATA}/{path}/raw", tmp_path / path / "raw", copy_function=shutil.copyfile)
    graph, data = load(name, treatment=Treatment(self_loops="keep"), download=False), dataset(tmp_path)[0]
    assert graph.has_sparse_features
    assert_equal_to_pyg(graph, data)
    masks = (mask.numpy().T for mask in (data.train_mask, data.val_mask, data.test_mask))
    assert np.array_equal(graph.published_splits["geom_gcn"], from_masks(*masks))


def wikipedia(root, name):
    return WikipediaNetwork(f"{root}/WikipediaNetwork", name, geom_gcn_preprocess=True)


@needs_data
@pytest.mark.parametrize("name", ["chameleon_filtered", "squirrel_filtered_directed"])
def test_filtered_graphs_equal_pyg(tmp_path, name):
    # PyG reads other files of this format, under names of its own; it gives every edge its reverse.
    source, theirs = Path(f"{DATA}/heterophilous_filtered/{name}.npz"), tmp_path / "minesweeper" / "raw"
    theirs.mkdir(parents=True)
    shutil.copyfile(source, theirs / "minesweeper.npz")
    data = HeterophilousGraphDataset(str(tmp_path), "minesweeper")[0]
    raw = read_heterophilous_npz(source, "g", directed=False)
    assert_equal_to_pyg(assemble(raw, Treatment(self_loops="keep")), data)
    masks = (mask.numpy().T for mask in (data.train_mask, data.val_mask, data.test_mask))
    assert np.array_equal(raw.published_splits["geom_gcn"], from_masks(*masks))


@needs_data
def test_cornell_is_not_a_copy_of_texas():
    # Edge homophily of the two in Platonov et al., ICLR 2023, and 0.30 for the copy in older papers.
    both = Treatment(direction="symmetrize", self_loops="keep")
    texas, cornell = (load(name, treatment=both, download=False) for name in ("texas", "cornell"))
    assert not np.array_equal(texas.labels, cornell.labels)
    assert edge_homophily(cornell) < 0.2


@needs_data
@pytest.mark.parametrize(("maker", "name"), [(Coauthor, "CS"), (Amazon, "Photo")])
def test_published_npz_equals_pyg(tmp_path, maker, name):
    folder = Path(f"{DATA}/{maker.__name__}/{name}/raw")
    shutil.copytree(folder, tmp_path / name / "raw", copy_function=shutil.copyfile)
    graph = assemble(read_benchmark_npz(next(folder.glob("*.npz")), "g"))
    assert graph.has_sparse_features == (name == "CS")
    assert_equal_to_pyg(graph, maker(str(tmp_path), name)[0])


def test_features_by_index(tmp_path):
    write_text_graph(tmp_path, "2\t0,3\t1\n0\t1\t0\n1\t3,3,2\t2\n")
    raw = read_geom_gcn(tmp_path, "g", "indices")
    assert raw.features.tolist() == [[0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]]
    assert raw.labels.tolist() == [0, 2, 1]
    assert list(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == [(0, 1), (1, 1), (0, 1), (2, 0)]


def test_features_by_value_follow_the_node_ids(tmp_path):
    write_text_graph(tmp_path, "1\t1,0\t1\n0\t0,1\t0\n2\t1,1\t2\n")
    raw = read_geom_gcn(tmp_path, "g", "values")
    assert raw.features.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert raw.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "nodes",
    [
        "",
        "0\t1,0\n",
        "0\t1,x\t0\n",
        "0\t1,0\t0\n1\t1\t0\n",
        "0\t1,0\t0\n0\t0,1\t0\n",
        "0\t1,0\t0\n5\t0,1\t0\n",
    ],
)
def test_malformed_node_tables_are_refused(tmp_path, nodes):
    write_text_graph(tmp_path, nodes)
    with pytest.raises(DataError, match=str(tmp_path)):
        read_geom_gcn(tmp_path, "g", "values")


def test_negative_feature_index_is_refused(tmp_path):
    write_text_graph(tmp_path, "0\t-1,2\t0\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_geom_gcn(tmp_path, "g", "indices")


def test_malformed_edges_are_refused(tmp_path):
    write_text_graph(tmp_path, "0\t1,0\t0\n", "node_id\tnode_id\n0\t0\t0\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_geom_gcn(tmp_path, "g", "values")


def test_npz_with_loops_counts_and_one_way_edges_equals_pyg(tmp_path):
    adjacency = np.array([[1, 2, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    features = np.array([[3.0, 0, 0.5], [0, -2, 0], [0, 0, 0], [1, 1, 1]])
    write_npz(tmp_path / "g.npz", adjacency, features, np.array([1, 0, 1, 2]), class_names=np.array(["a", "b", "c"]))
    raw = read_benchmark_npz(tmp_path / "g.npz", "g")
    assert_equal_to_pyg(assemble(raw), read_npz(str(tmp_path / "g.npz")))
    assert raw.label_names == ("a", "b", "c")
    assert [(finding.kind, finding.count) for finding in raw.findings] == [
        ("self loops in the file", 1),
        ("edges without their reverse in the file", 1),
    ]


def test_class_names_stored_as_objects_are_not_loaded(tmp_path):
    names = np.array(["a", "b"], dtype=object)
    write_npz(tmp_path / "g.npz", np.eye(2)[::-1], np.eye(2), np.array([0, 1]), class_names=names)
    assert read_benchmark_npz(tmp_path / "g.npz", "g").label_names == ()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_damaged_npz_is_refused(tmp_path, content):
    (tmp_path / "g.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"g\.npz cannot be read"):
        read_benchmark_npz(tmp_path / "g.npz", "g")


def test_npz_without_labels_is_refused(tmp_path):
    np.savez(tmp_path / "g.npz", adj_data=np.ones(1))
    with pytest.raises(DataError, match="cannot be read"):
        read_benchmark_npz(tmp_path / "g.npz", "g")


@pytest.mark.parametrize(("filled", "sparse"), [(24, True), (25, False)])
def test_features_are_sparse_below_a_quarter(filled, sparse):
    features = np.zeros(100)
    features[:filled] = 2
    assert sp.issparse(compact(features.reshape(10, 10))) is sparse


def masks_of(nodes, train, validation, test, many=False):
    found = {}
    for name, members in (("train", train), ("val", validation), ("test", test)):
        mask = np.isin(np.arange(nodes), members)
        found[f"{name}_mask{'s' if many else ''}"] = np.stack([mask, mask]) if many else mask
    return found


def test_splits_beside_the_text_files_are_read_in_order(tmp_path):
    write_text_graph(tmp_path, "1\t1,0\t1\n0\t0,1\t0\n2\t1,1\t2\n")
    np.savez(tmp_path / "a.npz", **masks_of(3, [0], [1], [2]))
    np.savez(tmp_path / "b.npz", **masks_of(3, [2], [0], []))
    raw = read_geom_gcn(tmp_path, "g", "values", ["a.npz", "b.npz"])
    assert raw.published_splits["geom_gcn"].tolist() == [[0, 1, 2], [1, -1, 0]]


@pytest.mark.parametrize("split", [masks_of(4, [0], [1], [2]), masks_of(3, [0], [0], [2]), {"train_mask": np.ones(3)}])
def test_splits_that_do_not_fit_are_refused(tmp_path, split):
    write_text_graph(tmp_path, "1\t1,0\t1\n0\t0,1\t0\n2\t1,1\t2\n")
    np.savez(tmp_path / "a.npz", **split)
    with pytest.raises(DataError, match=r"a\.npz (cannot be read|has a split of 4 nodes)"):
        read_geom_gcn(tmp_path, "g", "values", ["a.npz"])


@pytest.mark.parametrize("directed", [False, True])
def test_edges_of_an_undirected_file_get_their_reverse(tmp_path, directed):
    np.savez(
        tmp_path / "g.npz",
        edges=np.array([[0, 1], [2, 0]]),
        node_features=np.eye(3),
        node_labels=np.array([0, 1, 0]),
        **masks_of(3, [0], [1], [2], many=True),
    )
    raw = read_heterophilous_npz(tmp_path / "g.npz", "g", directed=directed)
    once = [(0, 1), (2, 0)]
    found = list(zip(raw.source.tolist(), raw.target.tolist(), strict=True))
    assert found == (once if directed else [*once, (1, 0), (0, 2)])
    assert raw.published_splits["geom_gcn"].tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("reader", [partial(read_heterophilous_npz, directed=True), read_wordnet])
def test_other_arrays_are_refused(tmp_path, reader):
    np.savez(tmp_path / "g.npz", x=np.eye(2))
    with pytest.raises(DataError, match=r"g\.npz cannot be read"):
        reader(tmp_path / "g.npz", "g")


@pytest.mark.parametrize("features", [np.zeros(3), np.zeros(()), np.array(["a", "b"]), np.zeros((2, 2, 2))])
def test_features_that_are_no_matrix_are_one_message(tmp_path, features):
    masks = {f"{part}_masks": np.zeros((1, 2), bool) for part in ("train", "val", "test")}
    np.savez(
        tmp_path / "g.npz", edges=np.array([[0, 1]]), node_features=features, node_labels=np.zeros(2, int), **masks
    )
    with pytest.raises(DataError):
        read_heterophilous_npz(tmp_path / "g.npz", "g", directed=True)


def test_a_member_whose_name_is_damaged_is_noticed(tmp_path):
    write_npz(tmp_path / "g.npz", np.eye(2)[::-1], np.eye(2), np.array([0, 1]), class_names=np.array(["a", "b"]))
    assert read_benchmark_npz(tmp_path / "g.npz", "g").label_names == ("a", "b")
    content = (tmp_path / "g.npz").read_bytes()
    place = content.rindex(b"class_names.npy")  # in the directory, at the end of the file
    for damaged in (b"class_name\0.npy", b"klass_names.npy"):
        (tmp_path / "g.npz").write_bytes(content[:place] + damaged + content[place + len(damaged) :])
        with pytest.raises(DataError):
            read_benchmark_npz(tmp_path / "g.npz", "g")
