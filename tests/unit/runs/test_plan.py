from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from ring_graph import CPU, SMALL, ring

import fossil.methods
from fossil.errors import GraphError, SettingError
from fossil.graph.findings import Treatment
from fossil.methods.dgi import DGI
from fossil.methods.fossil import PRESETS, Fossil, FossilSettings
from fossil.methods.fossil_channels import FossilChannels
from fossil.methods.registry import Kind, Recipe, methods
from fossil.methods.supervised import FSMLP
from fossil.runs.plan import as_asked, plan_run, resolve_epochs, resolve_settings


def recipe_of(graph: str) -> dict[str, object]:
    path = Path(fossil.methods.__path__[0]) / "recipes" / "fossil.yaml"
    settings: dict[str, object] = yaml.safe_load(path.read_text())[graph]["settings"]
    return settings


def publish(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """Let there be a recipe for the ring, and none for any other graph."""
    monkeypatch.setattr("fossil.runs.plan.recipes", lambda method: {"ring": Recipe(settings, epochs=7)})
    monkeypatch.setattr("fossil.runs.plan.known_name", lambda graph: graph.name)


def test_a_catalogue_graph_gets_its_recipe() -> None:
    chosen, settings = resolve_settings(Fossil, None, "cora", {})
    recipe = recipe_of("cora")
    assert chosen == "released" and recipe
    assert {key: getattr(settings, key) for key in recipe} == recipe
    assert any(getattr(FossilSettings(), key) != value for key, value in recipe.items())


@pytest.mark.parametrize(("graph", "use"), [("cora", False), ("my own", True)])
def test_no_recipe_unless_wanted_and_published(graph: str, use: bool) -> None:
    assert resolve_settings(Fossil, None, graph, {}, use)[1] == FossilSettings()


def test_what_is_said_beats_the_preset_and_the_preset_beats_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, reach="six_hop", alpha=0.9, temperature=2.0)
    chosen, settings = resolve_settings(Fossil, "paper", "ring", {"alpha": 0.1})
    assert chosen == "paper"
    assert settings.reach == PRESETS["paper"]["reach"] == "two_hop"
    assert settings.temperature == 2.0 and settings.alpha == 0.1


def test_epochs_are_those_asked_for_or_the_recipes_or_the_methods_own(monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch)
    assert resolve_epochs(Fossil, ring().graph, 3) == 3
    assert resolve_epochs(Fossil, ring().graph, None) == 7
    assert resolve_epochs(Fossil, ring().graph, None, use_recipe=False) == Fossil.epochs
    assert resolve_epochs(Fossil, ring("street").graph, None) == Fossil.epochs
    assert plan_run(ring(), method="fossil").epochs == 7
    assert plan_run(ring("street"), method="fossil").epochs == Fossil.epochs


@pytest.mark.parametrize(
    ("nodes", "epochs"), [(1, 100), (3_000, 100), (3_100, 102), (12_000, 283), (19_048, 400), (10**8, 400)]
)
def test_a_method_may_train_longer_on_larger_graphs(nodes: int, epochs: int) -> None:
    assert FossilChannels.epochs_for(nodes) == epochs
    assert Fossil.epochs_for(nodes) == Fossil.epochs


def test_everything_is_resolved_and_written_down(tmp_path: Path) -> None:
    plan = plan_run(ring(), method="dgi", settings={"width": 4}, training={"epochs": 2}, seed=3, out=str(tmp_path))
    assert plan.kind is DGI and plan.graph.name == "ring" and plan.out == tmp_path
    assert plan.config.settings.model_dump() == DGI.Config.build({"width": 4}).model_dump()
    assert (plan.epochs, plan.config.seed, plan.config.source) == (2, 3, "LoadedGraph")
    assert plan.config.fingerprint == plan.graph.fingerprint
    assert plan.describe() == f"dgi, preset default, seed 3, 2 epochs → {tmp_path}"
    assert not list(tmp_path.iterdir())


def test_a_treatment_is_taken_as_plain_values_and_reaches_the_graph() -> None:
    edges = ring().graph.adjacency.tocsr()[:, [1, 0, *range(2, 20)]]  # a self loop or two, and edges one way
    plan = plan_run((edges, np.eye(20)), treatment={"direction": "symmetrize"}, settings=SMALL)
    assert plan.config.treatment == Treatment(direction="symmetrize")
    assert not plan.graph.is_directed and plan.graph.adjacency.diagonal().sum() == 0


def test_labels_that_are_trained_on_tell_runs_apart() -> None:
    one, other = ring(), ring()
    other = replace(other, graph=other.graph.with_labels(1 - np.asarray(other.graph.labels)))
    assert plan_run(one).config.fingerprint == plan_run(other).config.fingerprint
    labelled = [plan_run(loaded, method="fs_mlp").config.fingerprint for loaded in (one, other)]
    assert len({*labelled, one.graph.fingerprint}) == 3


def test_what_a_run_fills_in_is_not_what_was_asked() -> None:
    config = plan_run(ring(), method="fs_mlp", seed=9).config.settings
    assert (config.num_classes, config.split_seed) == (2, 9)  # type: ignore[attr-defined]
    assert as_asked(FSMLP, config) == FSMLP.Config()
    assert as_asked(DGI, DGI.Config()) == DGI.Config()


@pytest.mark.parametrize("seed", [-1, 2**32, 10**23, 1.5, None, "3"])
def test_a_seed_out_of_range_is_refused(seed: Any) -> None:
    with pytest.raises(SettingError, match="is not accepted") as caught:
        plan_run(ring(), settings=SMALL, training=CPU, seed=seed)
    assert repr(seed) in caught.value.what and "0 to 4294967295" in caught.value.remedy


