"""What is selected, on which nodes, and what is counted."""

from dataclasses import fields as dataclass_fields
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.preprocessing import normalize

from fossil.errors import EvaluationError
from fossil.evaluation.probes import fitting
from fossil.evaluation.protocol import PROTOCOLS, Protocol, protocol
from fossil.evaluation.tasks.node_classification import (
    NodeClassification,
    SplitScore,
    choose,
    macro_f1,
    score,
    score_classes,
)
from fossil.graph.graph import Graph
from fossil.graph.splits import Split, SplitRule, TrainingSplit, ratio_split


@pytest.fixture
def noisy() -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap and a wide embedding, so that the choice of strength matters."""
    generator = np.random.default_rng(4)
    labels = generator.integers(3, size=240)
    return generator.normal(size=(240, 30)) + 0.6 * generator.normal(size=(3, 30))[labels], labels


def published_splits(labels: np.ndarray) -> dict[str, np.ndarray]:
    """Ten splits that share their test nodes, and the first of them."""
    ten = np.full((10, len(labels)), -1)
    for seed, row in enumerate(ten):
        split = ratio_split(labels, seed)
        row[split.train], row[split.validation], row[split.test] = 0, 1, 2
    return {"geom_gcn": ten, "public": ten[:1]}


@pytest.mark.parametrize("name", sorted(PROTOCOLS.keys() - {"public"}))  # which is one split
def test_permuting_test_labels_changes_neither_the_choice_nor_its_validation_accuracy(name, noisy):
    rows, labels = noisy
    more = {"graph_name": "mine", "seeds": range(6), "published": published_splits(labels)}
    before = score(rows, labels, protocol(name), **more)
    test = protocol(name).draw(labels, 0, "mine", more["published"]).test
    permuted = labels.copy()
    permuted[test] = np.random.default_rng(1).permutation(labels[test])
    after = score(rows, permuted, protocol(name), **more)
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


def test_validation_nodes_choose_between_rows_as_they_are_and_rows_of_length_one(noisy):
    rows, labels = noisy
    uneven = rows * 10.0 ** np.random.default_rng(1).uniform(-1, 1, size=(len(rows), 1))
    rule = protocol("converged").updated({"split": "paper"})
    seeds = range(8)
    plain, unit, either = (
        score(uneven, labels, rule.updated({"rows": form}), graph_name="mine", seeds=seeds)
        for form in ("as they are", "of length one", "either")
    )
    expected = [b if b.validation_accuracy > a.validation_accuracy else a for a, b in zip(plain, unit, strict=True)]
    assert either == expected
    assert either != plain and either != unit  # neither form is always the better one here


def test_the_majority_is_that_of_the_training_nodes(monkeypatch):
    labels = np.array([0, 0, 1, 2, 1, 1, 1, 0])
    split = Split(np.arange(3), np.array([3]), np.arange(4, 8))
    monkeypatch.setattr(Protocol, "draw", lambda *_: split)
    town = Graph("town", sp.csr_array((8, 8), dtype=np.float32), np.ones((8, 1), np.float32), np.arange(8), labels)
    [found] = NodeClassification(protocol("paper")).baseline(town, [0])
    assert (found.accuracy, found.test_nodes, found.macro_f1) == (0.25, 4, 0.2)


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
        more = {"graph_name": "mine", "seeds": [1] if name == "public" else [1, 2, 3]}
        more["published"] = published_splits(labels)
        whole = score(rows, labels, protocol(name), **more)
        with monkeypatch.context() as patch:
            patch.setattr(fitting, "_MEMORY_BUDGET", 1)
            assert score(rows, labels, protocol(name), **more) == whole


def test_rows_that_splits_share_count_once_in_memory(monkeypatch):
    """Ten splits of 3,648 of 6,080 rows: 3,584 wide they were two groups, which cost a second rotation."""
    labels, wide = np.arange(7600) % 5, np.broadcast_to(np.float32(0), (7600, 3584))
    splits = [ratio_split(labels, seed) for seed in range(10)]
    assert list(fitting._groups(wide, labels, splits, protocol("paper"))) == [range(10)]
    others = 5 * (12 * 7600 + 32 * 3584) + 20 * 7600  # of each split: logits, parameters, predictions
    monkeypatch.setattr(fitting, "_MEMORY_BUDGET", 4 * (3 * 6080 * 3584 + 3 * others))
    assert [len(group) for group in fitting._groups(wide, labels, splits, protocol("paper"))] == [3, 3, 3, 1]
    few = [ratio_split(np.where(np.arange(7600) // 300 == seed, labels, -1), seed) for seed in range(10)]
    monkeypatch.setattr(fitting, "_MEMORY_BUDGET", 2**25)
    assert [len(group) for group in fitting._groups(wide, labels, few, protocol("paper"))] == [3, 3, 3, 1]


def test_unlabelled_nodes_do_not_count(noisy):
    rows, labels = noisy
    more_rows = np.vstack([rows, np.full((5, 30), 9.0)])
    more_labels = np.append(labels, [-1] * 5)
    published = published_splits(labels)
    longer = {name: np.pad(parts, ((0, 0), (0, 5))) for name, parts in published.items()}  # the others would train
    for rule in PROTOCOLS.values():
        assert score(more_rows, more_labels, rule, graph_name="mine", seeds=[0], published=longer) == score(
            rows, labels, rule, graph_name="mine", seeds=[0], published=published
        )


def test_macro_f1_equals_scikit_learn_with_classes_missing_on_either_side():
    truth, predicted = np.array([0, 0, 2, 2, 5]), np.array([0, 2, 2, 3, 3])
    assert macro_f1(truth, predicted) == pytest.approx(f1_score(truth, predicted, average="macro"))


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


def test_bad_embeddings_are_refused(noisy):
    rows, labels = noisy
    broken = rows.copy()
    broken[7, 2] = np.nan
    cases = [(rows[:-1], [0], "shape"), (broken, [0], "Row 7"), (rows, [], "seed"), (rows, [0, 1, 0], "given twice")]
    for embedding, seeds, message in cases:
        with pytest.raises(EvaluationError, match=message):
            score(embedding, labels, protocol("paper"), graph_name="mine", seeds=seeds)


def town(labels: np.ndarray | None, **splits: np.ndarray) -> Graph:
    nodes = 240
    empty = sp.csr_array((nodes, nodes), dtype=np.float32)
    return Graph("town", empty, np.ones((nodes, 1)), np.arange(nodes), labels, published_splits=splits)


def test_published_splits_of_a_graph_are_what_it_is_scored_on(noisy):
    rows, labels = noisy
    published = published_splits(labels)
    task = NodeClassification(protocol("geom_gcn"))
    found = task.score(rows, town(labels, **published), [3, 14])
    assert [one.seed for one in found] == [3, 4]
    same_nodes = protocol("paper").updated({"rows": "either"})
    assert found == score(rows, labels, same_nodes, graph_name="mine", seeds=[3, 4])
    assert task.baseline(town(labels, **published), [3, 4]) == NodeClassification(same_nodes).baseline(
        town(labels), [3, 4]
    )
    assert "115 training, 77 validation and 48 test nodes in one of them" in task.describe(
        town(labels, **published), seed=0
    )
    with pytest.raises(EvaluationError, match="given twice"):
        task.score(rows, town(labels, **published), [3, 13])


def test_graphs_without_the_published_splits_are_refused_with_what_is_accepted(noisy):
    rows, labels = noisy
    task, public = NodeClassification(protocol("geom_gcn")), published_splits(labels)["public"]
    assert not task.can_score(town(labels), 0)
    with pytest.raises(EvaluationError, match=r"town comes without .* 'geom_gcn'; accepted .* converged\.") as caught:
        task.score(rows, town(labels), [0])
    assert "--protocol converged" in caught.value.remedy and "actor, chameleon, squirrel" in caught.value.remedy
    with pytest.raises(EvaluationError, match=r"converged, public\."):
        task.check(town(labels, public=public))
    small_cora = Graph("cora", sp.csr_array((240, 240)), sp.csr_array((240, 1433)), np.arange(240), labels)
    with pytest.raises(EvaluationError, match="cora comes without") as caught:
        NodeClassification(protocol("public")).check(small_cora)
    assert "embed it again" in caught.value.remedy


def test_a_method_that_was_trained_on_a_published_split_is_scored_on_it(noisy):
    rows, labels = noisy
    published = published_splits(labels)
    own, task = TrainingSplit(SplitRule("geom_gcn", None), 13), NodeClassification(protocol("geom_gcn"))
    [found] = task.score(rows[:, :3], town(labels, **published), [0, 1], trained_on=own)
    assert found == score_classes(rows[:, :3], labels, ratio_split(labels, 3), 3)
    with pytest.raises(EvaluationError, match="another split") as caught:
        NodeClassification(protocol("public")).score(rows[:, :3], town(labels, **published), [0], trained_on=own)
    assert "--protocol geom_gcn" in caught.value.remedy


def test_every_metric_is_in_a_score_and_only_one_is_unfair():
    fields = {field.name for field in dataclass_fields(SplitScore)}
    assert {metric.name for metric in NodeClassification.metrics} <= fields
    assert [metric.name for metric in NodeClassification.metrics if not metric.fair] == ["test_maximum"]


def test_the_task_scores_a_graph_as_its_labels_are_scored(noisy):
    rows, labels = noisy
    rule = protocol("paper")
    found = NodeClassification(rule).score(rows, town(labels), [0, 1])
    assert found == score(rows, labels, rule, graph_name="", seeds=[0, 1])
    said = NodeClassification(rule).describe(town(labels), seed=0)
    assert said == rule.describe("", rule.draw(labels, 0, ""))
    assert NodeClassification(rule).to_dict() == rule.model_dump()


def test_graphs_that_cannot_be_scored_are_told_apart(noisy):
    _, labels = noisy
    task, few = NodeClassification(protocol("paper")), np.full(240, -1)
    assert task.can_score(town(labels), 0)
    for unusable, message in ((None, "no labels"), (np.zeros((240, 2), np.int64), "2 binary tasks")):
        assert not task.can_score(town(unusable), 0)
        with pytest.raises(EvaluationError, match=message):
            task.check(town(unusable))
    task.check(town(few))
    assert not task.can_score(town(few), 0)


def test_a_method_that_was_trained_on_labels_is_scored_by_itself_on_its_own_split_alone(noisy):
    rows, labels = noisy
    own = TrainingSplit(SplitRule("paper", 7), 3)
    task = NodeClassification(protocol("paper").per_class_everywhere(7))
    [found] = task.score(rows[:, :3], town(labels), [0, 1, 2], trained_on=own)
    assert found == score_classes(rows[:, :3], labels, own.draw(labels), 3)
    assert "No probe" in task.describe(town(labels), trained_on=own)
    with pytest.raises(EvaluationError, match="another split") as caught:
        NodeClassification(protocol("paper")).score(rows[:, :3], town(labels), [0], trained_on=own)
    assert "--protocol paper --nodes-per-class 7" in caught.value.remedy


@pytest.mark.parametrize("name", ["paper", "released"])
def test_progress_rises_to_one_over_all_groups_of_splits(name, noisy, monkeypatch):
    rows, labels = noisy
    monkeypatch.setattr(fitting, "_MEMORY_BUDGET", 1)  # every split is a group of its own
    shares: list[float] = []
    score(rows, labels, protocol(name), graph_name="mine", seeds=range(3), progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) >= 30
    assert shares[-1] == 1.0


@pytest.mark.parametrize(("name", "probe"), [("paper", "logistic.fit_probe"), ("released", "adam.fit_adam_probe")])
def test_a_probe_that_runs_out_of_memory_says_of_what_and_where(name, probe, noisy, monkeypatch):
    rows, labels = noisy

    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 40.00 MiB.")

    monkeypatch.setattr(f"fossil.evaluation.probes.{probe}", fail)
    with pytest.raises(
        EvaluationError, match=f"{name}' to 240 vectors of 30 numbers ran out of memory on cpu"
    ) as caught:
        score(rows, labels, protocol(name), graph_name="mine", seeds=[0])
    assert "--device" in caught.value.remedy
