from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import KNeighborsClassifier

import fossil.report.layout
import fossil.report.map
from fossil.errors import SettingError
from fossil.graph.graph import Graph
from fossil.methods.fossil import Fossil, FossilSettings
from fossil.report.map import draw_map, flatten
from fossil.runs.config import RunConfig
from fossil.runs.embeddings import FitResult
from fossil.training.trainer import TrainingSettings


def result(labels: np.ndarray | None, nodes: int = 12, width: int = 4) -> FitResult:
    vectors = np.random.default_rng(0).normal(size=(nodes, width)).astype(np.float32)
    graph = Graph("town", sp.csr_array((nodes, nodes), dtype=np.float32), vectors, np.arange(nodes), labels)
    settings = FossilSettings(hidden=4, width=width)
    config = RunConfig("fossil", "released", settings, TrainingSettings(), 0, graph.name, graph.fingerprint)
    return FitResult(graph.ids, vectors, None, graph, Fossil(settings, width), config, [])


def clusters(each: int) -> tuple[np.ndarray, np.ndarray]:
    """Three bundles of directions, of very different lengths."""
    random = np.random.default_rng(1)
    kind = np.repeat(np.arange(3), each)
    directions = np.eye(3, 8)[kind] + 0.05 * random.normal(size=(3 * each, 8))
    return directions * random.uniform(0.1, 100, size=(3 * each, 1)), kind


@pytest.mark.parametrize(
    ("each", "umap", "how"),
    [
        (20, False, "t-SNE"),
        (1700, False, "principal components"),
        (3, False, "principal components"),
        (20, True, "UMAP"),
        (3, True, "principal components"),
    ],
)
def test_what_points_the_same_way_stays_together(
    each: int, umap: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if umap:
        pytest.importorskip("umap")
    monkeypatch.setattr(fossil.report.layout, "_has_umap", lambda: umap)
    vectors, kind = clusters(each)
    positions, found = flatten(vectors)
    assert found == how and positions.shape == (3 * each, 2)
    neighbours = KNeighborsClassifier(n_neighbors=min(5, each)).fit(positions, kind)
    assert neighbours.score(positions, kind) > 0.95


def test_the_same_seed_gives_the_same_picture() -> None:
    vectors, _ = clusters(10)
    np.testing.assert_array_equal(flatten(vectors, seed=3)[0], flatten(vectors, seed=3)[0])


def test_a_zero_vector_has_a_place() -> None:
    vectors, _ = clusters(5)
    vectors[0] = 0
    assert np.isfinite(flatten(vectors)[0]).all()


@pytest.mark.parametrize("labels", [None, np.arange(12) % 3, np.ones((12, 2), np.int64)])
def test_a_map_is_a_png_with_or_without_labels(tmp_path: Path, labels: np.ndarray | None) -> None:
    draw_map(tmp_path / "map.png", result(labels))
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingError, match=r"needs matplotlib.*fossil-gnn\[plot\]"):
        draw_map(tmp_path / "map.png", result(None))
    assert not list(tmp_path.iterdir())


def named(names: Sequence[str], graph_name: str = "town") -> FitResult:
    """A result with a class of each name."""
    nodes = max(len(names), 12)
    made = result(np.arange(nodes) % len(names), nodes=nodes)
    return replace(made, graph=replace(made.graph, name=graph_name, label_names=tuple(names)))


def drawn(path: Path, run: FitResult, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Draw a map and return its axes."""
    figures = []
    original = fossil.report.map.new_figure
    monkeypatch.setattr(fossil.report.map, "new_figure", lambda: figures.append(original()) or figures[-1])
    draw_map(path, run)
    [axes, *_] = figures[-1].axes
    return axes


ODD = {
    "$\\badmacro$": "$\\badmacro$",
    "_hidden": "_hidden",
    "$a$ and $b": "$a$ and $b",
    "100 % & <b>": "100 % & <b>",
    "\x1b[31m\n\u202e": "\\x1b[31m\\n\\u202e",
    "東京": "\\u6771\\u4eac",  # which the font has not
    "Zoë": "Zoë",
    "x" * 300: "x" * 20 + "…" + "x" * 19,
    "": "(empty)",
    " ": "(empty)",
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_every_name_is_drawn_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    axes = drawn(tmp_path / f"map{suffix}", named(list(ODD), "$\\bad$_town\x07"), monkeypatch)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(ODD.values())
    assert axes.get_title().startswith("$\\bad$_town\\x07: 12 nodes")
    if suffix == ".svg":
        ElementTree.parse(tmp_path / "map.svg")


@pytest.mark.parametrize("count", [2, 10, 11, 20, 300])
def test_no_two_classes_have_the_same_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    axes = drawn(tmp_path / "map.png", named([f"class {number}" for number in range(count)]), monkeypatch)
    colours = np.concatenate([points.get_facecolors() for points in axes.collections])
    assert len(np.unique(colours, axis=0)) >= min(count, 250)  # of 300 shades, a few are the same in eight bits
    legend = axes.get_legend()
    if count <= 20:
        assert len(legend.get_texts()) == count
    else:
        assert legend is None and "300 classes, too many" in axes.get_xlabel()


def test_unknown_labels_have_an_entry_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = named(["_a", "_b"])
    labels = made.graph.labels.copy()
    labels[:3] = -1
    axes = drawn(tmp_path / "map.png", replace(made, graph=replace(made.graph, labels=labels)), monkeypatch)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["unknown", "_a", "_b"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("vectors", [np.zeros((30, 4)), np.ones((30, 4)), np.outer(np.arange(1, 31), [1, -2, 3, 0.1])])
@pytest.mark.parametrize("umap", [False, True])
def test_vectors_of_one_direction_have_one_place(
    vectors: np.ndarray, umap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """t-SNE ends the process on them."""
    monkeypatch.setattr(fossil.report.layout, "_has_umap", lambda: umap)
    positions, found = flatten(vectors.astype(np.float32))
    assert (positions == np.zeros((30, 2))).all() and found == "the one direction that all vectors have"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_directions_are_told_apart_at_any_length(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fossil.report.layout, "_has_umap", lambda: False)
    vectors, kind = clusters(10)
    positions, _ = flatten((vectors * scale).astype(np.float32))
    assert KNeighborsClassifier(n_neighbors=5).fit(positions, kind).score(positions, kind) > 0.95


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"Use one of \.png"):
        draw_map(tmp_path / "map.txt", result(None))
