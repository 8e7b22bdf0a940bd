from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import fossil
from fossil import FossilEmbedder, Graph
from fossil.datasets.synthetic import csbm
from fossil.errors import GraphError, SettingError
from fossil.methods.dgi import DGI

SMALL = {"hidden": 16, "width": 8, "subgraph_size": 4, "num_anchors": 10}
WIDTH = 5 * (8 + 12)  # trained and untrained rows of five channels
# After three epochs on sixty nodes λ may be anything.
pytestmark = pytest.mark.filterwarnings("ignore:FOSSIL hardly uses the edges")


def embedder(**changes: object) -> FossilEmbedder:
    return FossilEmbedder(**({"epochs": 3, "settings": SMALL, "device": "cpu"} | changes))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return csbm(nodes=60, features=12, seed=1)


def tables(shift: float, cities: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A ring of people whose ages are moved by `shift`."""
    count = 24
    nodes = pd.DataFrame(np.random.default_rng(0).normal(size=(count, 4)), columns=[*"wxyz"])
    nodes.insert(0, "id", range(count))
    nodes["age"] = np.arange(count) % 7 + shift
    nodes["city"] = [cities[i % len(cities)] for i in range(count)]
    ring = pd.DataFrame({"source": range(count), "target": [(i + 1) % count for i in range(count)]})
    return nodes, pd.concat([ring, ring.rename(columns={"source": "target", "target": "source"})])


def test_parameters_are_read_and_set_as_scikit_learn_does() -> None:
    model = embedder(random_state=5)
    assert model.get_params() == {
        "method": "fossil_channels",
        "preset": None,
        "epochs": 3,
        "settings": SMALL,
        "device": "cpu",
        "random_state": 5,
        "label": None,
        "roles": None,
        "treatment": None,
        "structural_features": False,
        "graph": None,
        **{f"settings__{name}": value for name, value in SMALL.items()},
    }
    assert model.set_params(epochs=9) is model and model.epochs == 9
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(epoch=9)


def test_a_seed_out_of_range_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SettingError, match="seed=-1 is not accepted"):
        embedder(random_state=-1).fit("no/such/file.csv")


def test_clone_is_equal_and_unfitted(graph: Graph) -> None:
    model = embedder().fit(graph)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(graph)


def test_fit_returns_itself_with_the_documented_attributes(graph: Graph) -> None:
    model = embedder()
    assert model.fit(graph, y=graph.labels) is model
    assert model.embedding_.shape == (60, WIDTH) and model.n_features_in_ == graph.num_features
    np.testing.assert_allclose(np.sum(list(model.channels_.values()), axis=0), 1, rtol=1e-5)
    fusion = embedder(method="fossil").fit(graph).fusion_
    assert ((fusion >= 0) & (fusion <= 1)).all()
    np.testing.assert_array_equal(model.ids_, graph.ids)
    assert [record["epoch"] for record in model.history_] == [1, 2, 3]


def test_fit_transform_is_the_fitted_embedding_and_labels_change_nothing(graph: Graph) -> None:
    np.testing.assert_array_equal(embedder().fit_transform(graph, graph.labels), embedder().fit(graph).embedding_)


def test_random_state_decides(graph: Graph) -> None:
    assert not np.array_equal(embedder().fit_transform(graph), embedder(random_state=1).fit_transform(graph))


def test_transform_of_the_same_graph_repeats_its_embedding(graph: Graph) -> None:
    model = embedder().fit(graph)
    np.testing.assert_allclose(model.transform(graph), model.embedding_, rtol=1e-5, atol=1e-6)


def test_transform_of_a_smaller_graph(graph: Graph) -> None:
    other = csbm(nodes=40, features=12, seed=2)
    assert embedder().fit(graph).transform(other).shape == (40, WIDTH)


def test_transform_refuses_other_features(graph: Graph) -> None:
    other = (graph.adjacency, np.ones((60, 3), np.float32))
    with pytest.raises(GraphError, match="3 features, the embedder 12"):
        embedder().fit(graph).transform(other)


def test_columns_of_a_new_table_are_encoded_like_those_of_the_old() -> None:
    model = embedder().fit(tables(shift=0, cities="ab"))
    assert model.plan_ is not None
    # A column that is standardised anew would hide the shift, and one city in place of two would change the width.
    moved = model.transform(tables(shift=10, cities="a"))
    unmoved = model.transform(tables(shift=0, cities="ab"))
    np.testing.assert_allclose(unmoved, model.embedding_, rtol=1e-5, atol=1e-6)
    assert np.abs(moved - unmoved).max() > 0.1


def test_a_matrix_in_place_of_columns_is_refused() -> None:
    model = embedder().fit(tables(shift=0, cities="ab"))
    with pytest.raises(GraphError, match="encodes columns"):
        model.transform((sp.eye_array(5, format="csr"), np.ones((5, 3))))


def test_a_pipeline_ends_in_a_classifier(graph: Graph) -> None:
    model = make_pipeline(embedder(epochs=10), LogisticRegression())
    score = model.fit(graph, graph.labels).score(graph, graph.labels)
    by_hand = LogisticRegression().fit(model[0].embedding_, graph.labels)
    assert score == pytest.approx(by_hand.score(model[0].embedding_, graph.labels), abs=0.02)


def test_a_path_is_a_graph_too(tmp_path: Path) -> None:
    nodes, edges = tables(shift=0, cities="ab")
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    np.testing.assert_array_equal(embedder().fit_transform(str(tmp_path)), embedder().fit_transform((nodes, edges)))


# Columns that are labels.


def teams() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The ring of people, each in a team, under a name that says nothing."""
    nodes, edges = tables(shift=0, cities="ab")
    nodes = nodes.rename(columns={"y": "v"})
    nodes["team"] = ["red", "green", "blue"] * 8
    return nodes, edges


def test_a_column_that_is_named_as_the_label_is_no_feature() -> None:
    leaking, honest = embedder().fit(teams()), embedder(label="team").fit(teams())
    assert leaking.n_features_in_ - honest.n_features_in_ == 3
    assert honest.plan_ is not None and honest.plan_.label_column == "team"
    nodes, edges = teams()
    without = embedder().fit_transform((nodes.drop(columns="team"), edges))
    np.testing.assert_array_equal(honest.embedding_, without)


@pytest.mark.parametrize("name", ["label", "Class", "target", "y"])
def test_a_column_that_is_called_like_a_label_is_one_as_in_files(name: str, tmp_path: Path) -> None:
    nodes, edges = teams()
    nodes = nodes.rename(columns={"team": name})
    model = embedder().fit((nodes, edges))
    assert model.plan_ is not None and model.plan_.label_column == name
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    assert fossil.open_graph(str(tmp_path)).plan == model.plan_


def test_a_second_column_that_is_called_so_is_refused_until_its_role_is_said() -> None:
    nodes, edges = teams()
    nodes["class"] = nodes["team"].str.upper()
    with pytest.raises(GraphError, match=r"'class'.*called like a label.*'team'.*roles=\{'class': 'drop'\}"):
        embedder(label="team").fit((nodes, edges))
    said = embedder(label="team", roles={"class": "drop"}).fit((nodes, edges))
    np.testing.assert_array_equal(said.embedding_, embedder(label="team").fit_transform(teams()))


@pytest.mark.parametrize("column", ["team", "age", "member"])
@pytest.mark.parametrize("wide", [False, True])
def test_what_is_scored_against_must_not_be_a_feature(column: str, wide: bool) -> None:
    nodes, edges = teams()
    nodes["member"] = [i % 5 == 0 for i in range(24)]
    if wide:  # sparse
        nodes = nodes.assign(**{f"word{i}": (np.arange(24) == i).astype(int) for i in range(60)})
    model = make_pipeline(embedder(), LogisticRegression())
    with pytest.raises(GraphError, match=f"'{column}' is a feature, and it is y itself. Say label='{column}'"):
        model.fit((nodes, edges), nodes[column])
    model.set_params(fossilembedder__label=column).fit((nodes, edges), nodes[column])


@pytest.mark.parametrize(
    ("column", "role", "kind"),
    [
        ("age", "numeric", str),
        ("age", "categorical", float),
        ("age", "numeric", "column"),
        ("member", "boolean", str),
        ("member", "boolean", int),
        ("member", "categorical", str),
        ("born", "date", object),
    ],
)
def test_nor_may_it_be_one_in_another_spelling(column: str, role: str, kind: object) -> None:
    nodes, edges = teams()
    nodes["member"] = [i % 5 == 0 for i in range(24)]
    nodes["born"] = pd.date_range("2021-03-01", periods=24)
    y = nodes[[column]] if kind == "column" else nodes[column].astype(kind)
    with pytest.raises(GraphError, match=f"'{column}' is a feature, and it is y itself"):
        embedder(roles={column: role}).fit((nodes, edges), y)


def test_nor_may_features_tell_it_as_codes_of_a_column_are_told() -> None:
    nodes, edges = teams()
    codes = nodes["team"].astype("category").cat.codes
    with pytest.raises(GraphError, match=r"tell y of every node without exception: team=\w+"):
        embedder().fit((nodes, edges), codes)
    embedder(label="team").fit((nodes, edges), codes)
    embedder(label="team").fit((nodes, edges), np.random.default_rng(0).normal(size=len(nodes)))


def test_reading_keywords_reach_the_reader() -> None:
    nodes, edges = teams()
    one_way = (nodes, edges.iloc[:24])
    both = embedder(roles={"team": "drop"}, treatment={"direction": "symmetrize"})
    np.testing.assert_array_equal(both.fit_transform(one_way), embedder(roles={"team": "drop"}).fit_transform(teams()))
    np.testing.assert_allclose(both.transform(one_way), both.embedding_, rtol=1e-5, atol=1e-6)
    degrees = embedder(roles={"team": "drop"}, structural_features=True).fit(teams())
    assert degrees.n_features_in_ > both.n_features_in_
    np.testing.assert_allclose(degrees.transform(teams()), degrees.embedding_, rtol=1e-5, atol=1e-6)


def test_features_made_from_the_edges_are_made_again_for_a_graph_that_has_others(graph: Graph) -> None:
    model = embedder(structural_features=True).fit(graph)
    assert model.n_features_in_ == graph.num_features + 5
    np.testing.assert_allclose(model.transform(graph), model.embedding_, rtol=1e-5, atol=1e-6)


def test_embed_takes_the_same_keywords() -> None:
    choices = {"label": "team", "roles": {"city": "drop"}}
    result = fossil.embed(teams(), epochs=3, settings=SMALL, device="cpu", **choices)
    np.testing.assert_array_equal(result.vectors, embedder(**choices).fit_transform(teams()))
    assert result.graph.label_names == ("blue", "green", "red")


# scikit-learn's conventions.


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_feature_names_out_error,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_mixin_order,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
    ids=lambda check: check.__name__,
)
def test_checks_of_scikit_learn_that_need_no_matrix(check: Callable[[str, FossilEmbedder], None]) -> None:
    check("FossilEmbedder", FossilEmbedder())
    check("FossilEmbedder", embedder(random_state=None, treatment={"direction": "symmetrize"}))


