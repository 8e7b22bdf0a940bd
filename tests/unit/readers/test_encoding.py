from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fossil.errors import GraphError
from fossil.readers.cells import NodeTable, is_gap
from fossil.readers.encoding import EncodingPlan
from fossil.readers.planning import ColumnChoices, encode_table, plan_columns


def table(**columns: object) -> NodeTable:
    length = len(next(iter(columns.values())))  # type: ignore[call-overload]
    return NodeTable("nodes.csv", np.asarray([f"n{i}" for i in range(length)]), columns, "id")  # type: ignore[arg-type]


def test_numeric_columns_agree_with_scikit_learn() -> None:
    values = np.random.default_rng(0).normal(5.0, 3.0, (30, 3))
    nodes = table(a=values[:, 0], b=[repr(v) for v in values[:, 1].tolist()], c=values[:, 2].tolist())
    features, names, findings = plan_columns(nodes).encode(nodes)
    np.testing.assert_allclose(features, StandardScaler().fit_transform(values), rtol=1e-5, atol=1e-6)
    assert names == ("a", "b", "c") and findings == ()
    assert isinstance(features, np.ndarray) and features.dtype == np.float32


def test_categories_agree_with_scikit_learn() -> None:
    cells = ["red", "blue", "red", "green"]
    nodes = table(colour=cells)
    features, names, _ = plan_columns(nodes).encode(nodes)
    np.testing.assert_array_equal(features, OneHotEncoder().fit_transform(np.array(cells)[:, None]).toarray())
    assert names == ("colour=blue", "colour=green", "colour=red")


@pytest.mark.parametrize("cells", [["True", "false", "TRUE"], [True, False, True], np.array([True, False, True])])
def test_truth_values_become_zero_and_one(cells: object) -> None:
    nodes = table(b=cells)
    plan = plan_columns(nodes)
    assert plan.columns[1].role == "boolean"
    np.testing.assert_array_equal(plan.encode(nodes)[0], [[1], [0], [1]])


def test_constant_column_becomes_zeros_and_is_reported() -> None:
    nodes = table(a=["3", "3", "3"], b=["1", "2", "3"])
    features, _, findings = plan_columns(nodes).encode(nodes)
    np.testing.assert_array_equal(features[:, 0], 0)
    assert [(f.kind, f.count, f.examples) for f in findings] == [("constant columns", 1, ("a",))]


def test_very_large_numbers_are_standardised_without_overflow() -> None:
    nodes = table(a=[1e300, 2e300, 3e300])
    np.testing.assert_allclose(plan_columns(nodes).encode(nodes)[0][:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)], rtol=1e-6)


@pytest.mark.parametrize(
    "cells",
    [
        ["0,5", "1,25", "-3,0"],
        ["1,234.5", "1,234,567", "12"],
        ["3 %", "12.5%", "0%"],
        ["1.234,50", "12.345,00", "-1.000,5"],
        ["1 234", "12\u00a0345,5", "1\u202f234\u202f567"],
        ["1'234.5", "12'345", "1’000"],
        ["$1,200", "$900.50", "$ 3"],
        ["5,50 €", "12 €", "3.000€"],
    ],
)
def test_numbers_in_another_spelling_are_no_categories_unless_somebody_says_so(cells: list[str]) -> None:
    with pytest.raises(GraphError, match=r"'x' of .* holds numbers with a comma, gaps .* not read as numbers.*1234\.5"):
        plan_columns(table(x=cells))
    declared = plan_columns(table(x=cells), ColumnChoices(roles={"x": "categorical"}))
    assert declared.columns[-1].categories == tuple(sorted(cells))


@pytest.mark.parametrize(
    "cells",
    [
        ["1.2.3", "1.3.0", "2.0.0"],
        ["06 12 34", "01 44 55"],
        ["1.234", *["low"] * 4, "5.678"],
        ["10-20", "20-30", "30+"],
        ["1,2", "a", "b", "c"],
    ],
)
def test_what_only_looks_a_little_like_numbers_is_a_category(cells: list[str]) -> None:
    assert plan_columns(table(x=cells)).columns[-1].role == "categorical"


def test_free_text_is_refused_with_remedies() -> None:
    nodes = table(bio=[f"I am number {i} " * 9 for i in range(51)])
    with pytest.raises(GraphError, match=r"'bio'.*51 distinct.*I am number 0") as caught:
        plan_columns(nodes)
    assert "--column bio=drop" in caught.value.remedy and "--column bio=categorical" in caught.value.remedy
    assert "sentence embeddings" in caught.value.remedy
    assert len(plan_columns(nodes, ColumnChoices(roles={"bio": "categorical"})).feature_names) == 51
    assert plan_columns(nodes, ColumnChoices(roles={"bio": "drop"})).feature_names == ()


@pytest.mark.parametrize("cell", ["unknown", "inf", "1,5"])
def test_bad_cell_in_numeric_column_is_named(cell: str) -> None:
    with pytest.raises(GraphError, match=rf"1 cell of column 'age'.* no finite number: '{cell}' \(node 'n1'\)"):
        plan_columns(table(age=["1", cell, "3", "4"]))


