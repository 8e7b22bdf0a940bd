from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
import torch
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score
from sklearn.preprocessing import normalize

import fossil
from fossil.datasets.synthetic import csbm
from fossil.errors import EvaluationError, FossilWarning, RunError
from fossil.evaluation.evaluate import evaluate
from fossil.evaluation.protocol import Protocol, protocol
from fossil.evaluation.rows import Row, against_the_first
from fossil.evaluation.statistics import Summary
from fossil.evaluation.tasks.node_classification import score
from fossil.evaluation.untrained import untrained_vectors
from fossil.graph.graph import Array, Graph
from fossil.methods.registry import get_method
from fossil.methods.untrained import Features
from fossil.runs.config import RunConfig
from fossil.runs.embeddings import Embeddings
from fossil.runs.folder import write_embeddings, write_inputs
from fossil.runs.plan import resolve_settings
from fossil.runs.run import Run
from fossil.storage import write_json
from fossil.training.trainer import TrainingSettings

PAPER = protocol("paper")
NODES = 60
UNEVEN = np.where(np.arange(NODES) % 5 == 0, np.arange(NODES) % 3, 1)


def make_run(
    path: Path,
    *,
    seed: int = 0,
    alpha: float = 0.5,
    epochs: int = 300,
    preset: str = "released",
    labels: bool | Array = True,
    noise: float = 0.6,
    name: str = "town",
    features: int = 4,
    recipe: bool = False,
    splits: dict[str, Array] | None = None,
) -> Run:
    """A finished run whose vectors depend on the seed and know the labels fairly well."""
    random = np.random.default_rng(seed)
    kind = np.arange(NODES) % 3 if isinstance(labels, bool) else labels
    columns = np.random.default_rng(99).normal(size=(NODES, features)).astype(np.float32)
    vectors = (np.eye(3)[kind] + noise * random.normal(size=(NODES, 3))).astype(np.float32)
    adjacency = sp.csr_array((NODES, NODES), dtype=np.float32)
    known = None if labels is False else kind
    graph = Graph(name, adjacency, columns, np.arange(NODES), known, published_splits=splits or {})
    training = TrainingSettings(epochs=epochs)
    _, settings = resolve_settings(
        get_method("fossil"), preset, name if recipe else "", {} if recipe else {"alpha": alpha}
    )
    config = RunConfig("fossil", preset, settings, training, seed, name, graph.fingerprint)
    write_inputs(path, config, {}, graph, None)
    write_vectors(path, graph.ids, vectors)
    write_json(path / "summary.json", {})
    return Run.open(path)


def write_vectors(path: Path, ids: Array, vectors: Array) -> None:
    write_embeddings(path, Embeddings(ids, vectors, None))


@pytest.mark.parametrize(("longer", "warned"), [(50, False), (5000, True)])
def test_vectors_of_very_different_length_are_warned_about(tmp_path: Path, longer: float, warned: bool) -> None:
    run = make_run(tmp_path / "a")
    vectors = run.arrays["vectors"].copy()
    vectors[:6] *= longer
    write_vectors(run.path, run.graph.ids, vectors)
    run = Run.open(run.path)
    expectation = pytest.warns(FossilWarning, match="protocol='paper-unit-rows'") if warned else nullcontext()
    with expectation:
        evaluate([run], protocol=PAPER, splits=1, device="cpu")
    evaluate([run], protocol=protocol("paper-unit-rows"), splits=1, device="cpu")  # any warning is an error here
    scores = json.loads((run.path / "scores-paper-unit-rows.json").read_text())
    assert scores["protocol"]["rows"] == "of length one"


def test_a_single_run_is_scored_on_ten_splits_from_its_own_seed_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", seed=3)
    [row] = evaluate([run], protocol=PAPER, device="cpu")
    seeds = [3 + 1000 * i for i in range(10)]
    expected = score(run.arrays["vectors"], np.arange(NODES) % 3, PAPER, graph_name="town", seeds=seeds)
    assert (row.encoders, row.splits) == (1, 10)
    assert row.accuracy.mean == pytest.approx(np.mean([one.accuracy for one in expected]))
    assert row.metrics["macro_f1"].mean == pytest.approx(np.mean([one.macro_f1 for one in expected]))
    assert "test_maximum" not in row.metrics
    kept = json.loads((run.path / "scores-paper.json").read_text())
    assert [one["seed"] for one in kept["scores"]] == seeds
    assert [one["accuracy"] for one in kept["scores"]] == [one.accuracy for one in expected]


