from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from fossil.errors import GraphError
from fossil.readers.base import Request
from fossil.readers.graphml import GraphMLFile


def test_graphml_attributes_become_columns(tmp_path: Path) -> None:
    source = nx.Graph()
    source.add_node("a", age=1, kind="x")
    source.add_node("b", age=3, kind="y")
    source.add_edge("a", "b", weight=2.0)
    nx.write_graphml(source, tmp_path / "g.graphml")
    raw, plan = GraphMLFile.read(tmp_path / "g.graphml", Request())
    assert plan is not None and raw.name == "g"
    assert raw.feature_names == ("age", "kind=x", "kind=y") == plan.feature_names
    np.testing.assert_array_equal(raw.features, [[-1, 1, 0], [1, 0, 1]])
    assert sorted(zip(raw.source.tolist(), raw.target.tolist(), strict=True)) == [(0, 1), (1, 0)]
    assert raw.findings[-1].examples == ("weight",)


@pytest.mark.parametrize("content", ["", "<graphml>", "<html></html>", "plain text"])
def test_other_text_is_not_graphml(tmp_path: Path, content: str) -> None:
    (tmp_path / "g.graphml").write_text(content)
    with pytest.raises(GraphError, match="not GraphML"):
        GraphMLFile.read(tmp_path / "g.graphml", Request())


def test_an_encoding_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.graphml").write_text("<?xml version='1.0' encoding='utf-88'?><graphml/>")
    with pytest.raises(GraphError, match="not GraphML"):
        GraphMLFile.read(tmp_path / "g.graphml", Request())
