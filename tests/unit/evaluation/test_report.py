from __future__ import annotations

import io
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console

from fossil.errors import EvaluationError, FossilWarning, RunError
from fossil.evaluation.protocol import protocol, score
from fossil.evaluation.report import Row, evaluate_runs, score_features, table_of
from fossil.evaluation.statistics import Summary
from fossil.fit import resolve_settings
from fossil.graph.graph import Graph
from fossil.run import Run, RunConfig, write_embeddings, write_inputs
from fossil.storage import write_json
from fossil.training.trainer import TrainingSettings

PAPER = protocol("paper")
NODES = 60


def make_run(
    path: Path,
    *,
    seed: int = 0,
    alpha: float = 0.5,
    epochs: int = 300,
    preset: str = "released",
    labels: bool = True,
    name: str = "town",
    features: int = 4,
    recipe: bool = False,
) -> Run:
    """A finished run whose vectors depend on the seed and know the labels fairly well."""
    random = np.random.default_rng(seed)
    kind = np.arange(NODES) % 3
    columns = np.random.default_rng(99).normal(size=(NODES, features)).astype(np.float32)
    vectors = (np.eye(3)[kind] + 0.6 * random.normal(size=(NODES, 3))).astype(np.float32)
    adjacency = sp.csr_array((NODES, NODES), dtype=np.float32)
    graph = Graph(name, adjacency, columns, np.arange(NODES), kind if labels else None)
    training = TrainingSettings(epochs=epochs)
    _, settings = resolve_settings("fossil", preset, name if recipe else "", {} if recipe else {"alpha": alpha})
    config = RunConfig("fossil", preset, settings, training, seed, name, graph.fingerprint)
    write_inputs(path, config, {}, graph, None)
    write_embeddings(path, graph.ids, vectors, None)
    write_json(path / "summary.json", {})
    return Run.open(path)


@pytest.mark.parametrize(("longer", "warned"), [(50, False), (5000, True)])
def test_vectors_of_very_different_length_are_warned_about(tmp_path: Path, longer: float, warned: bool) -> None:
    run = make_run(tmp_path / "a")
    vectors = run.arrays["vectors"].copy()
    vectors[:6] *= longer
    write_embeddings(run.path, run.graph.ids, vectors, None)
    run = Run.open(run.path)
    expectation = pytest.warns(FossilWarning, match="--protocol paper-unit-rows") if warned else nullcontext()
    with expectation:
        evaluate_runs([run], PAPER, splits=1, device="cpu")
    evaluate_runs([run], protocol("paper-unit-rows"), splits=1, device="cpu")  # any warning is an error here
    scores = json.loads((run.path / "scores-paper-unit-rows.json").read_text())
    assert scores["protocol"]["unit_rows"]


def test_a_single_run_is_scored_on_ten_splits_from_its_own_seed_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", seed=3)
    [row] = evaluate_runs([run], PAPER, device="cpu")
    seeds = [3 + 1000 * i for i in range(10)]
    expected = score(run.arrays["vectors"], np.arange(NODES) % 3, PAPER, graph_name="town", seeds=seeds)
    assert (row.encoders, row.splits) == (1, 10)
    assert row.accuracy.mean == pytest.approx(np.mean([one.accuracy for one in expected]))
    kept = json.loads((run.path / "scores-paper.json").read_text())
    assert [one["seed"] for one in kept["scores"]] == seeds
    assert [one["accuracy"] for one in kept["scores"]] == [one.accuracy for one in expected]


def test_runs_that_differ_in_their_seed_share_a_row(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed=seed) for seed in range(3)]
    [row] = evaluate_runs(runs, PAPER, device="cpu")
    assert (row.encoders, row.splits) == (3, 1)
    kept = [json.loads((run.path / "scores-paper.json").read_text())["scores"] for run in runs]
    assert [[one["seed"] for one in scores] for scores in kept] == [[0], [1], [2]]
    assert row.accuracy.mean == pytest.approx(np.mean([scores[0]["accuracy"] for scores in kept]))


def test_the_interval_of_several_encoders_is_over_encoders_not_splits(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(seed), seed=seed) for seed in range(2)]
    [row] = evaluate_runs(runs, PAPER, splits=4, device="cpu")
    kept = [json.loads((run.path / "scores-paper.json").read_text())["scores"] for run in runs]
    means = [np.mean([one["accuracy"] for one in scores]) for scores in kept]
    assert (row.accuracy.low, row.accuracy.high) == (pytest.approx(min(means)), pytest.approx(max(means)))


