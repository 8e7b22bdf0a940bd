"""Somebody makes the graphs that two studies ask for, from published files."""

import csv
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.readers.source import open_graph

STUDIES = Path(__file__).parents[2] / "studies"


def run(script: str, folder: Path, data: Path | None) -> subprocess.CompletedProcess[str]:
    """Call a copy of a script in `folder`, where it leaves what it makes."""
    for name in (script, "raw_files.py"):
        shutil.copy(STUDIES / name, folder)
    environment = {name: value for name, value in os.environ.items() if name != "FOSSIL_DATA"}
    if data is not None:
        environment["FOSSIL_DATA"] = str(data)
    command = [sys.executable, str(folder / script)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def test_edges_of_arxiv_go_both_ways_and_labels_keep_their_nodes(tmp_path: Path) -> None:
    raw = tmp_path / "data" / "ogbn_arxiv_nofeat" / "raw"
    raw.mkdir(parents=True)
    ones = np.ones(4, np.float32)
    cited = sp.csr_array((ones, ([0, 1, 1, 3], [1, 0, 2, 1])), shape=(4, 4))  # one pair cites each other
    sp.save_npz(raw / "adj_full.npz", cited)
    with gzip.open(raw / "node-label.csv.gz", "wt") as stream:
        stream.write("4\n0\n2\n2\n")
    done = run("arxiv_edges.py", tmp_path, tmp_path / "data")
    assert done.returncode == 0, done.stderr
    graph = open_graph(str(tmp_path / "arxiv-edges.npz")).graph
    assert graph.adjacency.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 1, 1], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert graph.labels is not None and graph.ids.tolist() == [0, 1, 2, 3]
    assert len(set(graph.labels.tolist())) == 3 and graph.labels[2] == graph.labels[3]
    degree = graph.features[:, list(graph.feature_names).index("log_out_degree")]
    assert degree.argmax() == 1 and degree[0] == degree[2] == degree[3]


def write_collection(folder: Path, components: list[int], kinds: list[int], edges: list[tuple[int, int]]) -> None:
    """Write the files of a collection of small graphs, whose nodes count from one."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    (raw / f"{folder.name}_graph_indicator.txt").write_text("\n".join(map(str, components)))
    (raw / f"{folder.name}_node_labels.txt").write_text("\n".join(map(str, kinds)))
    (raw / f"{folder.name}_A.txt").write_text("\n".join(f"{one}, {other}" for one, other in edges))


def test_collections_become_tables_of_their_first_components(tmp_path: Path) -> None:
    data = tmp_path / "data" / "TUDataset"
    write_collection(data / "MUTAG", [1, 1, 2], [0, 6, 2], [(1, 2), (2, 1)])
    write_collection(data / "PROTEINS", [49, 50, 50, 51], [2, 0, 1, 1], [(2, 3), (3, 2), (1, 4)])
    (data / "PROTEINS" / "raw" / "PROTEINS_node_attributes.txt").write_text("7\n11\n13\n17")
    done = run("held_out_tables.py", tmp_path, tmp_path / "data")
    assert done.returncode == 0, done.stderr

    def table(name: str) -> list[list[str]]:
        with (tmp_path / name).open(newline="") as stream:
            return list(csv.reader(stream))

    assert table("mutag-atoms/nodes.csv") == [["id", "class"], ["1", "C"], ["2", "Br"], ["3", "O"]]
    assert table("mutag-atoms/edges.csv") == [["source", "target"], ["1", "2"], ["2", "1"]]
    parts = [["id", "length", "class"], ["1", "7.0", "third"], ["2", "11.0", "first"], ["3", "13.0", "second"]]
    assert table("protein-parts/nodes.csv") == parts
    assert table("protein-parts/edges.csv") == [["source", "target"], ["2", "3"], ["3", "2"]]


@pytest.mark.parametrize("script", ["arxiv_edges.py", "held_out_tables.py"])
@pytest.mark.parametrize("is_set", [False, True])
def test_files_that_are_not_there_are_told_in_one_message(script: str, is_set: bool, tmp_path: Path) -> None:
    done = run(script, tmp_path, tmp_path if is_set else None)
    assert done.returncode == 2 and done.stdout == ""
    what, remedy = done.stderr.splitlines()
    assert what.startswith("error: there is no folder ") and ("is not set" in what) is not is_set
    assert remedy == "remedy: Set FOSSIL_DATA to the folder that has it."
    assert not (tmp_path / "arxiv-edges.npz").exists() and not (tmp_path / "mutag-atoms").exists()