def test_runs_that_differ_in_their_seed_share_a_row(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed=seed) for seed in range(3)]
    [row] = evaluate(runs, protocol=PAPER, device="cpu")
    assert (row.encoders, row.splits) == (3, 1)
    kept = [json.loads((run.path / "scores-paper.json").read_text())["scores"] for run in runs]
    assert [[one["seed"] for one in scores] for scores in kept] == [[0], [1], [2]]
    assert row.accuracy.mean == pytest.approx(np.mean([scores[0]["accuracy"] for scores in kept]))


def test_the_interval_of_several_encoders_is_over_encoders_not_splits(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed=seed) for seed in range(3)]
    [row] = evaluate(runs, protocol=PAPER, splits=4, device="cpu")
    kept = [json.loads((run.path / "scores-paper.json").read_text())["scores"] for run in runs]
    means = [np.mean([one["accuracy"] for one in scores]) for scores in kept]
    expected = scipy.stats.t.interval(0.95, 2, np.mean(means), scipy.stats.sem(means))
    assert row.accuracy.interval is not None and row.over == "encoders"
    np.testing.assert_allclose(row.accuracy.interval[:2], expected)
    [pair] = evaluate(runs[:2], protocol=PAPER, splits=4, device="cpu")
    assert pair.accuracy.interval is None and pair.accuracy.values == pytest.approx(means[:2])
    [one] = evaluate(runs[:1], protocol=PAPER, splits=4, device="cpu")
    assert one.over == "splits" and one.accuracy.n == 4


PUBLISHED = np.random.default_rng(5).permuted(np.tile(np.repeat([0, 1, 2], [28, 20, 12]), (10, 1)), axis=1)