@pytest.mark.parametrize("cell", ["", " ", "nan", "NA", "N/A", "null", "<NA>", None, float("nan")])
def test_an_empty_cell_is_named_whatever_stands_for_it(cell: object) -> None:
    with pytest.raises(GraphError, match=r"1 cell of column 'age' in nodes.csv is empty \(node 'n1'\)") as caught:
        plan_columns(table(age=["1", cell, "3", "4"]))
    assert "--missing median" in caught.value.remedy and "--column age=drop" in caught.value.remedy


@pytest.mark.parametrize(
    ("cells", "role"),
    [
        (["1.5", "NA", "NA", "2"], "numeric"),
        (["2021-03-04", "NULL", "NULL", "NULL"], "date"),
        (["TRUE", "NA", "FALSE", "NA"], "boolean"),
        (["red", "NA", "NA", "NA"], "categorical"),
        (["NA", "n/a", "", "NA"], "drop"),
    ],
)
def test_cells_that_stand_for_nothing_do_not_settle_what_a_column_is(cells: list[str], role: str) -> None:
    plan = plan_columns(table(x=cells), ColumnChoices(missing="most_frequent"))
    assert [column.role for column in plan.columns if column.name == "x"] == [role]


def test_what_pandas_takes_for_empty_is_empty() -> None:
    from pandas._libs.parsers import STR_NA_VALUES

    numbers = {"-1.#IND", "1.#QNAN", "1.#IND", "-1.#QNAN", "#N/A N/A"}  # of old versions of Windows and Excel
    assert all(is_gap(text) for text in STR_NA_VALUES - numbers)


def test_nan_in_a_float_array_is_named() -> None:
    with pytest.raises(GraphError, match=r"'age' in nodes.csv is empty \(node 'n0'\)"):
        plan_columns(table(age=np.array([np.nan, 1.0])))


def test_declared_boolean_refuses_other_words() -> None:
    with pytest.raises(GraphError, match=r"'b' in nodes.csv is neither true nor false: 'perhaps' \(node 'n1'\)"):
        nodes = table(b=["yes", "perhaps"])
        plan_columns(nodes, ColumnChoices(roles={"b": "boolean"})).encode(nodes)


def test_lists_in_cells_are_refused() -> None:
    with pytest.raises(GraphError, match="holds lists"):
        plan_columns(table(vector=[[1, 2], [3, 4]]))


def test_plan_survives_json_and_encodes_alike() -> None:
    nodes = table(a=["1", "2", "4"], kind=["x", "y", "x"], flag=["true", "false", "true"], label=["p", "q", "p"])
    plan = plan_columns(nodes)
    again = EncodingPlan.from_json(json.loads(json.dumps(plan.to_json(), allow_nan=False)))
    assert again == plan
    np.testing.assert_array_equal(again.encode(nodes)[0], plan.encode(nodes)[0])


@pytest.mark.parametrize("value", [{}, {"columns": [{"role": "numeric"}], "sparse": False, "structural": []}, []])
def test_other_json_is_no_plan(value: object) -> None:
    with pytest.raises(GraphError, match="not an encoding plan"):
        EncodingPlan.from_json(value)  # type: ignore[arg-type]


COLUMN = {"name": "a", "role": "numeric", "categories": []}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 5}, {"name": None}, {"role": ["numeric"]}, {"role": "number"}, {"mean": "0"}, {"mean": None},
        {"scale": float("inf")}, {"mean": float("nan")}, {"categories": "abc"}, {"categories": [1]}, {"categories": {}},
        {"note": 3}, {"fill": []}, {"indicator": "yes"}, {"start": {}}, {"day_first": 1}, {"unheard": 1},
    ],
    ids=repr,
)  # fmt: skip
def test_a_plan_with_a_value_of_another_kind_is_refused(wrong: dict[str, object]) -> None:
    good = {"columns": [COLUMN], "sparse": False, "structural": []}
    assert EncodingPlan.from_json(good).feature_names == ("a",)
    with pytest.raises(GraphError, match="not an encoding plan"):
        EncodingPlan.from_json(good | {"columns": [COLUMN | wrong]})
    with pytest.raises(GraphError, match="not an encoding plan"):
        EncodingPlan.from_json(good | {"structural": [COLUMN | wrong]})


@pytest.mark.parametrize("value", [None, 5, "plan", {"columns": 5, "sparse": 0, "structural": []}, {"columns": [[]]}])
def test_a_plan_of_another_kind_is_refused(value: object) -> None:
    with pytest.raises(GraphError, match="not an encoding plan"):
        EncodingPlan.from_json(value)  # type: ignore[arg-type]


