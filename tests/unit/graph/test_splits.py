"""Split rules: sizes, disjointness, what the seed may change, and what is refused."""

import numpy as np
import pytest

from fossil.errors import EvaluationError
from fossil.graph.splits import Split, SplitRule, labelled_nodes, paper_split, ratio_split, released_split

CORA_CLASS_SIZES = [351, 217, 418, 818, 426, 298, 180]


@pytest.fixture
def cora_labels() -> np.ndarray:
    labels = np.repeat(np.arange(7), CORA_CLASS_SIZES)
    return np.random.default_rng(3).permutation(labels)


@pytest.mark.parametrize("rule", [paper_split, released_split])
@pytest.mark.parametrize("per_class", [True, False])
def test_parts_are_disjoint_and_cover_the_labelled_nodes(rule, per_class, cora_labels):
    labels = cora_labels.copy()
    labels[::10] = -1
    split = rule(labels, 5, per_class)
    together = np.concatenate([split.train, split.validation, split.test])
    assert np.array_equal(np.sort(together), np.flatnonzero(labels >= 0))


@pytest.mark.parametrize("rule", [paper_split, released_split])
@pytest.mark.parametrize("per_class", [True, False])
def test_the_seed_changes_training_but_never_the_test_set(rule, per_class, cora_labels):
    first, second, again = (rule(cora_labels, seed, per_class) for seed in (0, 1, 0))
    assert np.array_equal(first.test, second.test)
    assert set(first.train) != set(second.train)
    assert np.array_equal(first.train, again.train)


@pytest.mark.parametrize("rule", [paper_split, released_split])
def test_every_class_gives_the_same_number_of_training_nodes(rule, cora_labels):
    split = rule(cora_labels, 2, True, 7)
    assert np.bincount(cora_labels[split.train]).tolist() == [7] * 7


@pytest.mark.parametrize(("name", "draw"), [("paper", paper_split), ("released", released_split)])
@pytest.mark.parametrize("per_class", [None, 7])
def test_a_rule_draws_what_its_function_draws_and_says_so(name, draw, per_class, cora_labels):
    rule = SplitRule(name, per_class)
    found, expected = rule.draw(cora_labels, 2), draw(cora_labels, 2, per_class is not None, per_class or 1)
    for part in ("train", "validation", "test"):
        assert np.array_equal(getattr(found, part), getattr(expected, part))
    assert ("7 per class" if per_class else "60 %") in rule.describe()
    assert ("authors' seed" in rule.describe()) == (name == "released")


def test_sizes_follow_the_paper(cora_labels):
    assert paper_split(cora_labels, 0, True).sizes == (140, 2166 - 140, 542)
    assert paper_split(cora_labels, 0, False).sizes == (1299, 867, 542)
    assert ratio_split(cora_labels, 0).sizes == (1299, 867, 542)


@pytest.mark.parametrize(("nodes", "test"), [(2708, 1208), (3327, 1827), (19717, 18217)])
def test_released_test_sets_have_the_published_sizes(nodes, test):
    labels = np.arange(nodes) % 3
    assert released_split(labels, 0, True).sizes == (60, 1440, test)


def test_released_ratio_counts_training_from_all_nodes():
    labels = np.arange(7600) % 5
    assert released_split(labels, 0, False).sizes == (4560, 1520, 1520)


@pytest.mark.parametrize("per_class", [True, False])
def test_released_split_equals_a_plain_transcription_of_the_rule(per_class, cora_labels):
    nodes, seed = len(cora_labels), 794209841
    number = 1500 if per_class else int(0.8 * nodes)
    development = np.random.RandomState(1684992425).choice(nodes, number, replace=False).tolist()
    state, train = np.random.RandomState(seed), []
    if per_class:
        for label in range(7):
            train += state.choice([i for i in development if cora_labels[i] == label], 20, replace=False).tolist()
    else:
        train = state.choice(development, int(0.6 * nodes), replace=False).tolist()
    split = released_split(cora_labels, seed, per_class)
    assert split.train.tolist() == train
    assert split.validation.tolist() == [i for i in development if i not in set(train)]
    assert split.test.tolist() == [i for i in range(nodes) if i not in set(development)]


def test_a_small_class_is_named_with_what_it_has_and_what_is_needed(cora_labels):
    labels = np.where(cora_labels == 4, 3, cora_labels)
    labels[np.flatnonzero(cora_labels == 4)[:6]] = 4
    with pytest.raises(EvaluationError, match=r"Class 4 has [0-6] nodes .* 20 are needed") as caught:
        paper_split(labels, 0, True)
    assert "nodes_per_class" in caught.value.remedy


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_the_legacy_generator_refuses_is_an_evaluation_error(seed, cora_labels):
    with pytest.raises(EvaluationError, match="out of range"):
        released_split(cora_labels, seed, True)


def test_the_released_rule_needs_more_nodes_than_it_sets_aside():
    with pytest.raises(EvaluationError, match="1,500"):
        released_split(np.arange(1500) % 3, 0, True)


@pytest.mark.parametrize(
    "labels",
    [np.zeros(50, dtype=int), np.full(50, -1), np.array([0, 1, -1]), np.zeros((9, 2), dtype=int), np.zeros(9)],
)
def test_labels_that_cannot_be_scored_are_refused(labels):
    with pytest.raises(EvaluationError):
        labelled_nodes(labels)


def test_overlapping_or_empty_parts_are_refused():
    with pytest.raises(EvaluationError, match="two parts"):
        Split(np.array([0, 1]), np.array([1]), np.array([2]))
    with pytest.raises(EvaluationError, match="validation part"):
        Split(np.array([0, 1]), np.array([], dtype=int), np.array([2]))