def test_single_settings_are_read_set_and_cloned() -> None:
    mine = dict(SMALL)
    model = embedder(settings=mine).set_params(settings__alpha=0.3, settings__hidden=24, treatment__direction="reverse")
    assert model.settings == {**SMALL, "alpha": 0.3, "hidden": 24} and mine == SMALL
    assert model.treatment == {"direction": "reverse"}
    assert model.get_params()["settings__alpha"] == 0.3 and "settings__alpha" not in model.get_params(deep=False)
    copy = clone(model)
    assert copy.get_params() == model.get_params() and copy.settings is not model.settings
    assert FossilEmbedder().set_params(**model.get_params()).get_params() == model.get_params()
    # One call that sets the mapping and a part of it.
    assert model.set_params(settings={"hidden": 8}, settings__width=4).settings == {"hidden": 8, "width": 4}


def test_a_single_setting_has_the_effect_of_the_whole_mapping(graph: Graph) -> None:
    one_by_one = embedder().set_params(settings__width=4).fit_transform(graph)
    np.testing.assert_array_equal(one_by_one, embedder(settings={**SMALL, "width": 4}).fit_transform(graph))


def test_a_setting_that_the_method_has_not_is_refused_when_it_is_set() -> None:
    with pytest.raises(ValueError, match=r"DGI has no setting 'widht'\. Did you mean 'width'\?"):
        embedder(method="dgi", settings=None).set_params(settings__widht=4)