def test_a_single_run_sees_each_published_split_once_however_many_are_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", seed=7, splits={"geom_gcn": PUBLISHED, "public": PUBLISHED[:1]})
    for asked in (None, 10, 25):
        [row] = evaluate([run], protocol=protocol("geom_gcn"), splits=asked, features=True, device="cpu")
        assert [one.seed for one in row.scores[7]] == [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
        assert row.splits == row.accuracy.n == 10 and [one.accuracy.n for one in row.untrained] == [10, 10]
    [few] = evaluate([run], protocol=protocol("geom_gcn"), splits=2, device="cpu")
    assert [one.seed for one in few.scores[7]] == [7, 8]
    [public] = evaluate([run], protocol=protocol("public"), splits=5, device="cpu")
    assert public.splits == public.accuracy.n == 1 and public.accuracy.interval is None
    assert "one split, whatever the seed" in public.protocol and "over splits" not in public.protocol
    kept = json.loads((run.path / "scores-public.json").read_text())["scores"]
    assert [one["seed"] for one in kept] == [0]


def test_encoders_on_published_splits_have_an_interval_over_encoders(tmp_path: Path) -> None:
    given = {"geom_gcn": PUBLISHED, "public": PUBLISHED[:1]}
    runs = [make_run(tmp_path / str(seed), seed=seed, splits=given) for seed in (0, 3, 12)]
    [row] = evaluate(runs, protocol=protocol("public"), device="cpu")
    assert row.over == "encoders" and row.accuracy.n == 3 and row.accuracy.interval is not None
    assert [one.seed for scores in row.scores.values() for one in scores] == [0, 0, 0]
    [row] = evaluate(runs, protocol=protocol("geom_gcn"), device="cpu")
    assert [one.seed for scores in row.scores.values() for one in scores] == [0, 3, 2]


def test_rows_on_other_published_splits_share_nothing_though_graphs_have_one_fingerprint(tmp_path: Path) -> None:
    """Published splits are no part of the fingerprint; untrained vectors are made once, and scored on each set."""
    ours, theirs = {"geom_gcn": PUBLISHED}, {"geom_gcn": np.roll(PUBLISHED, 7, axis=1)}
    runs = [make_run(tmp_path / "a", splits=ours), make_run(tmp_path / "b", alpha=0.3, splits=theirs)]
    assert runs[0].graph.fingerprint == runs[1].graph.fingerprint
    rows = evaluate(runs, protocol=protocol("geom_gcn"), features=True, device="cpu")
    assert rows[1].minus(rows[0]) is None and not against_the_first(rows)
    for run, row in zip(runs, rows, strict=True):
        [alone] = evaluate([run], protocol=protocol("geom_gcn"), features=True, device="cpu")
        assert [one.scores for one in row.untrained] == [one.scores for one in alone.untrained]
    assert rows[0].untrained[0].scores != rows[1].untrained[0].scores
    first, second = evaluate(runs, protocol=PAPER, device="cpu")
    assert second.minus(first) is not None


def test_a_copy_of_a_published_graph_under_another_name_trains_on_other_nodes_and_is_not_paired(tmp_path: Path) -> None:
    labels = np.arange(NODES) % 3
    labels[:12] = 0  # or 5 per class would be what 60 % are
    few = PAPER.updated({"nodes_per_class": 5})
    runs = [make_run(tmp_path / name, labels=labels, name=name, features=1433) for name in ("cora", "mine")]
    assert runs[0].graph.fingerprint == runs[1].graph.fingerprint
    rows = evaluate(runs, protocol=few, splits=3, features=True, device="cpu")
    assert against_the_first(rows) == []
    for run, row in zip(runs, rows, strict=True):
        [alone] = evaluate([run], protocol=few, splits=3, features=True, device="cpu")
        assert [one.accuracy for one in row.untrained] == [one.accuracy for one in alone.untrained]


@pytest.mark.parametrize("splits", [0, -1])
def test_no_splits_at_all_are_refused(splits: int, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=f"splits={splits} is not accepted"):
        fossil.evaluate(make_run(tmp_path / "a"), splits=splits, device="cpu")


def test_published_splits_that_a_run_does_not_have_are_asked_for_in_vain(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    with pytest.raises(EvaluationError, match="town comes without the published splits of the protocol 'public'"):
        fossil.evaluate(run, protocol="public", device="cpu")
    assert not list(run.path.glob("scores-*"))
    with pytest.raises(EvaluationError, match="per class cannot be chosen"):
        fossil.evaluate(run, protocol="geom_gcn", nodes_per_class=3, device="cpu")


def test_a_row_knows_its_test_nodes_and_what_another_draw_of_them_would_change(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    [row] = evaluate([run], protocol=PAPER.updated({"confidence": 0.9}), splits=2, device="cpu")
    assert row.test_nodes == len(PAPER.draw(np.arange(NODES) % 3, 0, "town").test) == 12
    theirs = scipy.stats.binomtest(7, 12).proportion_ci(0.9, method="wilson")
    exact = replace(row, metrics={"accuracy": Summary((7 / 12,))})
    assert exact.test_half_width == pytest.approx((theirs.high - theirs.low) / 2)
    assert "12 test nodes: the interval does not include what another draw" in row.protocol


def test_the_majority_is_scored_on_the_same_splits_as_scikit_learn_does(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed=seed, labels=UNEVEN) for seed in range(3)]
    [row] = evaluate(runs, protocol=PAPER, device="cpu")
    answers = []
    for seed in range(3):
        split = PAPER.draw(UNEVEN, seed, "town")
        nothing = np.zeros((NODES, 1))
        dummy = DummyClassifier(strategy="most_frequent").fit(nothing[split.train], UNEVEN[split.train])
        answers.append((UNEVEN[split.test], dummy.predict(nothing[split.test])))
    assert row.majority["accuracy"].values == pytest.approx([accuracy_score(*one) for one in answers])
    assert row.majority["macro_f1"].values == pytest.approx([f1_score(*one, average="macro") for one in answers])
    assert "test_maximum" not in row.majority


def test_encoders_of_different_seeds_with_equal_vectors_count_once(tmp_path: Path) -> None:
    first, second, third = (make_run(tmp_path / str(seed), seed=seed) for seed in range(3))
    write_vectors(second.path, first.graph.ids, first.arrays["vectors"])
    with pytest.warns(FossilWarning, match=r"0 \(seed 0\) and .*1 \(seed 1\) have equal vectors") as caught:
        [row] = evaluate([first, Run.open(second.path), third], protocol=PAPER, device="cpu")
    assert len(caught) == 1 and list(row.scores) == [0, 2] and row.accuracy.n == 2


def test_rows_that_share_nodes_seeds_and_splits_are_paired(tmp_path: Path) -> None:
    ours = [make_run(tmp_path / f"a{seed}", seed=seed) for seed in range(3)]
    theirs = [make_run(tmp_path / f"b{seed}", seed=seed, alpha=0.3, noise=1.2) for seed in (2, 0, 1)]
    rows = evaluate([*ours, *theirs], protocol=PAPER, device="cpu")
    [(second, first, found)] = against_the_first(rows)
    assert (first, second) == (rows[0], rows[1])
    a, b = ([row.scores[seed][0].accuracy for seed in range(3)] for row in (first, second))
    expected = scipy.stats.ttest_rel(b, a).confidence_interval(0.95)
    assert found.interval is not None
    np.testing.assert_allclose(found.interval[:2], (expected.low, expected.high))
    assert found.mean == pytest.approx(np.mean(b) - np.mean(a))


def test_single_encoders_are_paired_split_by_split(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", alpha=0.3, noise=1.2)]
    first, second = evaluate(runs, protocol=PAPER, splits=5, device="cpu")
    found = second.minus(first)
    assert found is not None
    assert found.values == pytest.approx(np.subtract(second.accuracy.values, first.accuracy.values))


@pytest.mark.parametrize("change", [{"seed": 1}, {"labels": np.arange(60) % 2}, {"name": "city", "seed": 5}])
def test_rows_of_other_seeds_or_other_labels_are_not_paired(tmp_path: Path, change: dict[str, object]) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", alpha=0.3, **change)]  # type: ignore[arg-type]
    assert against_the_first(evaluate(runs, protocol=PAPER, splits=2, device="cpu")) == []


@pytest.mark.parametrize("second", ["a", "b"])
def test_an_encoder_counts_once(tmp_path: Path, second: str) -> None:
    first = make_run(tmp_path / "a", seed=7)
    again = first if second == "a" else make_run(tmp_path / "b", seed=7)
    with pytest.raises(EvaluationError, match="would count as two encoders") as caught:
        evaluate([make_run(tmp_path / "other", seed=8), first, again], protocol=PAPER, device="cpu")
    named = [tmp_path / "a", tmp_path / second, "7"]
    assert all(str(name) in caught.value.what for name in named)
    assert not list(tmp_path.rglob("scores-*.json"))


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_the_largest_seed_can_be_scored(tmp_path: Path, rule: str) -> None:
    run = make_run(tmp_path / "a", seed=2**32 - 1)
    evaluate([run], protocol=protocol(rule), splits=3, device="cpu")
    kept = json.loads((run.path / f"scores-{rule}.json").read_text())
    assert [one["seed"] for one in kept["scores"]] == [2**32 - 1, 999, 1999]


@pytest.mark.parametrize(
    "change", [{"alpha": 0.3}, {"epochs": 10}, {"preset": "paper", "alpha": 0.4}, {"name": "city"}]
)
def test_runs_that_differ_in_more_than_the_seed_do_not(tmp_path: Path, change: dict[str, object]) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, **change)]  # type: ignore[arg-type]
    rows = evaluate(runs, protocol=PAPER, splits=1, device="cpu")
    assert [row.encoders for row in rows] == [1, 1]


def test_runs_along_other_channels_are_another_row(graph: Graph) -> None:
    small = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 6}
    one, other, third = (
        fossil.embed(graph, method="fossil_channels", settings=small | changes, epochs=1, seed=seed, device="cpu")
        for seed, changes in ((0, {}), (1, {}), (0, {"channels": ["identity", "low"]}))
    )
    rows = fossil.evaluate([one, other, third], splits=1, features=False, device="cpu")
    assert [row.encoders for row in rows] == [2, 1]
    assert "channels" not in rows[0].method.split("FOSSIL channels")[1] and "channels=identity,low" in rows[1].method


