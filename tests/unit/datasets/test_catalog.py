import os
import subprocess
import sys
import urllib.error

import numpy as np
import pytest

from fossil.datasets import fetch, verify
from fossil.datasets.catalog import CATALOG, describe, find, load, names
from fossil.errors import DataError, SettingError
from fossil.graph.findings import Treatment

PAPER = ("cora", "citeseer", "pubmed", "coauthor_cs", "actor", "chameleon", "squirrel", "ogbn_arxiv", "ogbn_proteins")

FILTERED = ("chameleon_filtered", "squirrel_filtered", "chameleon_filtered_directed", "squirrel_filtered_directed")
OTHERS = (*FILTERED, "amazon_photo", "texas", "cornell", "wordnet")
TEN_SPLITS = ("actor", "chameleon", "squirrel", *FILTERED, "texas", "cornell")


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data, no network."""

    def refuse(*_, **__):
        raise urllib.error.URLError("offline")

    monkeypatch.setattr(fetch, "open_address", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FOSSIL_DATA", raising=False)


def test_catalogue_has_the_nine_graphs_of_the_paper_others_and_two_built_in():
    assert names() == (*PAPER, *OTHERS, "digits", "csbm")


@pytest.mark.parametrize("spelling", ["Coauthor-CS", "coauthor_cs", " CoAuthor CS ", "COAUTHOR-CS"])
def test_spelling_is_forgiven(spelling):
    assert find(spelling).name == "coauthor_cs"


def test_unknown_name_offers_the_nearest():
    with pytest.raises(DataError, match="Did you mean 'cora'"):
        load("korra")


@pytest.mark.parametrize("name", [*PAPER, *OTHERS[:-1]])
def test_without_data_every_file_and_address_is_named(name, nowhere):
    with pytest.raises(DataError, match="offline") as caught:
        load(name)
    assert CATALOG[name].files
    for file, address in CATALOG[name].origins.items():
        assert file in caught.value.remedy
        assert address in caught.value.remedy


def test_a_file_that_is_published_nowhere_is_asked_for_in_words(nowhere, monkeypatch, tmp_path):
    monkeypatch.setattr(fetch, "open_address", None)  # nothing is tried
    with pytest.raises(DataError, match="published nowhere") as caught:
        load("wordnet", data_root=tmp_path)
    assert f"{tmp_path}/WordNet/wordnet30.npz\n    from a machine that has it" in caught.value.remedy


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")
@pytest.mark.parametrize("name", [*PAPER[:7], *OTHERS])
def test_layout_is_that_of_the_data_folder(name):
    graph = load(name, download=False, treatment=Treatment(self_loops="keep"))
    assert graph.name == name
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == CATALOG[name].counts
    assert name == "wordnet" or graph.ids.tolist() == list(range(graph.num_nodes))
    assert tuple(graph.published_splits) == CATALOG[name].splits
    assert ("geom_gcn" in CATALOG[name].splits) == (name in TEN_SPLITS)
    assert all(len(parts) == (10 if kind == "geom_gcn" else 1) for kind, parts in graph.published_splits.items())


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")
@pytest.mark.parametrize("name", ["chameleon", "squirrel"])
def test_a_filtered_graph_and_its_directed_version_differ_in_direction_alone(name):
    one, two = load(f"{name}_filtered", download=False), load(f"{name}_filtered_directed", download=False)
    assert not one.is_directed and two.is_directed
    assert (one.adjacency != (two.adjacency + two.adjacency.T).sign()).nnz == 0
    assert (one.features != two.features).nnz == 0 and np.array_equal(one.labels, two.labels)
    assert np.array_equal(one.published_splits["geom_gcn"], two.published_splits["geom_gcn"])


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")
def test_wordnet_has_names_for_everything():
    graph = load("wordnet", download=False)
    assert graph.ids[0] == "n00001740" and graph.label_names[3] == "noun.Tops"  # entity
    words = {graph.feature_names[i] for i in graph.features.indices[: graph.features.indptr[1]]}
    # "That which is perceived or known or inferred to have its own distinct existence (living or nonliving)".
    assert words == {"known", "own", "distinct", "existence", "living"}
    assert [int((graph.published_splits["public"] == part).sum()) for part in (0, 1, 2)] == [70576, 23532, 23551]


@pytest.fixture
def unpinned(monkeypatch):
    """Files are not compared with the published ones, only what is in them."""
    monkeypatch.setattr(verify, "FILES", {})


def write_actor(root, edges):
    folder = root / "Actor" / "raw"
    folder.mkdir(parents=True)
    masks = {"train_mask": np.array([1, 0]), "val_mask": np.array([0, 1]), "test_mask": np.array([0, 0])}
    for number in range(10):
        np.savez(folder / f"film_split_0.6_0.2_{number}.npz", **masks)
    (folder / "out1_node_feature_label.txt").write_text("node_id\tfeature\tlabel\n0\t1,2\t0\n1\t0\t1\n")
    (folder / "out1_graph_edges.txt").write_text(f"node_id\tnode_id\n{edges}")
    return folder


def test_other_counts_than_the_published_ones_are_refused(tmp_path, unpinned):
    folder = write_actor(tmp_path, "0\t1\n")
    with pytest.raises(DataError, match=r"actor has 2 nodes in .*, but 7,600 are expected") as caught:
        load("actor", data_root=tmp_path)
    assert str(folder) in caught.value.what


@pytest.mark.parametrize("edges", ["0\t5\n", "-1\t0\n"])
def test_edges_outside_the_graph_are_refused(tmp_path, unpinned, edges):
    write_actor(tmp_path, edges)
    with pytest.raises(DataError, match="outside 0 to 1"):
        load("actor", data_root=tmp_path)


def test_built_in_graphs_need_nothing(nowhere):
    assert load("digits").num_nodes == 1797
    assert load("cSBM", nodes=60, features=5, degree=4).features.shape == (60, 5)


def test_treatment_reaches_built_in_graphs():
    graph = load("csbm", nodes=400, degree=1, features=2, treatment=Treatment(isolated="drop"))
    assert graph.num_nodes < 400


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("cora", {"nodes": 5}, "cora has no parameter 'nodes'"),
        ("csbm", {"node": 5}, "Did you mean 'nodes'"),
        ("digits", {"neighbors": 5}, "Did you mean 'neighbours'"),
        ("csbm", {"nodes": "many"}, "nodes='many'"),
    ],
)
def test_impossible_parameters_are_refused(name, parameters, message):
    with pytest.raises(SettingError, match=message):
        load(name, **parameters)


def test_description_needs_no_files(nowhere):
    assert describe("Cora").startswith(
        "cora: Cora, 2,708 nodes, 10,556 edges, 1,433 features, 7 classes, homophily 0.81."
    )
    assert describe("csbm").startswith("csbm: cSBM, nodes to choose")


def test_importing_the_catalogue_loads_no_heavy_package():
    code = "import sys, fossil.datasets.catalog; print([m for m in ('torch', 'sklearn', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
