"""Nothing of a search depends on a test label."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_search import communities, outcome, run_search, sealed_accuracy, small_plan

from fossil.errors import EvaluationError, RunError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import score
from fossil.graph.graph import Graph
from fossil.graph.published import TEST, TRAINING, VALIDATION
from fossil.studies.sealed import Openings, SealedGraph, seal


def sealed(rule: str = "paper", graph: Graph | None = None, **how: int) -> SealedGraph:
    return seal(graph or communities(), protocol(rule), range(3), **how)


def with_ten_splits(graph: Graph) -> Graph:
    """Splits as Geom-GCN's: each has test nodes of its own."""
    parts = np.full((10, graph.num_nodes), TRAINING)
    for number in range(10):
        order = np.random.default_rng(number).permutation(graph.num_nodes)
        parts[number, order[:20]], parts[number, order[20:45]] = TEST, VALIDATION
    return replace(graph, published_splits={"geom_gcn": parts})


@pytest.mark.parametrize("rule", ["paper", "converged", "released-unit-rows"])
def test_no_test_label_is_left_and_all_others_are(rule: str) -> None:
    graph, found = communities(), sealed(rule)
    expected = protocol(rule).draw(graph.labels, 1, "")
    hidden = np.isin(np.arange(graph.num_nodes), expected.test)
    assert (found.labels[hidden] == -1).all()
    np.testing.assert_array_equal(found.labels[~hidden], graph.labels[~hidden])
    np.testing.assert_array_equal(found.splits[1][1].train, expected.train)
    for seed, (number, split) in found.splits.items():
        assert number == seed
        np.testing.assert_array_equal(split.test, found.test_nodes)


@pytest.mark.parametrize("rule", ["paper", "released", "converged"])
def test_the_validation_accuracy_is_that_of_a_score_with_all_labels(rule: str) -> None:
    graph, found = communities(), sealed(rule)
    vectors = np.random.default_rng(1).normal(size=(graph.num_nodes, 6)).astype(np.float32) + graph.features[:, :6]
    whole = score(vectors, graph.labels, protocol(rule), graph_name="", seeds=[0, 1, 2])
    assert [found.score(vectors, seed) for seed in range(3)] == [one.validation_accuracy for one in whole]


def test_encoders_are_trained_without_labels_or_with_those_of_their_split() -> None:
    found = sealed()
    assert found.for_training(0, with_labels=False).labels is None
    graph = found.for_training(1, with_labels=True)
    split = found.splits[1][1]
    assert (graph.labels[found.test_nodes] == -1).all()
    drawn = graph.published_splits["public"][0]
    np.testing.assert_array_equal(np.flatnonzero(drawn == TRAINING), np.sort(split.train))
    assert not np.isin(np.flatnonzero(drawn != -1), found.test_nodes).any()


def test_of_published_splits_one_is_searched_on() -> None:
    graph = with_ten_splits(communities())
    found = sealed("geom_gcn", graph, published=4)
    expected = np.flatnonzero(graph.published_splits["geom_gcn"][4] == TEST)
    np.testing.assert_array_equal(found.test_nodes, expected)
    assert {number for number, _ in found.splits.values()} == {4}
    assert not found.graph.published_splits  # parts of other splits are not needed


def test_labels_that_are_missing_are_refused() -> None:
    with pytest.raises(EvaluationError, match="no labels"):
        sealed(graph=communities(labels=False))
    with pytest.raises(EvaluationError, match="published splits"):
        sealed("geom_gcn")


def test_a_search_is_the_same_to_the_bit_whatever_the_test_labels_are(tmp_path: Path) -> None:
    graph = communities()
    test = protocol("paper").draw(graph.labels, 0, "").test
    found = outcome(run_search(tmp_path / "true", 4))
    for name, labels in {
        "permuted": np.random.default_rng(5).permutation(graph.labels[test]),
        "turned": (graph.labels[test] + 1) % 3,
        "all alike": np.zeros(len(test), int),
    }.items():
        changed = graph.labels.copy()
        changed[test] = labels
        plan = small_plan(sealed_accuracy(graph.with_labels(changed)))
        assert outcome(run_search(tmp_path / name, 4, plan)) == found
        # Not even the file that says what is searched tells them apart.
        files = [(tmp_path / where / "search.yaml").read_bytes() for where in (name, "true")]
        assert files[0] == files[1]


def test_a_search_does_depend_on_validation_labels(tmp_path: Path) -> None:
    graph = communities()
    split = protocol("paper").draw(graph.labels, 0, "")
    changed = graph.labels.copy()
    changed[split.validation] = (changed[split.validation] + 1) % 3
    plan = small_plan(sealed_accuracy(graph.with_labels(changed)))
    assert outcome(run_search(tmp_path / "a", 2, plan)) != outcome(run_search(tmp_path / "b", 2))


def test_openings_are_counted(tmp_path: Path) -> None:
    openings = Openings(tmp_path)
    assert openings.describe() == "Test labels are sealed: opened 0 times."
    assert [openings.add({"encoders": 3}), openings.add({"encoders": 3})] == [1, 2]
    assert Openings(tmp_path).describe() == "Test labels are no longer sealed: opened 2 times."
    openings.path.write_text("{")
    with pytest.raises(RunError, match="nobody knows"):
        openings.add({})
