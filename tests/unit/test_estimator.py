from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from fossil import FossilEmbedder, Graph
from fossil.datasets.synthetic import csbm
from fossil.errors import GraphError, SettingError

SMALL = {"hidden": 16, "width": 8, "subgraph_size": 4, "num_anchors": 10}


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
        "method": "fossil",
        "preset": None,
        "epochs": 3,
        "settings": SMALL,
        "device": "cpu",
        "random_state": 5,
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
    assert model.embedding_.shape == (60, 8) and model.n_features_in_ == graph.num_features
    assert ((model.fusion_ >= 0) & (model.fusion_ <= 1)).all()
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
    assert embedder().fit(graph).transform(other).shape == (40, 8)


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
