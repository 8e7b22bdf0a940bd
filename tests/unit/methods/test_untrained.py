from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import yaml
from sklearn.preprocessing import normalize

import fossil
import fossil.runs.fit
from fossil.errors import FossilWarning, GraphError, SettingError
from fossil.estimator import FossilEmbedder
from fossil.graph.graph import Array, Graph
from fossil.methods.registry import get_method
from fossil.methods.untrained import PropSettings
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.training.progress import Silent

NODES = 50


def make_graph(*, features: int = 6, directed: bool = False, sparse: bool = False, seed: int = 0) -> Graph:
    random = np.random.default_rng(seed)
    edges = random.random((NODES, NODES)) < 0.08
    np.fill_diagonal(edges, False)
    edges[7] = edges[:, 7] = False
    values = random.normal(size=(NODES, features)) * 0.7 ** np.arange(features)
    values[9] = 0
    values = values.astype(np.float32)
    adjacency = sp.csr_array((edges if directed else edges | edges.T).astype(np.float32))
    return Graph("town", adjacency, sp.csr_array(values) if sparse else values, np.arange(NODES))


def embed(graph: Graph, method: str = "prop", **options: Any) -> fossil.runs.embeddings.FitResult:
    return fossil.embed(graph, method=method, device="cpu", **options)


def by_hand(graph: Graph, start: Array) -> Array:
    """Propagation in float64, with dense matrices, from the definitions."""
    a = graph.adjacency.toarray().astype(np.float64)
    both = ((a + a.T) > 0).astype(np.float64)

    def symmetric(matrix: Array) -> Array:
        scale = np.diag([1 / np.sqrt(total) if total else 0.0 for total in matrix.sum(axis=1)])
        return scale @ matrix @ scale

    def means(matrix: Array) -> Array:
        return normalize(matrix, norm="l1")

    hops = [symmetric(both + np.eye(NODES))]
    hops += [means(a), means(a.T)] if graph.is_directed else [symmetric(both)]
    parts = [start, *(power @ start for hop in hops for power in (hop, hop @ hop))]
    return np.hstack([normalize(part) for part in parts])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_narrow_features_are_propagated_as_they_are(directed: bool, sparse: bool) -> None:
    graph = make_graph(directed=directed, sparse=sparse)
    found = embed(graph)
    dense = graph.features.toarray() if sparse else graph.features
    np.testing.assert_allclose(found.vectors, by_hand(graph, dense.astype(np.float64)), atol=1e-5)
    assert not found.vectors[9, :6].any() and found.history == []
    np.testing.assert_allclose(embed(graph, "features").vectors, normalize(dense), atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_wide_features_are_first_reduced_to_their_leading_directions(sparse: bool) -> None:
    graph = make_graph(features=20, sparse=sparse)
    found = embed(graph, settings={"width": 5, "oversampling": 3})
    dense = (graph.features.toarray() if sparse else graph.features).astype(np.float64)
    exact = np.linalg.svd(dense)[2][:5].T
    exact *= np.sign(exact[np.abs(exact).argmax(axis=0), range(5)])
    np.testing.assert_allclose(found.vectors, by_hand(graph, dense @ exact), atol=2e-3)
    np.testing.assert_allclose(found.method.reduction.directions, exact, atol=2e-3)


def test_channels_are_chosen_by_name_and_a_run_keeps_those_it_has() -> None:
    graph = make_graph()
    whole, some = embed(graph), embed(graph, settings={"channels": "low, identity"})
    assert whole.config.settings.channels == ("identity", "low", "low2", "neighbours", "neighbours2")
    np.testing.assert_array_equal(some.vectors, np.hstack([whole.vectors[:, 6:12], whole.vectors[:, :6]]))
    with pytest.warns(FossilWarning, match="town is undirected and has no channel in, which is left out") as told:
        found = embed(graph, settings={"channels": ["in", "low"]})
    assert found.config.settings.channels == ("low",) and len(told) == 1
    with pytest.raises(SettingError, match="Unknown channel 'lo'") as caught:
        embed(graph, settings={"channels": ["lo"]})
    assert caught.value.remedy == "Did you mean 'low'?"
    with pytest.raises(SettingError, match="has no channel in"):
        embed(graph, settings={"channels": "in"})
    with pytest.raises(SettingError, match="channels=3 is not accepted"):
        embed(graph, settings={"channels": 3})


@pytest.mark.parametrize("method", ["features", "prop"])
@pytest.mark.parametrize(
    "change",
    [
        {"adjacency": sp.csr_array((NODES, NODES), dtype=np.float32)},
        {"features": np.ones((NODES, 1), np.float32)},
        {"features": np.zeros((NODES, 6), np.float32)},
        {"features": np.full((NODES, 6), 1e-30, np.float32)},
        {"features": np.full((NODES, 6), 1e-40, np.float32)},
        {"features": make_graph().features * np.float32(1e36)},
        {"adjacency": sp.csr_array((np.ones(NODES - 1), (np.zeros(NODES - 1, int), np.arange(1, NODES))),
                                   shape=(NODES, NODES))},
    ],
    ids=["no edges", "one feature", "zero features", "tiny features", "subnormal", "huge features", "sinks alone"],
)  # fmt: skip
@pytest.mark.parametrize("width", [3, 512])
def test_every_graph_has_finite_vectors(method: str, change: dict[str, Any], width: int) -> None:
    graph = replace(make_graph(), **change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FossilWarning)  # vectors on a line are called a collapse, rightly
        found = embed(graph, method, settings={"width": width}, allow_no_edges=True)
    lengths = np.linalg.norm(found.vectors.reshape(NODES, -1, min(width, graph.num_features)), axis=2)
    assert np.isfinite(found.vectors).all()
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths < 1e-5))
    seen = np.abs(graph.features).max(axis=1) > 0
    assert width < graph.num_features or (lengths[seen, 0] > 0.5).all()


