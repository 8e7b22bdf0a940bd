"""Labels that come as numbers: class numbers, codes, and what is not known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.readers.arrays import class_labels
from fossil.readers.npz import read_npz
from fossil.readers.read import read_graph
from fossil.runs.conversion import convert

RING = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


def labelled(path: Path, labels: object, **further: object) -> Graph:
    np.savez(path / "g.npz", edge_index=RING, x=np.eye(4), y=np.asarray(labels), **further)
    return read_npz(path / "g.npz")


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        ([1_000_000, 2_000_000, 1_000_000, -1], [0, 1, 0, -1], ("1000000", "2000000")),
        ([2019.0, 1971.0, np.nan, 2019.0], [1, 0, -1, 1], ("1971", "2019")),
        (np.array([2**64 - 1, 7, 7, 2**64 - 1], np.uint64), [1, 0, 0, 1], ("7", str(2**64 - 1))),
        ([0, 1, 3, 1], [0, 1, 2, 1], ("0", "1", "3")),
        ([0, 1, 2, -1], [0, 1, 2, -1], ()),
        ([True, False, True, True], [1, 0, 1, 1], ()),
        ([-1, -1, -1, -1], [-1, -1, -1, -1], ()),
    ],
)
def test_codes_are_renumbered_and_become_the_names(
    tmp_path: Path, labels: object, numbers: list[int], names: tuple[str, ...]
) -> None:
    graph = labelled(tmp_path, labels)
    assert graph.labels is not None and graph.labels.tolist() == numbers
    assert graph.label_names == names
    assert graph.num_classes == max(numbers) + 1


def test_numbers_of_named_classes_stay(tmp_path: Path) -> None:
    graph = labelled(tmp_path, [0, 2, 2, -1], class_names=np.array(["red", "green", "blue"]))
    assert graph.labels is not None and graph.labels.tolist() == [0, 2, 2, -1]
    assert graph.label_names == ("red", "green", "blue")


def test_classes_without_a_name_beside_others_with_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="There are 2 class names, and class numbers up to 3"):
        labelled(tmp_path, [0, 1, 2, 3], class_names=np.array(["red", "green"]))


def test_labels_that_are_texts_keep_their_names(tmp_path: Path) -> None:
    graph = labelled(tmp_path, ["red", "green", "red", "green"], class_names=np.array(["red", "green"]))
    assert graph.labels is not None
    assert [graph.label_names[number] for number in graph.labels] == ["red", "green", "red", "green"]


@pytest.mark.parametrize("given", ["-1", "-1.0", "NA", "nan"])
def test_a_table_says_that_what_may_mean_unknown_is_a_class(tmp_path: Path, given: str) -> None:
    folder = tmp_path / "town"
    folder.mkdir()
    (folder / "nodes.csv").write_text(f"id,age,label\na,1,{given}\nb,2,0\nc,3,\nd,5,{given}\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    for graph in (read_graph(folder).graph, convert(folder, tmp_path / "graph")):
        assert graph.labels is not None
        assert [graph.label_names[number] if number >= 0 else "" for number in graph.labels] == [given, "0", "", given]
        assert [one.count for one in graph.findings if one.kind == f"nodes of class {given.removesuffix('.0')}"] == [2]


@pytest.mark.parametrize("labels", [[0, 1, -100, 0], [0.0, -100.0, np.nan, 1.0], [[0, 1], [1, -100], [0, 0], [1, 1]]])
def test_other_negative_numbers_than_minus_one_are_refused_by_name(tmp_path: Path, labels: object) -> None:
    with pytest.raises(GraphError, match="1 label is -100; of the negative numbers, only -1"):
        labelled(tmp_path, labels)


def test_columns_of_classes_are_no_binary_tasks() -> None:
    with pytest.raises(GraphError, match=r"shape \(2, 2\) hold 7; several columns are binary tasks"):
        class_labels([[0, 1], [7, -1]])


@pytest.mark.parametrize("labels", [[0.5, 1.0, 0.0, 1.0], [np.inf, 0.0, 1.0, 1.0]])
def test_numbers_that_are_not_whole_are_refused(labels: object) -> None:
    with pytest.raises(GraphError, match="not whole numbers"):
        class_labels(labels)


@pytest.mark.parametrize("labels", [[0, 2_000_000], [0, -2], [0.0, np.inf]])
def test_no_graph_has_class_numbers_far_beyond_its_classes(labels: list[int]) -> None:
    edges = sp.csr_array(np.array([[0, 1], [1, 0]], np.float32))
    with pytest.raises(GraphError, match="is no class number of 2 nodes"):
        Graph("two", edges, np.eye(2), np.arange(2), np.asarray(labels))
    assert Graph("two", edges, np.eye(2), np.arange(2), np.array([0, 9_999])).num_classes == 10_000
