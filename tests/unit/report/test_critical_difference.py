"""The picture of mean ranks says everything that is needed to read it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from fossil.errors import SettingError
from fossil.evaluation.comparison import mean_ranks
from fossil.report.critical_difference import draw_critical_difference

matplotlib = pytest.importorskip("matplotlib")


def texts(path: Path) -> str:
    """All text of an SVG file; its comments have the letters of what is drawn as paths."""
    source = path.read_text(encoding="utf-8")
    ElementTree.fromstring(source)
    return source


@pytest.mark.parametrize("graphs", [7, 60])
def test_every_method_stands_in_it_and_few_graphs_are_warned_of(tmp_path: Path, graphs: int) -> None:
    scores = {f"method-{i}": {f"g{j}": (i * (j + 3)) % 5 + i for j in range(graphs)} for i in range(5)}
    ranks = mean_ranks(scores)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_critical_difference(tmp_path / "ranks.svg", ranks)
    drawn = texts(tmp_path / "ranks.svg")
    for name, rank in ranks.mean.items():
        assert f"{name}  {rank:.2f}" in drawn
    assert f"critical difference {ranks.critical_difference:.2f}" in drawn
    assert f"over {graphs} graphs" in drawn
    assert ("too few graphs" in drawn.replace("\n", " ")) == (graphs == 7)


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    scores = {name: {"g": place, "h": place} for place, name in enumerate(["$\\badmacro$", "\x1b[31m", "plain"])}
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_critical_difference(tmp_path / "ranks.svg", mean_ranks(scores))
    drawn = texts(tmp_path / "ranks.svg")
    assert "$\\badmacro$  3.00" in drawn and "\\x1b[31m  2.00" in drawn


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    ranks = mean_ranks({"a": {"g": 1.0, "h": 1.0}, "b": {"g": 0.0, "h": 0.0}})
    with pytest.raises(SettingError, match=r"\.png"):
        draw_critical_difference(tmp_path / "ranks.txt", ranks)