def test_a_row_says_what_sets_its_runs_apart_from_the_defaults(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a"),
        make_run(tmp_path / "b", preset="paper"),
        make_run(tmp_path / "c", alpha=0.4, epochs=7),
    ]
    titles = [row.method for row in evaluate(runs, protocol=PAPER, splits=1, device="cpu")]
    assert titles == ["FOSSIL", "FOSSIL (paper)", "FOSSIL alpha=0.4 epochs=7"]


def test_features_are_scored_on_the_splits_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", seed=2)
    [row] = evaluate([run], protocol=PAPER, splits=3, features=True, device="cpu")
    unit = normalize(run.graph.features)
    expected = score(unit, np.arange(NODES) % 3, PAPER, graph_name="town", seeds=[2, 1002, 2002])
    features, prop = row.untrained
    assert (features.method, prop.method, prop.trained, row.trained) == ("Features", "Propagated features", False, True)
    assert features.accuracy.values == pytest.approx([one.accuracy for one in expected])
    assert features.metrics["macro_f1"].mean == pytest.approx(np.mean([one.macro_f1 for one in expected]))
    assert prop.accuracy == features.accuracy  # a graph without edges has nothing to propagate along
    assert row.beats_untrained and row.to_beat is features


def test_untrained_rows_stand_beside_a_comparison_unless_somebody_says_otherwise(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def watched(kind: type[Features], graph: Graph, device: torch.device) -> Array | None:
        made.append(kind.name)
        return untrained_vectors(kind, graph, device)

    monkeypatch.setattr("fossil.evaluation.untrained.untrained_vectors", watched)
    one_way = replace(graph, adjacency=sp.csr_array(sp.triu(graph.adjacency)))
    given = [(graph, 0), (graph, 1), (one_way, 0)]
    results = [
        fossil.embed(source, method="dgi", seed=seed, epochs=1, settings={"width": 4}, device="cpu")
        for source, seed in given
    ]
    [alone] = fossil.evaluate(results[:2], device="cpu")
    assert alone.untrained == () and alone.to_beat is None and alone.beats_untrained is None and not made
    assert all(row.untrained == () for row in fossil.evaluate(results, features=False, device="cpu"))
    both, directed = fossil.evaluate(results, splits=2, device="cpu")
    assert made == ["features", "prop", "features", "prop"]  # once for each graph
    for row, source in ((both, graph), (directed, one_way)):
        prop = fossil.embed(source, method="prop", device="cpu")
        for seed, scores in row.untrained[1].scores.items():
            seeds = [seed, seed + 1000]
            labels = np.asarray(graph.labels)
            assert list(scores) == score(prop.vectors, labels, PAPER, graph_name="", seeds=seeds)
        difference = row.minus(row.untrained[1])
        assert difference is not None
        assert difference.mean == pytest.approx(row.accuracy.mean - row.untrained[1].accuracy.mean)


def test_who_is_not_above_the_better_untrained_row_beyond_doubt_does_not_beat_it(tmp_path: Path) -> None:
    [row] = evaluate([make_run(tmp_path / "a")], protocol=PAPER, splits=4, features=True, device="cpu")

    def among(*accuracies: float) -> Row:
        scores = [replace(one, accuracy=value) for one, value in zip(row.scores[0], accuracies, strict=False)]
        return replace(row, scores={0: scores}, metrics={"accuracy": PAPER.summarize(accuracies)}, untrained=())

    floor, lower = among(0.5, 0.6, 0.7, 0.6), among(0.1, 0.1, 0.1, 0.1)
    for accuracies, beaten in (((0.6, 0.7, 0.8, 0.71), True), ((0.9, 0.6, 0.7, 0.6), False), ((0.4,) * 4, False)):
        compared = replace(among(*accuracies), untrained=(lower, floor))
        expected = scipy.stats.ttest_rel(accuracies, floor.accuracy.values).confidence_interval(0.95).low > 0
        assert compared.to_beat is floor and compared.beats_untrained is beaten is bool(expected)
    few = replace(among(0.9, 0.55), untrained=(among(0.5, 0.6),))
    assert few.beats_untrained  # two values have no interval: the mean decides
    assert replace(few, untrained=(among(0.9, 0.55),)).beats_untrained is False


def test_an_untrained_run_is_compared_with_nothing(graph: Graph) -> None:
    results = [fossil.embed(graph, method=name, device="cpu") for name in ("prop", "features")]
    prop, features = fossil.evaluate(results, splits=2, features=True, device="cpu")
    assert (prop.method, features.method) == ("Propagated features", "Features")
    assert prop.untrained == features.untrained == () and not prop.trained
    some = fossil.embed(graph, method="prop", settings={"channels": "identity,low"}, device="cpu")
    rows = fossil.evaluate([results[0], some], splits=1, device="cpu")
    assert [row.method for row in rows] == ["Propagated features", "Propagated features channels=identity,low"]


def test_untrained_rows_that_do_not_fit_in_memory_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "a")
    monkeypatch.setattr("fossil.evaluation.untrained.free_memory", lambda device: 10)
    with pytest.warns(FossilWarning, match="eatures of town would take"):
        [row] = evaluate([run], protocol=PAPER, splits=1, features=True, device="cpu")
    assert row.untrained == ()


