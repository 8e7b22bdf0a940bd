from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import yaml

import fossil.methods
from fossil.errors import FossilWarning, GraphError, RunError, SettingError
from fossil.fit import TrainingInterruptedError, fit, resolve_settings
from fossil.graph.findings import Finding
from fossil.graph.graph import Graph
from fossil.graph.read import LoadedGraph
from fossil.methods.fossil import Fossil
from fossil.methods.fossil_settings import PRESETS, FossilSettings
from fossil.training.trainer import TrainingSettings

SMALL = {"hidden": 8, "width": 4, "subgraph_size": 3, "num_anchors": 6}
CPU = TrainingSettings(epochs=3, device="cpu", checkpoint_seconds=0)


def ring(name: str = "ring", labels: bool = True) -> LoadedGraph:
    nodes = 20
    forward = np.roll(np.eye(nodes, dtype=np.float32), 1, axis=1)
    features = np.random.default_rng(0).normal(size=(nodes, 5)).astype(np.float32)
    ids = np.array([f"n{i}" for i in range(nodes)])
    known = np.arange(nodes) % 2 if labels else None
    return LoadedGraph(Graph(name, sp.csr_array(forward + forward.T), features, ids, known))


def recipe_of(graph: str) -> dict[str, object]:
    path = Path(fossil.methods.__path__[0]) / "recipes" / "fossil.yaml"
    settings: dict[str, object] = yaml.safe_load(path.read_text())[graph]["settings"]
    return settings


def test_a_catalogue_graph_gets_its_recipe() -> None:
    chosen, settings = resolve_settings("fossil", None, "cora", {})
    recipe = recipe_of("cora")
    assert chosen == "released" and recipe
    assert {key: getattr(settings, key) for key in recipe} == recipe
    assert any(getattr(FossilSettings(), key) != value for key, value in recipe.items())


@pytest.mark.parametrize(("graph", "use"), [("cora", False), ("my own", True)])
def test_no_recipe_unless_wanted_and_published(graph: str, use: bool) -> None:
    assert resolve_settings("fossil", None, graph, {}, use)[1] == FossilSettings()


def test_what_is_said_beats_the_preset_and_the_preset_beats_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    from fossil.methods.registry import Recipe

    published = {"ring": Recipe({"reach": "six_hop", "alpha": 0.9, "temperature": 2.0})}
    monkeypatch.setattr("fossil.fit.recipes", lambda method: published)
    chosen, settings = resolve_settings("fossil", "paper", "ring", {"alpha": 0.1})
    assert chosen == "paper"
    assert settings.reach == PRESETS["paper"]["reach"] == "two_hop"
    assert settings.temperature == 2.0 and settings.alpha == 0.1


def test_an_unknown_preset_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no preset"):
        fit(ring(), preset="latest", out=tmp_path / "run", training=CPU)
    assert not (tmp_path / "run").exists()


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = fit(ring(), settings=SMALL, training=CPU)
    assert list(tmp_path.iterdir()) == [] and result.path is None
    assert result.vectors.shape == (20, 4) and [record["epoch"] for record in result.history] == [1, 2, 3]
    assert result.fusion is not None and ((result.fusion >= 0) & (result.fusion <= 1)).all()


def test_vectors_are_found_by_id() -> None:
    result = fit(ring(), settings=SMALL, training=CPU)
    np.testing.assert_array_equal(result["n3"], result.vectors[3])
    with pytest.raises(GraphError, match="'n99' is not in graph"):
        _ = result["n99"]


def test_labels_do_not_reach_training() -> None:
    with_labels, without = (fit(ring(labels=known), settings=SMALL, training=CPU) for known in (True, False))
    np.testing.assert_array_equal(with_labels.vectors, without.vectors)


def test_a_method_that_trains_on_labels_refuses_a_graph_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class Supervised(Fossil):
        needs_labels = True

    monkeypatch.setattr("fossil.fit.get_method", lambda name: Supervised)
    with pytest.raises(GraphError, match="trains on labels, and ring has none"):
        fit(ring(labels=False), settings=SMALL, training=CPU)
    assert len(fit(ring(), settings=SMALL, training=CPU)) == 20


def test_the_folder_holds_what_was_returned(tmp_path: Path) -> None:
    from fossil.run import Run

    result = fit(ring(), settings=SMALL, training=CPU, out=tmp_path / "run", seed=4, source="somewhere")
    run = Run.open(tmp_path / "run")
    assert run.finished and run.config.seed == 4 and run.config.source == "somewhere"
    np.testing.assert_array_equal(run.arrays["vectors"], result.vectors)
    np.testing.assert_array_equal(run.arrays["fusion"], result.fusion)
    assert run.summary["epochs"] == 3 and run.summary["nodes"] == 20
    assert run.summary["lambda"]["mean"] == pytest.approx(float(np.mean(run.arrays["fusion"])))
    np.testing.assert_allclose(run.encode(ring().graph).vectors.numpy(), result.vectors, rtol=1e-5, atol=1e-6)


def test_resume_names_every_setting_that_changed(tmp_path: Path) -> None:
    fit(ring(), settings=SMALL, training=CPU, out=tmp_path)
    with pytest.raises(RunError, match=r"other settings: seed was 0, is 1; alpha was 0\.5, is 0\.25\."):
        fit(ring(), settings=SMALL | {"alpha": 0.25}, seed=1, training=CPU, out=tmp_path, resume=True)


def test_ctrl_c_in_memory_says_that_nothing_is_saved() -> None:
    class Impatient:
        def start(self, done: int, total: int) -> None:
            pass

        def update(self, epoch: int, record: dict[str, float]) -> None:
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)

        def finish(self) -> None:
            pass

    before = signal.getsignal(signal.SIGINT)
    many = CPU.updated({"epochs": 1000})
    with pytest.raises(TrainingInterruptedError, match=r"Stopped after epoch [23] of 1000\. Nothing was saved"):
        fit(ring(), settings=SMALL, training=many, reporter=Impatient())
    assert signal.getsignal(signal.SIGINT) is before


