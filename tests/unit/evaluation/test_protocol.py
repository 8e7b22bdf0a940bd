"""Protocols: what is selected, on which nodes, and what is said about it."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.preprocessing import normalize

from fossil.errors import EvaluationError, SettingError
from fossil.evaluation import protocol as module
from fossil.evaluation.protocol import PROTOCOLS, choose, macro_f1, protocol, score, score_classes


@pytest.fixture
def noisy() -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap and a wide embedding, so that the choice of strength matters."""
    generator = np.random.default_rng(4)
    labels = generator.integers(3, size=240)
    return generator.normal(size=(240, 30)) + 0.6 * generator.normal(size=(3, 30))[labels], labels


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_permuting_test_labels_changes_neither_the_choice_nor_its_validation_accuracy(name, noisy):
    rows, labels = noisy
    before = score(rows, labels, protocol(name), graph_name="mine", seeds=range(6))
    test = protocol(name).draw(labels, 0, "mine").test
    permuted = labels.copy()
    permuted[test] = np.random.default_rng(1).permutation(labels[test])
    after = score(rows, permuted, protocol(name), graph_name="mine", seeds=range(6))
    assert [(s.chosen, s.validation_accuracy) for s in before] == [(s.chosen, s.validation_accuracy) for s in after]
    assert [s.accuracy for s in before] != [s.accuracy for s in after]
    assert len({s.chosen for s in before}) > 1  # otherwise an unchanged choice would prove nothing


def test_paper_score_equals_a_plain_search_with_scikit_learn(noisy):
    rows, labels = noisy
    rule = protocol("paper").updated({"strengths": (0.25, 4.0, 64.0)})
    (found,) = score(rows, labels, rule, graph_name="mine", seeds=[3])
    split = rule.draw(labels, 3, "mine")
    scaled = rows / np.sqrt((rows[split.train] ** 2).sum(axis=1).mean())
    models = [
        LogisticRegression(C=c, solver="newton-cg", tol=1e-10, max_iter=9999).fit(
            scaled[split.train], labels[split.train]
        )
        for c in rule.strengths
    ]
    validation = [m.score(scaled[split.validation], labels[split.validation]) for m in models]
    best = int(np.argmax(validation))
    predicted = models[best].predict(scaled[split.test])
    assert found.chosen == rule.strengths[best]
    assert found.validation_accuracy == pytest.approx(validation[best])
    assert found.accuracy == pytest.approx(accuracy_score(labels[split.test], predicted))
    assert found.macro_f1 == pytest.approx(f1_score(labels[split.test], predicted, average="macro"))


@pytest.mark.parametrize("name", ["paper", "released"])
def test_unit_rows_are_scored_as_rows_that_scikit_learn_has_normalized(name, noisy):
    rows, labels = noisy
    rows[7] = 0
    lengths = 10.0 ** np.random.default_rng(0).uniform(-3, 3, size=(len(rows), 1))
    rule = protocol(f"{name}-unit-rows")
    found, longer, expected, as_they_are = (
        [replace(one, test_maximum=None) for one in score(values, labels, kind, graph_name="mine", seeds=range(3))]
        for values, kind in (
            (rows, rule),
            (lengths * rows, rule),
            (normalize(rows), protocol(name)),
            (lengths * rows, protocol(name)),
        )
    )
    assert found == expected and longer == found != as_they_are
    assert "divided by their length" in rule.describe() and "divided by their length" not in protocol(name).describe()


def test_only_the_released_protocol_reports_the_test_maximum(noisy):
    rows, labels = noisy
    released = score(rows, labels, protocol("released"), graph_name="mine", seeds=range(4))
    assert all(s.test_maximum is not None and s.test_maximum >= s.accuracy for s in released)
    assert any(s.test_maximum > s.accuracy for s in released)
    assert all(s.test_maximum is None for s in score(rows, labels, protocol("paper"), graph_name="x", seeds=[0]))


def test_the_first_of_equally_good_candidates_is_chosen():
    assert choose(np.array([0.5, 0.8, 0.7, 0.8])) == 1