def test_a_collapse_is_told_without_advice_on_training() -> None:
    graph = replace(make_graph(), features=np.ones((NODES, 1), np.float32))
    with pytest.warns(FossilWarning, match=r"Check that the features differ between nodes[^,]*\.$"):
        embed(graph, "features")


def test_a_graph_without_features_is_refused() -> None:
    with pytest.raises(GraphError, match="town has no features") as caught:
        embed(replace(make_graph(), features=np.ones((NODES, 0), np.float32)))
    assert "--structural-features" in caught.value.remedy


def test_epochs_have_no_effect_and_are_refused() -> None:
    with pytest.raises(SettingError, match="Propagated features is not trained, and takes no epochs") as caught:
        embed(make_graph(), epochs=5)
    assert caught.value.remedy == "Leave it out."


def test_what_does_not_fit_in_memory_is_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fossil.runs.fit, "free_memory", lambda device: 1000)
    with pytest.raises(GraphError, match=r"^Propagated features on town \(50 nodes\) needs about") as caught:
        embed(make_graph())
    assert "Make width" in caught.value.remedy


@pytest.mark.parametrize(("features", "width"), [(6, 512), (3000, 5)], ids=["many nodes", "many features"])
def test_memory_is_that_of_the_vectors_and_of_the_directions_and_not_far_above(features: int, width: int) -> None:
    graph = make_graph(features=features)
    method = get_method("prop").build(PropSettings(width=width), features, 0)
    kept = 4 * min(width, features) * (5 * NODES + (features if features > width else 0))
    assert kept < method.memory(method.prepare(graph, torch.device("cpu"))) < 8 * kept


def test_features_of_exactly_the_width_are_kept_as_they_are() -> None:
    graph = make_graph(features=6)
    np.testing.assert_allclose(
        embed(graph, "features", settings={"width": 6}).vectors, normalize(graph.features), atol=1e-6
    )


def test_unknown_channels_are_refused_before_any_graph_is_read() -> None:
    with pytest.raises(SettingError, match="Unknown channel 'lo'"):
        PropSettings.build({"channels": "identity,lo"})


@pytest.mark.parametrize("width", [4, 512])
def test_new_nodes_have_vectors_in_the_same_coordinates(tmp_path: Path, width: int) -> None:
    first, other = make_graph(features=9, directed=True), make_graph(features=9, directed=False, seed=5)
    result = embed(first, settings={"width": width}, out=tmp_path / "run")
    run = fossil.load(tmp_path / "run")
    np.testing.assert_array_equal(run.embed(first).vectors, result.vectors)
    found = run.embed(other).vectors
    assert found.shape == result.vectors.shape  # the channels of a directed graph, though this one is not
    directions = np.eye(9) if width > 9 else np.asarray(result.method.reduction.directions)
    np.testing.assert_allclose(found[:, : min(width, 9)], normalize(other.features @ directions), atol=1e-5)
    out, into = (found[:, start * min(width, 9) : (start + 1) * min(width, 9)] for start in (3, 5))
    np.testing.assert_allclose(out, into, atol=1e-5)


def test_a_run_says_what_was_done_and_is_not_repeated(tmp_path: Path) -> None:
    graph = make_graph(features=20)
    options: dict[str, Any] = {"settings": {"width": 4}, "out": tmp_path / "run"}
    result = embed(graph, **options)
    run = fossil.load(tmp_path / "run")
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["training"]["epochs"] is None
    assert run.finished and run.summary["epochs"] == 0 and run.summary["seconds"] > 0
    again = embed(graph, **options, resume=True)
    np.testing.assert_array_equal(again.vectors, result.vectors)
    plan = plan_run(graph, method="prop")
    assert plan.describe() == "prop, preset default, seed 0, no training" and plan.epochs == 0


def test_nothing_is_said_of_epochs() -> None:
    class Reporter(Silent):
        def start(self, done: int, total: int) -> None:
            raise AssertionError("there is no training to show")

    fit(plan_run(make_graph(), method="features", training={"device": "cpu"}), Reporter())


def test_the_embedder_transforms_other_graphs() -> None:
    first, other = make_graph(features=9), make_graph(features=9, seed=5)
    model = FossilEmbedder("prop", settings={"width": 4}, device="cpu").fit(first)
    np.testing.assert_allclose(model.transform(first), model.embedding_, atol=1e-6)
    assert model.transform(other).shape == (NODES, 20) and model.history_ == []


def test_seeds_agree_where_directions_are_apart_and_bits_are_repeated() -> None:
    graph = make_graph(features=40)
    first, again, other = (embed(graph, settings={"width": 6}, seed=seed).vectors for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(other, first, atol=1e-3)
    assert not np.array_equal(other, first)


def test_blocks_of_precision_do_not_reach_the_directions() -> None:
    graph = make_graph(features=20)
    plain = embed(graph, settings={"width": 4})
    with torch.autocast("cpu", torch.bfloat16):
        narrow = embed(graph, settings={"width": 4})
    np.testing.assert_array_equal(plain.method.reduction.directions, narrow.method.reduction.directions)