def test_a_diverging_run_ends_with_the_reason(tmp_path: Path) -> None:
    training = CPU.updated({"epochs": 200})
    with pytest.raises(RunError, match="diverged"):
        fit(ring(), settings=SMALL | {"learning_rate": 1e30}, training=training, out=tmp_path / "run")
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize(
    ("method", "preset", "has_another"),
    [("fossil", "released", False), ("fossil", "paper", True), ("dgi", None, False), ("gsc", None, True)],
)
def test_the_released_preset_is_advised_where_there_is_one_and_another_is_in_use(
    monkeypatch: pytest.MonkeyPatch, method: str, preset: str | None, has_another: bool
) -> None:
    settings = {key: value for key, value in SMALL.items() if method != "dgi" or key == "width"}
    monkeypatch.setattr("fossil.fit.effective_rank", lambda vectors: torch.tensor(1.0))
    with pytest.warns(FossilWarning, match="effective rank is 1.00") as caught:
        fit(ring(), method=method, preset=preset, settings=settings, training=CPU)
    said = str(caught[0].message)
    assert ("released preset" in said) == has_another
    assert "features differ" in said and "learning rate" in said and "number of epochs" in said
    too_fast = settings | {"learning_rate": 1e30}
    with pytest.raises(RunError, match="diverged") as diverged:
        fit(ring(), method=method, preset=preset, settings=too_fast, training=CPU.updated({"epochs": 200}))
    assert ("released preset" in diverged.value.remedy) == has_another
    assert "learning rates" in diverged.value.remedy and "checkpoint" not in diverged.value.remedy


def test_a_collapse_is_explained_by_what_was_found_about_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = ring()
    found = (Finding("self loops", 2, "removed"), Finding("zero feature rows", 3, "kept", ("n1",)))
    object.__setattr__(loaded.graph, "findings", found)
    monkeypatch.setattr("fossil.fit.effective_rank", lambda vectors: torch.tensor(1.0))
    with pytest.warns(FossilWarning, match=r"\(3 zero feature rows: kept \(for example n1\)\)"):
        fit(loaded, settings=SMALL, training=CPU)


@pytest.mark.parametrize("width", [10**15, 10**18, 10**20])
def test_weights_that_fit_in_no_memory_are_refused_with_the_settings_to_lower(tmp_path: Path, width: int) -> None:
    with pytest.raises(
        SettingError, match=rf"FOSSIL on ring \(20 nodes, 5 features\) .* with width={width}, "
    ) as caught:
        fit(ring(), settings=SMALL | {"width": width}, training=CPU, out=tmp_path / "run")
    assert "Lower the largest" in caught.value.remedy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["prepare", "encode"])
@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory")]
)
def test_lack_of_memory_outside_training_is_explained(
    monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    monkeypatch.setattr(Fossil, place, _raising(error))
    with pytest.raises(SettingError, match="does not fit in memory with fusion_hidden=30, "):
        fit(ring(), settings=SMALL, training=CPU)


def test_a_graph_that_is_too_large_for_a_trained_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(ring(), settings=SMALL, training=CPU, out=tmp_path)
    monkeypatch.setattr(Fossil, "encode", _raising(MemoryError()))
    with pytest.raises(RunError, match=r"Embedding ring \(20 nodes\) with the run in .* does not fit in memory"):
        fossil.Run.open(tmp_path).encode(ring().graph)


def test_other_errors_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fossil, "prepare", _raising(RuntimeError("a mistake of ours")))
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        fit(ring(), settings=SMALL, training=CPU)


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize("seed", [-1, 2**32, 10**23, 1.5, None, "3"])
def test_a_seed_out_of_range_is_refused(tmp_path: Path, seed: Any) -> None:
    with pytest.raises(SettingError, match="is not accepted") as caught:
        fit(ring(), settings=SMALL, training=CPU, seed=seed, out=tmp_path / "run")
    assert repr(seed) in caught.value.what and "0 to 4294967295" in caught.value.remedy
    assert not (tmp_path / "run").exists()


def test_the_largest_seed_and_seeds_of_numpy_are_taken(tmp_path: Path) -> None:
    seed: Any = np.int64(2**32 - 1)
    plain, numpy = (fit(ring(), settings=SMALL, training=CPU, seed=one) for one in (2**32 - 1, seed))
    np.testing.assert_array_equal(plain.vectors, numpy.vectors)


def test_a_run_is_not_continued_and_replaced_at_once(tmp_path: Path) -> None:
    fit(ring(), settings=SMALL, training=CPU, out=tmp_path)
    with pytest.raises(SettingError, match="--resume and --force contradict each other"):
        fit(ring(), settings=SMALL, training=CPU, out=tmp_path, resume=True, force=True)
    assert (tmp_path / "summary.json").exists()


def test_a_graph_that_cannot_fit_is_refused_with_what_would_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 4 * 20 * 8  # of the smallest part of it, a hidden layer of every node
    monkeypatch.setattr("fossil.fit.free_memory", lambda device: needed // 10)
    with pytest.raises(GraphError, match=r"needs about 0.0 GiB on cpu, and 0.0 GiB are free") as caught:
        fit(ring(), settings=SMALL, training=CPU)
    factor = float(caught.value.remedy.split("times smaller")[0].split()[-1])
    assert factor > 10
    monkeypatch.setattr("fossil.fit.free_memory", lambda device: None)
    assert len(fit(ring(), settings=SMALL, training=CPU)) == 20
