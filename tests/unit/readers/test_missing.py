"""Empty cells, filled as scikit-learn fills them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import StandardScaler

from fossil.errors import GraphError
from fossil.graph.findings import Missing
from fossil.readers.cells import NodeTable
from fossil.readers.encoding import EncodingPlan
from fossil.readers.planning import ColumnChoices, encode_table, plan_columns

VALUES = np.random.default_rng(0).integers(0, 6, (40, 3)).astype(float)
GAPPY = np.where(np.random.default_rng(1).random(VALUES.shape) < 0.3, np.nan, VALUES)
GAPPY[:, 2] = VALUES[:, 2]
STRATEGY: dict[str, dict[str, Any]] = {
    "mean": {"strategy": "mean"},
    "median": {"strategy": "median"},
    "most_frequent": {"strategy": "most_frequent"},
    "zero": {"strategy": "constant", "fill_value": 0},
}


def table(**columns: Any) -> NodeTable:
    length = len(next(iter(columns.values())))
    return NodeTable("nodes.csv", np.asarray([f"n{i}" for i in range(length)]), columns, "id", range(2, length + 2))


def gappy_table() -> NodeTable:
    texts = [["" if np.isnan(value) else str(value) for value in column] for column in GAPPY.T]
    return table(a=texts[0], b=GAPPY[:, 1], c=texts[2])


@pytest.mark.parametrize("indicator", [False, True])
@pytest.mark.parametrize("missing", STRATEGY)
def test_numbers_are_filled_as_scikit_learn_fills_them(missing: Missing, indicator: bool) -> None:
    encoded = encode_table(gappy_table(), ColumnChoices(missing=missing, missing_indicator=indicator))
    filled = StandardScaler().fit_transform(SimpleImputer(**STRATEGY[missing]).fit_transform(GAPPY))
    names = {"a": filled[:, 0], "b": filled[:, 1], "c": filled[:, 2]}
    if indicator:
        told = MissingIndicator().fit_transform(GAPPY)
        names |= {"a_is_missing": told[:, 0], "b_is_missing": told[:, 1]}
    assert set(encoded.feature_names) == set(names)
    for place, name in enumerate(encoded.feature_names):
        np.testing.assert_allclose(encoded.features[:, place], names[name], rtol=1e-5, atol=1e-6, err_msg=name)
    counts = np.isnan(GAPPY).sum(axis=0)
    noted = {f.kind: f.count for f in encoded.findings if f.kind.startswith("empty cells")}
    assert noted == {"empty cells in column 'a'": counts[0], "empty cells in column 'b'": counts[1]}


@pytest.mark.parametrize("missing", STRATEGY)
def test_new_nodes_are_filled_with_what_the_old_ones_said(missing: Missing) -> None:
    plan = plan_columns(gappy_table(), ColumnChoices(missing=missing, missing_indicator=True))
    again = EncodingPlan.from_json(json.loads(json.dumps(plan.to_json(), allow_nan=False)))
    new = table(a=["", "3"], b=["2", None], c=["", "1"])  # a gap in c is new, and has no column that tells it
    features, names, _ = again.encode(new)
    imputer = SimpleImputer(**STRATEGY[missing]).fit(GAPPY)
    scaler = StandardScaler().fit(imputer.transform(GAPPY))
    told = names.index("a_is_missing")
    assert features[:, told].tolist() == [1, 0] and "c_is_missing" not in names
    row = scaler.transform(imputer.transform([[np.nan, 2, np.nan], [3, np.nan, 1]]))
    np.testing.assert_allclose(features[:, [names.index(name) for name in "abc"]], row, rtol=1e-5, atol=1e-6)


def test_a_plan_made_without_a_choice_refuses_new_gaps() -> None:
    plan = plan_columns(table(a=["1", "2"]))
    with pytest.raises(
        GraphError, match=r"column 'a' in nodes.csv is empty \(line 3\).*treatment={'missing': 'median'}"
    ):
        plan.encode(table(a=["1", ""]))


def test_truth_values_and_categories() -> None:
    nodes = table(flag=["true", "", "true", "false"], kind=["x", "x", "", "y"])
    features, names, _ = plan_columns(nodes, ColumnChoices(missing="most_frequent", missing_indicator=True)).encode(
        nodes
    )
    assert names == ("flag", "flag_is_missing", "kind=x", "kind=y", "kind_is_missing")
    assert features.tolist() == [[1, 0, 1, 0, 0], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1], [0, 0, 0, 1, 0]]
    features, _, findings = plan_columns(nodes, ColumnChoices(missing="mean")).encode(nodes)
    assert features[1, 0] == pytest.approx(2 / 3) and features[2, 1:].tolist() == [0, 0]  # categories have no mean
    assert [(f.done, f.examples) for f in findings] == [("filled with 0.6667", ("n1",)), ("encoded as zeros", ("n2",))]


def test_one_column_can_be_filled_otherwise() -> None:
    nodes = table(age=["20", "", "40"], children=["1", "", "3"], note=["", "", ""])
    choices = ColumnChoices(roles={"children": "numeric:zero"}, missing="mean", scale="none")
    assert plan_columns(nodes, choices).encode(nodes)[0].tolist() == [[20, 1], [30, 0], [40, 3]]
    with pytest.raises(GraphError, match=r"'age' has the unknown choice 'avg' for empty cells"):
        ColumnChoices(roles={"age": "numeric:avg"})
    with pytest.raises(GraphError, match=r"'note' of nodes.csv is empty, so that there is no median"):
        plan_columns(nodes, ColumnChoices(roles={"note": "numeric"}, missing="median"))


def test_what_cannot_be_read_is_not_empty() -> None:
    nodes = table(age=["20", "", "old", "30", "inf", "40"])
    with pytest.raises(GraphError, match=r"2 cells of .* no finite number: 'old' and 'inf' \(lines 4 and 6\)"):
        plan_columns(nodes, ColumnChoices(missing="median"))


def test_every_trouble_of_a_table_is_in_one_message() -> None:
    nodes = table(age=["20", "", "old", "21"], when=["2021-01-01", "2021", "", ""], vector=[[1], [2], [3], [4]])
    with pytest.raises(GraphError) as caught:
        plan_columns(nodes, ColumnChoices(roles={"agee": "drop", "wehn": "drop"}, label="clas"))
    lines = caught.value.what.splitlines()
    assert lines[0] == "nodes.csv has 7 problems:"
    parts = ("'agee'", "'wehn'", "'clas'", "'old' (line 4)", "'age' in nodes.csv is empty (line 3)", "'when'", "lists")
    assert len(lines) == 8 and all(any(part in line for line in lines) for part in parts)


def test_few_whole_numbers_may_be_codes_and_are_categories_where_that_is_said() -> None:
    random = np.random.default_rng(0)
    nodes = table(
        grade=[str(value) for value in random.integers(1, 5, 60)],
        price=random.integers(0, 10_000, 60),
        flag=random.integers(0, 2, 60),
        share=random.integers(1, 5, 60) / 2,
    )
    encoded = encode_table(nodes)
    hints = [f for f in encoded.findings if f.kind == "columns of few whole numbers"]
    assert [(f.count, f.examples) for f in hints] == [(1, ("grade",))]
    assert "--column NAME=categorical" in hints[0].done
    assert encode_table(nodes, ColumnChoices(plan=encoded.plan)).findings == ()
    said = encode_table(nodes, ColumnChoices(roles={"grade": "categorical"}))
    assert said.findings == () and said.feature_names[:4] == ("grade=1", "grade=2", "grade=3", "grade=4")
    assert encode_table(nodes, ColumnChoices(roles={"grade": "numeric"})).findings == ()


@pytest.mark.parametrize("role", ["drop", "label", "id"])
def test_what_is_never_filled_takes_no_choice_of_filling(role: str) -> None:
    with pytest.raises(GraphError, match=f"Column 'a' is declared '{role}', of which no empty cell is filled"):
        ColumnChoices(roles={"a": f"{role}:median"})
