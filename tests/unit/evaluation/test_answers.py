from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import fossil
from fossil.datasets.synthetic import csbm
from fossil.evaluation.answers import answers
from fossil.evaluation.evaluate import evaluate
from fossil.evaluation.protocol import PROTOCOLS
from fossil.evaluation.subjects import subject_of
from fossil.runs.run import Run


@pytest.mark.parametrize("method", ["features", "fs_mlp"])
def test_answers_are_those_that_scores_count(method: str, tmp_path: Path) -> None:
    settings = {"hidden": 8} if method == "fs_mlp" else {}
    graph = csbm(200, degree=5, features=6, signal=300.0, seed=2)
    epochs = None if method == "features" else 5
    fossil.embed(graph, method=method, epochs=epochs, settings=settings, out=tmp_path / "run")
    subject = subject_of(Run.open(tmp_path / "run"))
    found = answers(subject, PROTOCOLS["paper"], 3)
    [row] = evaluate(tmp_path / "run", splits=3, keep=False)
    scores = next(iter(row.scores.values()))
    assert found.splits == len(scores)
    right, counted = np.trace(found.confusion), found.confusion.sum()
    assert right / counted == pytest.approx(np.mean([score.accuracy for score in scores]))
    assert counted == found.tested.sum() == sum(score.test_nodes for score in scores)
    assert counted - right == found.wrong.sum()
    assert ((found.usual >= 0) == (found.wrong > 0)).all()
    assert (found.usual != graph.labels)[found.wrong > 0].all()
    assert np.isnan(found.errors[found.tested == 0]).all()
    if method == "fs_mlp":  # its own answers, on its own split
        test = found.tested > 0
        wanted = confusion_matrix(graph.labels[test], subject.vectors.argmax(axis=1)[test])
        np.testing.assert_array_equal(found.confusion, wanted)
    assert not list((tmp_path / "run").glob("scores-*.json"))  # nothing was to be kept
