"""What notebooks show: the right facts, a small map, nothing computed for long, and nothing of the user's obeyed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from ring_graph import fit_ring, ring
from sklearn.decomposition import PCA

import fossil
from fossil.runs import notebook
from fossil.runs.embeddings import Embeddings
from fossil.runs.run import Run

TAGS = {"div", "strong", "table", "tr", "th", "td", "figure", "svg", "path", "figcaption", "span"}
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</td></table><h1>out",
    "\u202egnp.exe",
    "&lt;b&gt;",
    "a\x1b[2Jb",
    "x" * 1_000_000,
]


class Page(HTMLParser):
    """Collects the tags, their attributes and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = list[str](), list[tuple[str, str | None]](), ""
        self.open = list[str]()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def looked_at(html: str) -> Page:
    page = Page(html)
    assert set(page.tags) <= TAGS and page.open == []
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src")]
    return page


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda text: text[:20])
def test_no_text_of_the_user_breaks_out(hostile: str, tmp_path: Path) -> None:
    base = ring().graph
    graph = replace(base, name=hostile, label_names=(hostile, "plain"))
    result = replace(fit_ring(), graph=graph)
    result = replace(result, config=replace(result.config, graph=hostile))
    html = result._repr_html_()
    page = looked_at(html)
    assert "plain" in page.text and len(html) < 20_000
    assert not {"\u202e", "\x1b"} & set(page.text)
    if len(hostile) < 40 and hostile.isprintable():
        assert hostile in page.text


def test_a_fit_shows_counts_and_the_settings_that_were_changed() -> None:
    page = looked_at(fit_ring()._repr_html_())
    assert "fossil on ring" in page.text and "subgraph_size=3" in page.text and "alpha" not in page.text
    for name, value in {"nodes": "20", "directed edges": "40", "classes": "2", "width": "4", "seed": "0"}.items():
        assert f"{name}{value}" in page.text
    assert "not scored yet" in page.text


def test_a_run_shows_the_scores_it_has_and_computes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit_ring(out=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert "not scored yet" in looked_at(run._repr_html_()).text
    scores = {"scores": [{"accuracy": 0.5}, {"accuracy": 0.75}]}
    (tmp_path / "run" / "scores-paper.json").write_text(json.dumps(scores))
    (tmp_path / "run" / "scores-other.json").write_text("[")
    text = looked_at(run._repr_html_()).text
    assert "accuracy (paper)62.50 %, mean of 2 splits" in text and "other)" not in text


def test_an_unfinished_and_a_damaged_run_say_so(tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "run")
    (tmp_path / "run" / "graph.npz").write_bytes(b"no graph")
    assert "not the file that this run wrote" in looked_at(Run.open(tmp_path / "run")._repr_html_()).text
    (tmp_path / "run" / "summary.json").unlink()
    page = looked_at(Run.open(tmp_path / "run")._repr_html_())
    assert "not finished" in page.text and "svg" not in page.tags


def test_the_vectors_of_a_large_run_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit_ring(out=tmp_path / "run")
    (tmp_path / "run" / "embeddings.npz").unlink()
    monkeypatch.setattr(notebook, "_MOST_NODES_READ", 19)
    page = looked_at(Run.open(tmp_path / "run")._repr_html_())
    assert "not above 19 nodes" in page.text and "svg" not in page.tags


def dots(html: str) -> np.ndarray:
    return np.array(re.findall(r"M(-?\d+) (-?\d+)h0", html), dtype=float)


@pytest.mark.parametrize("shape", [(60, 5), (60, 200)], ids=["long", "wide"])
def test_the_map_has_the_principal_components(shape: tuple[int, int]) -> None:
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32) * np.linspace(3, 0.1, shape[1])
    found = Embeddings(np.arange(len(vectors)), vectors.astype(np.float32), None)
    shown = dots(found._repr_html_())
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = PCA(2).fit_transform(unit)
    expected -= expected.min(axis=0)
    expected *= 1000 / expected.max()
    for axis in range(2):  # the sign of a component is nobody's
        mirrored = expected[:, axis].max() - expected[:, axis]
        best = min(np.abs(shown[:, axis] - each).max() for each in (expected[:, axis], mirrored))
        assert best <= 1


def test_the_map_of_many_nodes_is_a_sample_of_a_thousand() -> None:
    found = Embeddings(np.arange(5000), np.random.default_rng(0).normal(size=(5000, 8)).astype(np.float32), None)
    html = found._repr_html_()
    assert len(dots(html)) == 1000 and "1,000 of 5,000 nodes" in html and len(html) < 25_000


def test_many_classes_are_drawn_the_largest_first() -> None:
    base = ring().graph
    labels = np.array([0, 0, 0, *range(1, 17), -1])
    result = replace(fit_ring(), graph=base.with_labels(labels, [f"class {i}" for i in range(17)]))
    page = looked_at(result._repr_html_())
    assert len(dots(result._repr_html_())) == 20
    assert "class 0" in page.text and "others or unknown" in page.text and "class 16" not in page.text


@pytest.mark.parametrize(("nodes", "width"), [(0, 4), (1, 4), (2, 2), (5, 1)])
def test_too_little_for_a_map_is_shown_without_one(nodes: int, width: int) -> None:
    page = looked_at(Embeddings(np.arange(nodes), np.ones((nodes, width), np.float32), None)._repr_html_())
    assert "svg" not in page.tags and f"nodes{nodes}" in page.text


def test_equal_vectors_and_zero_vectors_lie_on_one_point() -> None:
    for value in (0.0, 1.0):
        html = Embeddings(np.arange(4), np.full((4, 3), value, np.float32), None)._repr_html_()
        assert len(np.unique(dots(html), axis=0)) == 1


def test_new_nodes_are_shown_too(tmp_path: Path) -> None:
    fit_ring(out=tmp_path / "run")
    found = fossil.load(tmp_path / "run").embed(ring().graph)
    assert "NewEmbeddings" in looked_at(found._repr_html_()).text
