"""Features that contain the classes are refused, and nothing else is."""

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.errors import EvaluationError
from fossil.evaluation.leaks import giveaways
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.graph.graph import Graph

NODES, CLASSES = 60, 3
LABELS = np.arange(NODES) % CLASSES
NOISE = np.random.default_rng(0).normal(size=(NODES, 4)).astype(np.float32)
ONE_HOT = np.eye(CLASSES, dtype=np.float32)[LABELS]


def graph(
    features: np.ndarray, labels: np.ndarray = LABELS, *, sparse: bool = False, names: tuple[str, ...] = ()
) -> Graph:
    edges = sp.csr_array((len(features), len(features)), dtype=np.float32)
    stored = sp.csr_array(features) if sparse else features
    return Graph("mine", edges, stored, np.arange(len(features)), labels=labels, feature_names=names)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("leak", "columns"),
    [
        (ONE_HOT, [4, 5, 6]),
        (2.5 * LABELS[:, None] - 1, [4]),  # a number per class
        (ONE_HOT[:, :2], [4, 5]),  # the last class is where both are zero
        (np.hstack([ONE_HOT, np.ones((NODES, 1))]), [4, 5, 6]),  # a constant column tells nothing
    ],
)
def test_a_class_column_among_the_features_is_found(leak: np.ndarray, columns: list[int], sparse: bool) -> None:
    features = np.hstack([NOISE, leak]).astype(np.float32)
    assert giveaways(graph(features, sparse=sparse).features, LABELS).tolist() == columns


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (NOISE, LABELS),
        (np.hstack([NOISE, ONE_HOT[:, :1]]), LABELS),  # tells one class of three
        (np.hstack([NOISE, np.where(np.arange(NODES) == 7, 9, LABELS)[:, None]]), LABELS),  # one exception
        (np.hstack([NOISE[:15], ONE_HOT[:15]]), LABELS[:15]),  # too few to tell
        (np.hstack([NOISE, ONE_HOT]), np.full(NODES, -1)),
        (np.hstack([NOISE, ONE_HOT]), np.zeros(NODES, dtype=int)),
    ],
)
def test_columns_that_only_help_are_no_leak(features: np.ndarray, labels: np.ndarray) -> None:
    assert giveaways(features.astype(np.float32), labels).tolist() == []


def test_nodes_without_a_class_do_not_hide_a_leak() -> None:
    labels, leak = np.where(np.arange(NODES) < 40, LABELS, -1), ONE_HOT.copy()
    leak[50:] = 0.5
    assert len(giveaways(np.hstack([NOISE, leak]), labels)) == CLASSES


def test_scoring_is_refused_and_the_columns_are_named() -> None:
    names = ("a", "b", "c", "d", "topic=x", "topic=y", "topic=z")
    leaking = graph(np.hstack([NOISE, ONE_HOT]), names=names)
    with pytest.raises(
        EvaluationError, match="topic=x, topic=y, topic=z tell the class of every labelled node"
    ) as caught:
        NodeClassification(protocol("paper")).score(NOISE, leaking, [0])
    assert "--label COLUMN" in caught.value.remedy
    assert NodeClassification(protocol("paper")).score(NOISE, graph(NOISE), [0])