def test_new_data_is_encoded_with_the_old_statistics() -> None:
    plan = plan_columns(table(a=["0", "2"], kind=["x", "y"]))
    new = table(kind=["y", "z", ""], a=["4", "1", "0"], extra=["?", "?", "?"])
    features, _, findings = plan.encode(new)
    np.testing.assert_array_equal(features, [[3, 0, 1], [0, 0, 0], [-1, 0, 0]])
    assert {(f.kind, f.count, f.done) for f in findings} == {
        ("columns unknown to the plan", 1, "ignored"),
        ("unknown categories in column 'kind'", 1, "encoded as zeros"),
        ("empty cells in column 'kind'", 1, "encoded as zeros"),
    }


def test_missing_column_is_named() -> None:
    plan = plan_columns(table(age=["0", "2"]))
    with pytest.raises(GraphError, match="no column 'age'"):
        plan.encode(table(ages=["1"]))


def test_word_counts_stay_sparse_and_unscaled() -> None:
    words = sp.random_array((40, 60), density=0.05, rng=np.random.default_rng(1)).toarray().round(3)
    nodes = table(**{f"w{i}": words[:, i] for i in range(60)})
    features = plan_columns(nodes).encode(nodes)[0]
    assert sp.issparse(features) and features.dtype == np.float32
    np.testing.assert_allclose(features.toarray(), words, rtol=1e-6)
    scaled = plan_columns(nodes, ColumnChoices(scale="standard")).encode(nodes)[0]
    assert isinstance(scaled, np.ndarray)
    np.testing.assert_allclose(scaled, StandardScaler().fit_transform(words), atol=1e-5)


def test_many_categories_are_stored_sparse() -> None:
    nodes = table(kind=[f"k{i}" for i in range(60)])
    features = plan_columns(nodes, ColumnChoices(roles={"kind": "categorical"})).encode(nodes)[0]
    assert sp.issparse(features) and features.nnz == 60 and features.shape == (60, 60)


def test_roles_and_labels() -> None:
    nodes = table(Y=["1", "2", "1"], zip=["01", "02", "01"], empty=["", "", ""])
    encoded = encode_table(nodes, ColumnChoices(roles={"zip": "categorical"}))
    assert encoded.label_names == ("1", "2") and encoded.labels is not None
    np.testing.assert_array_equal(encoded.labels, [0, 1, 0])
    assert encoded.feature_names == ("zip=01", "zip=02")
    assert [(f.kind, f.examples) for f in encoded.findings] == [("empty columns", ("empty",))]
    chosen = ColumnChoices(label="zip", roles={"Y": "numeric"})
    assert encode_table(nodes, chosen).label_names == ("01", "02")
    assert encode_table(nodes, ColumnChoices(roles={"Y": "numeric"})).labels is None


@pytest.mark.parametrize("choices", [ColumnChoices(label="kind"), ColumnChoices(roles={"kind": "label"})])
def test_a_column_called_like_a_label_is_no_feature_unless_somebody_says_so(choices: ColumnChoices) -> None:
    nodes = table(x=["1", "2", "3"], Target=["4", "5", "6"], kind=["p", "q", "p"])
    assert encode_table(nodes).plan.label_column == "Target"
    with pytest.raises(GraphError, match=r"'Target' of nodes\.csv is called like a label, and the label is 'kind'"):
        encode_table(nodes, choices)
    said = replace(choices, roles={**choices.roles, "Target": "numeric"})
    assert encode_table(nodes, said).feature_names == ("x", "Target")


def test_of_two_columns_called_like_labels_none_becomes_a_feature() -> None:
    with pytest.raises(GraphError, match=r"'class' of nodes\.csv is called like a label, and the label is 'label'"):
        plan_columns(table(x=["1", "2"], label=["0", "1"], **{"class": ["cat", "dog"]}))


def test_unknown_roles_and_columns_are_named() -> None:
    nodes = table(age=["1", "2"])
    with pytest.raises(GraphError, match=r"'age' has unknown role 'number'.*numeric"):
        plan_columns(nodes, ColumnChoices(roles={"age": "number"}))
    with pytest.raises(GraphError, match=r"no column 'agee'.*'age'"):
        plan_columns(nodes, ColumnChoices(roles={"agee": "numeric"}))
    with pytest.raises(GraphError, match=r"no column 'target'"):
        encode_table(nodes, ColumnChoices(label="target"))
    with pytest.raises(GraphError, match="saved plan"):
        ColumnChoices(roles={"age": "drop"}, plan=plan_columns(nodes))


def test_describe_gives_one_row_a_column() -> None:
    nodes = table(age=["1", "3"], debt=["-1", "-3"], kind=["x", "y"], note=["a", "b"], label=["p", "q"])
    assert plan_columns(nodes, ColumnChoices(roles={"note": "drop"})).describe() == [
        ("id", "id", "node id", 0),
        ("age", "numeric", "(x - 2) / 1", 1),
        ("debt", "numeric", "(x + 2) / 1", 1),
        ("kind", "categorical", "one-hot", 2),
        ("note", "drop", "left out", 0),
        ("label", "label", "class", 0),
    ]