def test_groups_of_splits_give_what_all_at_once_give(noisy, monkeypatch):
    rows, labels = noisy
    for name in PROTOCOLS:
        whole = score(rows, labels, protocol(name), graph_name="mine", seeds=[1, 2, 3])
        with monkeypatch.context() as patch:
            patch.setattr(module, "_MEMORY_BUDGET", 1)
            assert score(rows, labels, protocol(name), graph_name="mine", seeds=[1, 2, 3]) == whole


def test_unlabelled_nodes_do_not_count(noisy):
    rows, labels = noisy
    more_rows = np.vstack([rows, np.full((5, 30), 9.0)])
    more_labels = np.append(labels, [-1] * 5)
    for rule in PROTOCOLS.values():
        assert score(more_rows, more_labels, rule, graph_name="mine", seeds=[0]) == score(
            rows, labels, rule, graph_name="mine", seeds=[0]
        )


@pytest.mark.parametrize(("graph_name", "size"), [("cora", 60), ("PubMed", 60), ("actor", 1440)])
def test_citation_graphs_train_on_twenty_nodes_per_class(graph_name, size):
    labels = np.arange(3000) % 3
    assert len(protocol("paper").draw(labels, 0, graph_name).train) == size


def test_macro_f1_equals_scikit_learn_with_classes_missing_on_either_side():
    truth, predicted = np.array([0, 0, 2, 2, 5]), np.array([0, 2, 2, 3, 3])
    assert macro_f1(truth, predicted) == pytest.approx(f1_score(truth, predicted, average="macro"))


def test_description_names_sizes_selection_evaluator_and_interval():
    labels = np.arange(3000) % 3
    for name, rule in PROTOCOLS.items():
        split = rule.draw(labels, 0, "cora")
        text = rule.describe("cora", split)
        for part in (repr(name), "20 per class", f"{split.sizes[2]:,} test", "validation accuracy", "95 %", "1,000"):
            assert part in text
    assert "optimistic" in protocol("released").describe()
    assert "optimistic" not in protocol("paper").describe()
    assert "per class" not in protocol("paper").describe("actor")


def test_class_scores_are_counted_on_the_test_nodes_alone(noisy):
    rows, labels = noisy
    classes = rows[:, :3]
    split = protocol("paper").draw(labels, 3, "mine")
    found = score_classes(classes, labels, split, 3)
    truth, predicted = labels[split.test], classes.argmax(axis=1)[split.test]
    assert found.accuracy == pytest.approx(accuracy_score(truth, predicted))
    assert found.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert (found.seed, found.chosen, found.test_maximum) == (3, None, None)
    elsewhere = labels.copy()
    elsewhere[split.train] = elsewhere[split.validation] = 0
    again = score_classes(classes, elsewhere, split, 3)
    assert again.accuracy == found.accuracy and again.validation_accuracy != found.validation_accuracy
    with pytest.raises(EvaluationError, match="shape"):
        score_classes(classes[:-1], labels, split, 3)


def test_an_unknown_protocol_offers_the_nearest():
    with pytest.raises(EvaluationError, match="Did you mean 'paper'"):
        protocol("papr")


@pytest.mark.parametrize("strengths", [(), (1.0, 0.5), (0.0, 1.0), (1.0, 1.0)])
def test_impossible_strengths_are_refused(strengths):
    with pytest.raises(SettingError, match="strengths"):
        protocol("paper").updated({"strengths": strengths})


def test_bad_embeddings_are_refused(noisy):
    rows, labels = noisy
    broken = rows.copy()
    broken[7, 2] = np.nan
    for embedding, seeds, message in [(rows[:-1], [0], "shape"), (broken, [0], "Row 7"), (rows, [], "seed")]:
        with pytest.raises(EvaluationError, match=message):
            score(embedding, labels, protocol("paper"), graph_name="mine", seeds=seeds)


def test_summary_uses_the_interval_of_the_protocol():
    values = np.random.default_rng(0).random(30).tolist()
    wide, narrow = (protocol("paper").updated({"confidence": c}).summarize(values) for c in (0.99, 0.5))
    assert wide.half_width > narrow.half_width
    assert replace(wide, low=0.0, high=0.0, half_width=0.0) == replace(narrow, low=0.0, high=0.0, half_width=0.0)


def test_protocols_can_be_read_without_loading_torch():
    code = "import sys, fossil.evaluation.protocol, fossil.graph.splits; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