def test_a_method_that_trains_on_labels_refuses_a_graph_without() -> None:
    with pytest.raises(GraphError, match="FS-MLP trains on labels, and ring has none"):
        plan_run(ring(labels=False), method="fs_mlp")
    assert plan_run(ring(), method="fs_mlp").kind is FSMLP


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "fosil"},
        {"preset": "latest"},
        {"settings": {"alhpa": 1}},
        {"training": {"epochs": 0}},
        {"treatment": {"direction": "both"}},
        {"seed": -1},
        {"resume": True, "force": True},
    ],
)
def test_a_mistake_is_found_before_a_graph_is_read(asked: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        plan_run("no/such/file.csv", **asked)


# Settings that have no effect beside others.


def test_a_setting_without_effect_is_refused_with_what_it_counts_with() -> None:
    with pytest.raises(SettingError) as caught:
        plan_run(ring(), method="fossil", settings={"encoder": "gcn", "gcnii_layers": 99})
    assert "gcnii_layers=99 has no effect" in caught.value.what
    assert "encoder gcnii" in caught.value.what and "encoder=gcn" in caught.value.what
    assert caught.value.remedy
    kept: Any = plan_run(ring(), method="fossil", settings={"encoder": "gcnii", "gcnii_layers": 99}).config.settings
    assert kept.gcnii_layers == 99


def test_said_explicitly_even_the_default_value_is_refused() -> None:
    with pytest.raises(SettingError, match="gcnii_layers=8 has no effect"):
        plan_run(ring(), method="fossil", settings={"gcnii_layers": FossilSettings().gcnii_layers})


def test_the_same_setting_from_a_recipe_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, gcnii_layers=99, fusion_l2=10.0)
    settings: Any = plan_run(ring(), method="fossil", settings={"encoder": "gcn"}).config.settings
    assert (settings.encoder, settings.gcnii_layers, settings.fusion_l2) == ("gcn", 99, 10.0)
    with pytest.raises(SettingError, match=r"fusion_l2=10\.0 has no effect"):
        plan_run(ring(), method="fossil", settings={"encoder": "gcn", "fusion_l2": 10.0})


def test_the_same_setting_from_a_preset_is_not_refused() -> None:
    assert FossilSettings.conditions("fusion_nonlinear") and PRESETS["paper"]["fusion_nonlinear"]
    settings: Any = plan_run(ring(), method="fossil", preset="paper", settings={"encoder": "gcn"}).config.settings
    assert settings.fusion_nonlinear and settings.encoder == "gcn"
    with pytest.raises(SettingError, match="fusion_nonlinear=True has no effect"):
        plan_run(ring(), method="fossil", preset="paper", settings={"encoder": "gcn", "fusion_nonlinear": True})


def test_what_a_preset_or_a_recipe_chose_counts_as_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    # The condition is about the resolved settings: the recipe's encoder makes the depth count.
    publish(monkeypatch, encoder="gcnii")
    settings: Any = plan_run(ring(), method="fossil", settings={"gcnii_layers": 2}).config.settings
    assert settings.gcnii_layers == 2


# Settings that fit in no memory.


@pytest.mark.parametrize("kind", [kind for kind in methods().values() if "width" in kind.Config.model_fields])
def test_weights_that_do_not_fit_are_counted_before_they_are_made(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    built = kind.build(kind.configure(None, {"width": 64}), ring().graph.num_features, seed=0)
    weights = sum(value.numel() * value.element_size() for value in built.state_dict().values())
    need = (4 if kind.trained else 1) * weights + 4 * ring().graph.num_nodes * built.config.width
    monkeypatch.setattr("fossil.runs.plan.free_host_memory", lambda: need - 1)
    with pytest.raises(SettingError, match=r"in memory with \w+=\d+(, which .* a vector)?, and .* are free"):
        plan_run(ring(), method=kind.name, settings={"width": 64})


def test_vectors_are_counted_with_all_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, settings = ring().graph, {"width": 2**15, "hidden": 8, "untrained": 2**10}
    columns = 4 * (2**15 + graph.num_features)
    for free, fits in ((4 * graph.num_nodes * columns - 1, False), (10**12, True)):
        monkeypatch.setattr("fossil.runs.plan.free_host_memory", lambda free=free: free)
        monkeypatch.setattr("fossil.runs.plan._weight_bytes", lambda *_: 0)
        asked = {"method": "fossil_channels_v2", "settings": settings | {"channels": "identity,low,low2,neighbours"}}
        if fits:
            plan_run(ring(), **asked)
            continue
        with pytest.raises(SettingError, match=f"width=32768, which makes {columns:,} columns a vector") as refused:
            plan_run(ring(), **asked)
        assert "smaller width or untrained, or fewer channels, or use a machine" in refused.value.remedy


def test_a_hidden_layer_of_all_nodes_counts_only_where_steps_read_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fossil.runs.plan.free_host_memory", lambda: 4 * 60 * 1000)
    monkeypatch.setattr("fossil.runs.plan._weight_bytes", lambda *_: 0)
    settings = {"hidden": 2**15, "width": 8}
    plan_run(ring(), method="fossil_v2", settings=settings)
    with pytest.raises(SettingError, match="hidden=32768"):
        plan_run(ring(), method="fossil_v2", settings=settings, training={"sampled": "never"})


@pytest.mark.parametrize("classes", [10**9, 2**63])
def test_a_number_of_classes_that_fits_in_no_memory_is_refused_by_its_name(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fossil.runs.plan.free_host_memory", lambda: 10**10)
    with pytest.raises(SettingError, match=f"num_classes={classes}"):
        plan_run(ring(), method="fs_mlp", settings={"num_classes": classes})