def test_progress_rises_over_all_runs_and_features_to_one(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed=seed) for seed in range(2)]
    heard: list[float] = []
    fossil.evaluate([*runs, make_run(tmp_path / "c", alpha=0.3)], features=True, device="cpu", progress=heard.append)
    assert heard == sorted(heard) and heard[0] > 0 and heard[-1] == 1.0
    assert {round(9 * share, 9) for share in heard} >= set(range(1, 10))  # three runs, each beside two untrained rows


def test_the_released_protocol_also_gives_the_test_maximum(tmp_path: Path) -> None:
    [row] = evaluate([make_run(tmp_path / "a")], protocol=protocol("released"), splits=2, device="cpu")
    assert list(row.metrics) == ["accuracy", "macro_f1", "test_maximum"]
    assert row.metrics["test_maximum"].mean >= row.accuracy.mean
    assert (tmp_path / "a" / "scores-released.json").exists()


def test_the_published_figure_stands_beside_the_published_graph_and_settings_alone(tmp_path: Path) -> None:
    few = PAPER.updated({"nodes_per_class": 5})
    cora = {"name": "cora", "features": 1433}
    published = {
        "the recipe": (make_run(tmp_path / "a", **cora, recipe=True), 80.02),  # Table 2 of the paper
        "other settings": (make_run(tmp_path / "b", **cora, alpha=0.4), None),
        "a folder of that name": (make_run(tmp_path / "c", name="cora", recipe=True), None),
        "another graph": (make_run(tmp_path / "d"), None),
    }
    for run, expected in published.values():
        [row] = evaluate([run], protocol=few, splits=1, device="cpu")
        assert row.published == expected