@pytest.mark.parametrize("second", ["a", "b"])
def test_an_encoder_counts_once(tmp_path: Path, second: str) -> None:
    first = make_run(tmp_path / "a", seed=7)
    again = first if second == "a" else make_run(tmp_path / "b", seed=7)
    with pytest.raises(EvaluationError, match="would count as two encoders") as caught:
        evaluate_runs([make_run(tmp_path / "other", seed=8), first, again], PAPER, device="cpu")
    named = [tmp_path / "a", tmp_path / second, "7"]
    assert all(str(name) in caught.value.what for name in named)
    assert not list(tmp_path.rglob("scores-*.json"))


@pytest.mark.parametrize("rule", ["paper", "released"])
def test_the_largest_seed_can_be_scored(tmp_path: Path, rule: str) -> None:
    run = make_run(tmp_path / "a", seed=2**32 - 1)
    evaluate_runs([run], protocol(rule), splits=3, device="cpu")
    kept = json.loads((run.path / f"scores-{rule}.json").read_text())
    assert [one["seed"] for one in kept["scores"]] == [2**32 - 1, 999, 1999]


@pytest.mark.parametrize(
    "change", [{"alpha": 0.3}, {"epochs": 10}, {"preset": "paper", "alpha": 0.4}, {"name": "city"}]
)
def test_runs_that_differ_in_more_than_the_seed_do_not(tmp_path: Path, change: dict[str, object]) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, **change)]  # type: ignore[arg-type]
    rows = evaluate_runs(runs, PAPER, splits=1, device="cpu")
    assert [row.encoders for row in rows] == [1, 1]


def test_a_row_says_what_sets_its_runs_apart_from_the_defaults(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a"),
        make_run(tmp_path / "b", preset="paper"),
        make_run(tmp_path / "c", alpha=0.4, epochs=7),
    ]
    titles = [row.method for row in evaluate_runs(runs, PAPER, splits=1, device="cpu")]
    assert titles == ["FOSSIL", "FOSSIL (paper)", "FOSSIL alpha=0.4 epochs=7"]


def test_features_are_scored_on_the_splits_of_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", seed=2)
    [row] = evaluate_runs([run], PAPER, splits=3, features=True, device="cpu")
    expected = score_features(run.graph, PAPER, [2, 1002, 2002])
    assert row.features is not None
    assert row.features.mean == pytest.approx(np.mean([one.accuracy for one in expected]))
    assert row.features.mean < row.accuracy.mean


def test_the_released_protocol_also_gives_the_test_maximum(tmp_path: Path) -> None:
    [row] = evaluate_runs([make_run(tmp_path / "a")], protocol("released"), splits=2, device="cpu")
    assert row.test_maximum is not None and row.test_maximum.mean >= row.accuracy.mean
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
        [row] = evaluate_runs([run], few, splits=1, device="cpu")
        assert row.published == expected


def test_no_labels(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="has no labels to score against"):
        evaluate_runs([make_run(tmp_path / "a", labels=False)], PAPER)


def test_an_unfinished_run_is_not_scored(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run.path / "summary.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        evaluate_runs([run], PAPER)
    assert not (run.path / "scores-paper.json").exists()


def test_embeddings_of_other_nodes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    write_embeddings(run.path, np.arange(NODES)[::-1], np.eye(NODES, 3, dtype=np.float32), None)
    with pytest.raises(EvaluationError, match="belong to other nodes"):
        evaluate_runs([run], PAPER)


def printed(rows: list[Row]) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table_of(rows, PAPER))
    return stream.getvalue()


def row(**changes: object) -> Row:
    several = Summary(0.8, 0.75, 0.85, 0.05, 0.03, 3, (0.77, 0.8, 0.83))
    base = {"graph": "town", "method": "FOSSIL", "encoders": 3, "splits": 1, "accuracy": several}
    rest = {"test_maximum": None, "features": None, "published": None, "protocol": "in words"}
    return Row(**(base | rest | changes))  # type: ignore[arg-type]


def test_the_table_has_only_columns_with_content() -> None:
    text = printed([row()])
    assert "80.00" in text and "75.00 to 85.00" in text and "3 × 1" in text
    assert not any(name in text for name in ("test maximum", "raw features", "published"))
    text = printed(
        [row(published=53.03, features=Summary(0.5, 0.45, 0.55, 0.05, 0.03, 3, (0.47, 0.5, 0.53))), row(graph="city")]
    )
    assert "published" in text and "53.03" in text and "50.00 ± 5.00" in text and "test maximum" not in text
