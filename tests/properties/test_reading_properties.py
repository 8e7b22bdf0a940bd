"""Whatever a file says, reading it gives a graph, or one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fossil.errors import FossilError, GraphError, SettingError
from fossil.methods.registry import get_method
from fossil.readers.encoding import EncodingPlan
from fossil.readers.read import read_graph
from fossil.settings import parse_assignments

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
COLUMN: dict[str, Any] = {"name": "age", "role": "numeric", "mean": 1.0, "scale": 2.0, "categories": [], "note": ""}
KINDS = st.sampled_from(["<f4", "<f8", "<i4", "<i8", "|b1", "<u1", "<U5", "<c8", "<M8[s]"])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
NAMES = (
    "edge_index",
    "x",
    "y",
    "ids",
    "edges",
    "adj_data",
    "adj_indices",
    "adj_indptr",
    "adj_shape",
    "class_names",
    "edge_weight",
)
CELLS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["1", "-2.5", "nan", "1e400", "2020-01-01", "true", '"', "\r", "a,b"]
)


@quick
@given(value=TREES)
def test_any_json_is_an_encoding_plan_or_is_refused(value: Any) -> None:
    with pytest.raises(GraphError) as caught:
        EncodingPlan.from_json(value)
    assert caught.value.remedy


@quick
@given(changes=st.dictionaries(st.sampled_from([*COLUMN, "unknown"]), TREES, min_size=1, max_size=2))
def test_any_column_is_planned_or_is_refused(changes: dict[str, Any]) -> None:
    text = json.dumps({"columns": [COLUMN | changes], "sparse": False, "structural": []})
    try:
        plan = EncodingPlan.from_json(json.loads(text))
    except GraphError as error:
        assert error.what and error.remedy
    else:
        assert isinstance(plan.feature_names, tuple) and plan.describe()


@quick
@given(text=st.text(max_size=40) | TREES.map(lambda tree: yaml.safe_dump(tree, allow_unicode=True)))
@example(text='!!int ""')
@example(text="&a [*a]")
@example(text="[" * 500)
@example(text="2024-99-99")
def test_any_setting_is_read_or_is_refused(text: str) -> None:
    try:
        get_method("fossil").configure(None, parse_assignments([f"alpha={text}"]))
    except SettingError as error:
        assert error.what


@quick
@given(data=st.data(), names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
def test_any_arrays_are_a_graph_or_are_refused(data: st.DataObject, names: list[str], tmp_path: Path) -> None:
    drawn = {
        name: data.draw(KINDS.flatmap(lambda kind: arrays.arrays(np.dtype(kind), SHAPES)), label=name) for name in names
    }
    np.savez(tmp_path / "graph.npz", **drawn)
    _read_or_refuse(tmp_path / "graph.npz")


@quick
@given(rows=st.lists(st.lists(CELLS, max_size=4), max_size=6), ties=st.lists(st.lists(CELLS, max_size=3), max_size=4))
def test_any_tables_are_a_graph_or_are_refused(rows: list[list[str]], ties: list[list[str]], tmp_path: Path) -> None:
    for name, table in (("nodes.csv", rows), ("edges.csv", ties)):
        (tmp_path / name).write_text("".join(",".join(row) + "\n" for row in table), encoding="utf-8", newline="")
    _read_or_refuse(tmp_path / "nodes.csv")


def _read_or_refuse(path: Path) -> None:
    try:
        graph = read_graph(path).graph
    except FossilError as error:
        assert error.what and error.remedy
    else:
        values = graph.features.data if graph.has_sparse_features else graph.features
        assert np.isfinite(values).all() and len(graph.ids) == graph.num_nodes >= 2
