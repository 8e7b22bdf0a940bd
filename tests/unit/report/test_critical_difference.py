"""The picture of mean ranks says everything that is needed to read it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from fossil.evaluation.comparison import Ranks, mean_ranks
from fossil.report.critical_difference import critical_difference

matplotlib = pytest.importorskip("matplotlib")


def drawn_text(path: Path, ranks: Ranks) -> str:
    """All text of the picture as an SVG file; its comments have the letters of what is drawn as paths."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        critical_difference(ranks, notes=[ranks.reading]).savefig(path)
    source = path.read_text(encoding="utf-8")
    ElementTree.fromstring(source)
    return source


@pytest.mark.parametrize("graphs", [7, 60])
def test_every_method_stands_in_it_and_few_graphs_are_warned_of(tmp_path: Path, graphs: int) -> None:
    scores = {f"method-{i}": {f"g{j}": (i * (j + 3)) % 5 + i for j in range(graphs)} for i in range(5)}
    ranks = mean_ranks(scores)
    drawn = drawn_text(tmp_path / "ranks.svg", ranks)
    for name, rank in ranks.mean.items():
        assert f"{name}  {rank:.2f}" in drawn
    assert f"critical difference {ranks.critical_difference:.2f}" in drawn
    assert f"over {graphs} graphs" in drawn
    assert ("too few graphs" in drawn.replace("\n", " ")) == (graphs == 7)


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    scores = {name: {"g": place, "h": place} for place, name in enumerate(["$\\badmacro$", "\x1b[31m", "plain"])}
    drawn = drawn_text(tmp_path / "ranks.svg", mean_ranks(scores))
    assert "$\\badmacro$  3.00" in drawn and "\\x1b[31m  2.00" in drawn


@pytest.mark.parametrize(
    ("methods", "name"), [(2, "M"), (15, "Propagated features"), (20, "a name of forty signs, which is the most")]
)
def test_no_names_overlap_and_none_leaves_the_picture(methods: int, name: str) -> None:
    # Every second method equals the one before it, so that their ranks are equal too.
    scores = {f"{name} {i}": {f"g{j}": float(i // 2 + (7 * j) % 3) for j in range(7)} for i in range(methods)}
    ranks = mean_ranks(scores)
    figure = critical_difference(ranks, "Mean ranks", [ranks.reading, "Not ranked: nobody."])
    figure.canvas.draw()
    [axes] = figure.axes
    around = [figure._suptitle, figure._supxlabel, axes._left_title]
    texts = [one for one in (*axes.texts, *around) if one.get_text()]
    assert len(texts) >= methods + 4
    boxes = [one.get_window_extent() for one in texts]
    for number, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, texts[number].get_text()
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, texts[number].get_text()
        for other, beside in enumerate(boxes[:number]):
            assert not box.overlaps(beside), (texts[number].get_text(), texts[other].get_text())