def test_without_a_random_state_a_seed_is_drawn_and_kept(graph: Graph) -> None:
    first, second = (embedder(random_state=None).fit(graph) for _ in range(2))
    assert first.random_state is None and first.seed_ != second.seed_
    np.testing.assert_array_equal(embedder(random_state=first.seed_).fit_transform(graph), first.embedding_)
    assert embedder(random_state=7).fit(graph).seed_ == 7


def test_a_generator_of_numpy_gives_the_seed(graph: Graph) -> None:
    drawn = [embedder(random_state=np.random.RandomState(state)).fit(graph).seed_ for state in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_names_of_the_columns_that_come_out(graph: Graph) -> None:
    names = embedder().fit(graph).get_feature_names_out()
    assert names.tolist() == [f"fossilembedder{i}" for i in range(WIDTH)]


def test_data_frames_come_out_with_node_ids(graph: Graph) -> None:
    model = embedder().set_output(transform="pandas")
    framed = model.fit_transform(graph)
    expected = pd.DataFrame(model.embedding_, pd.Index(graph.ids, name="id"), model.get_feature_names_out())
    pd.testing.assert_frame_equal(framed, expected)
    pd.testing.assert_frame_equal(model.transform(graph), expected, check_exact=False, rtol=1e-5, atol=1e-6)
    assert clone(model).fit_transform(graph).equals(framed)
    assert isinstance(model.set_output(transform="default").transform(graph), np.ndarray)
    with sklearn.config_context(transform_output="pandas"):
        pd.testing.assert_frame_equal(embedder().fit_transform(graph), expected)


@pytest.mark.parametrize("method", ["dgi", DGI])
def test_a_method_is_named_or_given_as_a_class(method: object, graph: Graph) -> None:
    small = {"epochs": 2, "settings": {"width": 4}, "device": "cpu"}
    result = fossil.embed(graph, method=method, **small)
    model = clone(FossilEmbedder(method=method, **small)).fit(graph)
    assert isinstance(result.method, DGI) and result.config.method == "dgi"
    np.testing.assert_array_equal(model.embedding_, result.vectors)


# Folds: the graph stays whole, and node ids are the rows.


def test_a_search_over_settings_scores_held_out_nodes(graph: Graph) -> None:
    model = make_pipeline(embedder(method="dgi", settings=None, graph=graph), LogisticRegression())
    choices = {"fossilembedder__settings__width": [2, 6], "fossilembedder__method": ["dgi", DGI]}
    search = GridSearchCV(model, choices, cv=3, error_score="raise").fit(graph.ids, graph.labels)
    assert search.best_estimator_[0].embedding_.shape[1] == search.best_params_["fossilembedder__settings__width"]
    widest = embedder(method="dgi", settings={"width": 6}).fit_transform(graph)
    by_hand = cross_val_score(LogisticRegression(), widest, graph.labels, cv=3)
    found = search.cv_results_
    row = found["params"].index({"fossilembedder__settings__width": 6, "fossilembedder__method": "dgi"})
    np.testing.assert_allclose([found[f"split{i}_test_score"][row] for i in range(3)], by_hand)


@pytest.mark.parametrize("shape", ["column", "matrix", "series", "frame", "list"])
def test_rows_are_nodes_by_id_in_any_form(graph: Graph, shape: str) -> None:
    ids = graph.ids[[5, 3, 8]]
    forms = {
        "column": ids,
        "matrix": ids[:, None],
        "series": pd.Series(ids),
        "frame": pd.DataFrame({"id": ids}),
        "list": ids.tolist(),
    }
    model = embedder(graph=graph).fit(forms[shape])
    np.testing.assert_array_equal(model.transform(forms[shape]), model.embedding_[[5, 3, 8]])
    np.testing.assert_array_equal(model.embedding_, embedder().fit_transform(graph))


def test_rows_that_are_no_nodes_are_refused_before_training(graph: Graph) -> None:
    with pytest.raises(GraphError, match="'60' is not in graph"):
        embedder(graph=graph).fit([60])
    with pytest.raises(GraphError, match=r"shape \(60, 12\).*one id a row"):
        embedder(graph=graph).fit(graph.features)


def test_folds_of_a_graph_are_refused_in_one_sentence(graph: Graph) -> None:
    sentence = r"A graph cannot be cut into rows.*FossilEmbedder\(graph=\.\.\.\), and node ids as X\."
    for rows in (graph.features, [0, 1], pd.DataFrame(graph.features), pd.Series(graph.ids)):
        with pytest.raises(GraphError, match=sentence):
            embedder().fit(rows)
    model = make_pipeline(embedder(), LogisticRegression())
    with pytest.raises(ValueError, match=sentence):  # scikit-learn lists the errors of all fits
        GridSearchCV(model, {"fossilembedder__settings__width": [4]}, cv=2).fit(graph.features, graph.labels)


def test_a_method_that_reads_the_labels_of_the_graph_has_no_held_out_rows(graph: Graph) -> None:
    with pytest.raises(SettingError, match="held out would not be hidden"):
        embedder(method="fs_gcn", settings=None, graph=graph).fit(graph.ids, graph.labels)