def test_no_labels(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="has no labels to score against"):
        evaluate([make_run(tmp_path / "a", labels=False)], protocol=PAPER)


def test_an_unfinished_run_is_not_scored(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run.path / "summary.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        evaluate([run], protocol=PAPER)
    assert not (run.path / "scores-paper.json").exists()


def test_embeddings_of_other_nodes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    write_vectors(run.path, np.arange(NODES)[::-1], np.eye(NODES, 3, dtype=np.float32))
    with pytest.raises(RunError, match=r"its nodes are not those of graph\.npz"):
        evaluate([run], protocol=PAPER)


SMALL = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 6, "encoder": "gcn"}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return csbm(nodes=60, features=6, seed=1)


def test_folders_runs_and_lists_of_them_are_scored_alike(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", seed=3)
    [expected] = evaluate([run], protocol=PAPER, splits=2, device="cpu")
    for given in (str(run.path), run.path, run, [run.path], (run,)):
        assert fossil.evaluate(given, splits=2, device="cpu") == [expected]
    other = make_run(tmp_path / "b", seed=4)
    [row] = fossil.evaluate([str(run.path), other], device="cpu")
    assert (row.encoders, row.splits) == (2, 1)
    with pytest.raises(RunError, match="is not a run folder"):
        fossil.evaluate(tmp_path)


def test_vectors_without_a_graph_are_no_run(graph: Graph, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    for given in (run.embeddings.vectors, run.embeddings, [run.embeddings], {"a": run}):
        with pytest.raises(EvaluationError, match=r"A (ndarray|Embeddings|dict) is not a run, .*OutsideVectors"):
            fossil.evaluate(given, device="cpu")  # type: ignore[arg-type]


def test_a_result_in_memory_is_scored_as_its_folder_is_and_nothing_is_written(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"method": "fossil", "epochs": 2, "settings": SMALL, "device": "cpu"}
    result = fossil.embed(graph, **asked)  # type: ignore[arg-type]
    [in_memory] = fossil.evaluate(result, splits=3, features=True, device="cpu")
    assert result.path is None and list(tmp_path.iterdir()) == []
    assert (in_memory.encoders, in_memory.splits, in_memory.accuracy.n) == (1, 3, 3)
    kept = fossil.embed(graph, out=tmp_path / "run", **asked)  # type: ignore[arg-type]
    assert fossil.evaluate(kept, splits=3, features=True, device="cpu") == [in_memory]
    assert fossil.evaluate(tmp_path / "run", splits=3, features=True, device="cpu") == [in_memory]
    stored = json.loads((tmp_path / "run" / "scores-paper.json").read_text())
    assert in_memory.accuracy.values == tuple(one["accuracy"] for one in stored["scores"])


def test_results_in_memory_share_a_row_and_count_once(graph: Graph) -> None:
    results = [
        fossil.embed(graph, method="fossil", seed=seed, epochs=1, settings=SMALL, device="cpu") for seed in (0, 1)
    ]
    [row] = fossil.evaluate(results, device="cpu")
    assert (row.encoders, row.splits) == (2, 1)
    with pytest.raises(EvaluationError, match=r"A result in memory \(seed 1\) is given twice"):
        fossil.evaluate([*results, results[1]], device="cpu")
    again = fossil.embed(graph, method="fossil", seed=0, epochs=1, settings=SMALL, device="cpu")
    with pytest.raises(EvaluationError, match="A result in memory and A result in memory have the same graph"):
        fossil.evaluate([*results, again], device="cpu")


def test_a_protocol_is_named_or_given_and_can_train_on_few_nodes_of_each_class(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    own = PAPER.updated({"name": "mine", "strengths": (1.0,)})
    for asked, name in (("paper-unit-rows", "paper-unit-rows"), (own, "mine"), (None, "paper")):
        [row] = fossil.evaluate(run, protocol=asked, splits=1, device="cpu")
        assert row.protocol.startswith(f"Protocol {name!r}") and (run.path / f"scores-{name}.json").exists()
    [row] = fossil.evaluate(run, nodes_per_class=5, splits=1, device="cpu")
    assert "train on 5 per class" in row.protocol and "15 training" in row.protocol
    with pytest.raises(EvaluationError, match="Did you mean 'paper'"):
        fossil.evaluate(run, protocol="papr")


@pytest.mark.parametrize(("settings", "expected"), [({}, "released"), ({"split": "paper"}, "paper")])
@pytest.mark.parametrize("stored", [False, True])
def test_a_run_that_was_trained_on_labels_settles_the_protocol(
    graph: Graph, tmp_path: Path, settings: dict[str, str], expected: str, stored: bool
) -> None:
    out = tmp_path / "run" if stored else None
    result = fossil.embed(graph, method="fs_mlp", settings=settings, epochs=2, seed=5, device="cpu", out=out)
    [row] = fossil.evaluate(out or result, splits=7, device="cpu")
    rule: Protocol = protocol(expected)
    labels = np.asarray(graph.labels)
    test = rule.draw(labels, 5, "").test
    assert (row.supervised, row.splits, row.accuracy.n) == (True, 1, 1)
    assert row.protocol.startswith(f"Protocol {expected!r}")
    assert row.accuracy.mean == pytest.approx(np.mean(result.vectors[test].argmax(axis=1) == labels[test]))
    other = {"paper": "released", "released": "paper"}[expected]
    with pytest.raises(EvaluationError, match="another split"):
        fossil.evaluate(out or result, protocol=other, device="cpu")


def test_runs_without_labels_follow_the_protocol_of_those_with(graph: Graph) -> None:
    supervised = fossil.embed(graph, method="fs_mlp", epochs=1, device="cpu")
    other = fossil.embed(graph, method="fossil", epochs=1, settings=SMALL, device="cpu")
    rows = fossil.evaluate([supervised, other], splits=1, device="cpu")
    assert [row.protocol.startswith("Protocol 'released'") for row in rows] == [True, True]
    assert [row.supervised for row in rows] == [True, False]
    elsewhere = fossil.embed(graph, method="fs_mlp", settings={"split": "paper"}, epochs=1, device="cpu")
    with pytest.raises(EvaluationError, match="splits of different rules"):
        fossil.evaluate([supervised, elsewhere], device="cpu")


def test_a_row_says_that_a_directed_graph_was_made_undirected(graph: Graph) -> None:
    one_way = replace(graph, adjacency=sp.csr_array(sp.triu(graph.adjacency)))
    results = [
        fossil.embed(given, method=method, epochs=1, settings={"width": 16}, device="cpu")
        for given in (graph, one_way)
        for method in ("dssl", "dgi")
    ]
    rows = fossil.evaluate(results, splits=1, device="cpu")
    assert [row.method.split(" width")[0] for row in rows] == ["DSSL", "DGI", "DSSL (undirected)", "DGI"]
