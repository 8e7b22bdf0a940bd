import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from fossil.datasets.catalog import CATALOG, describe, find, load, names
from fossil.errors import DataError, SettingError
from fossil.graph.findings import Treatment

PAPER = ("cora", "citeseer", "pubmed", "coauthor_cs", "actor", "chameleon", "squirrel", "ogbn_arxiv", "ogbn_proteins")


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data, no network."""

    def refuse(*_, **__):
        raise urllib.error.URLError("offline")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FOSSIL_DATA", raising=False)


def test_catalogue_has_the_nine_graphs_of_the_paper_and_two_built_in():
    assert names() == (*PAPER, "digits", "csbm")


@pytest.mark.parametrize("spelling", ["Coauthor-CS", "coauthor_cs", " CoAuthor CS ", "COAUTHOR-CS"])
def test_spelling_is_forgiven(spelling):
    assert find(spelling).name == "coauthor_cs"


def test_unknown_name_offers_the_nearest():
    with pytest.raises(DataError, match="Did you mean 'cora'"):
        load("korra")


@pytest.mark.parametrize("name", PAPER)
def test_without_data_every_file_and_address_is_named(name, nowhere):
    with pytest.raises(DataError, match="offline") as caught:
        load(name)
    assert CATALOG[name].files
    for file, address in CATALOG[name].origins.items():
        assert file in caught.value.remedy
        assert address in caught.value.remedy


@pytest.mark.skipif("FOSSIL_DATA" not in os.environ, reason="FOSSIL_DATA does not point to the graphs")
@pytest.mark.parametrize("name", PAPER[:7])
def test_layout_is_that_of_the_data_folder(name):
    graph = load(name, download=False, treatment=Treatment(self_loops="keep"))
    assert graph.name == name
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == CATALOG[name].counts
    assert graph.ids.tolist() == list(range(graph.num_nodes))


def write_actor(root, edges):
    folder = root / "Actor" / "raw"
    folder.mkdir(parents=True)
    (folder / "out1_node_feature_label.txt").write_text("node_id\tfeature\tlabel\n0\t1,2\t0\n1\t0\t1\n")
    (folder / "out1_graph_edges.txt").write_text(f"node_id\tnode_id\n{edges}")
    return folder


def test_other_counts_than_the_published_ones_are_refused(tmp_path):
    folder = write_actor(tmp_path, "0\t1\n")
    with pytest.raises(DataError, match=r"actor has 2 nodes in .*, but 7,600 are expected") as caught:
        load("actor", data_root=tmp_path)
    assert str(folder) in caught.value.what


@pytest.mark.parametrize("edges", ["0\t5\n", "-1\t0\n"])
def test_edges_outside_the_graph_are_refused(tmp_path, edges):
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
