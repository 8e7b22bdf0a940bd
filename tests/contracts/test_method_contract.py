"""What every method must do, run over all of them, all their presets and every choice they offer."""

from __future__ import annotations

import copy
import itertools
import math
import re
import typing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import yaml
from torch import Tensor

from fossil.errors import GraphError, SettingError
from fossil.graph.graph import Graph
from fossil.graph.structure import undirected
from fossil.methods.base import Method
from fossil.methods.registry import get_method, methods, recipes
from fossil.training.checkpoint import load_tensors, save_tensors
from fossil.training.progress import describe
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
NODES, FEATURES = 40, 6
METHODS = sorted(methods())
PRESETS = [(name, preset) for name in METHODS for preset in get_method(name).presets]
TRAINED = [(name, preset) for name, preset in PRESETS if get_method(name).trained]


@cache
def make_graph(kind: str) -> Graph:
    random = np.random.default_rng(1)
    edges = random.random((NODES, NODES)) < 0.1
    np.fill_diagonal(edges, False)
    if kind != "directed":
        edges |= edges.T
    if kind == "no edges":
        edges[:] = False
    if kind == "isolated nodes":
        edges[-6:] = edges[:, -6:] = False
    features = random.random((NODES, 1 if kind == "one feature" else FEATURES), dtype=np.float32)
    features[features < 0.3] = 0
    if kind == "zero features":
        features[:5] = 0
    labels = np.arange(NODES) % 3
    stored = sp.csr_array(features) if "sparse features" in kind else features
    if kind == "disordered sparse features":
        stored = disordered(stored)
    return Graph(kind, sp.csr_array(edges.astype(np.float32)), stored, np.arange(NODES), labels=labels)


def disordered(matrix: sp.csr_array) -> sp.csr_array:
    """Return an equal matrix in float64 with indices in falling order, and every entry stored as two halves."""
    reverse = np.concatenate([np.arange(b, a, -1) - 1 for a, b in itertools.pairwise(matrix.indptr)])
    data, indices = (np.repeat(part[reverse], 2) for part in (matrix.data.astype(np.float64) / 2, matrix.indices))
    return sp.csr_array((data, indices, 2 * matrix.indptr), shape=matrix.shape)


KINDS = ["plain", "isolated nodes", "directed", "one feature", "sparse features", "zero features"]


def small_settings(kind: type[Method[Any]]) -> dict[str, Any]:
    return {name: value for name, value in kind.small.items() if name in kind.Config.model_fields}


def trainer(name: str, preset: str | None = None, *, graph: str = "plain", seed: int = 0, **changes: Any) -> Trainer:
    kind = get_method(name)
    config = kind.complete(kind.configure(preset, small_settings(kind), changes), make_graph(graph), seed)
    method = kind.build(config, make_graph(graph).num_features, seed)
    prepared = method.prepare(make_graph(graph), CPU)
    method.check_trainable(prepared)
    return Trainer(method, prepared, seed, CPU)


def train(trained: Trainer, epochs: int = 2) -> list[dict[str, float]]:
    records: list[dict[str, float]] = []

    def keep(epoch: int, record: dict[str, Tensor | float]) -> bool:
        records.append({key: float(value) for key, value in record.items()})
        return False

    trained.run(epochs if trained.method.trained else 0, keep)
    return records


@pytest.mark.parametrize("graph", ["plain", "directed", "one feature"])
@pytest.mark.parametrize("name", METHODS)
def test_a_method_knows_beforehand_how_long_its_vectors_are(name: str, graph: str) -> None:
    fitted, kind = trainer(name, graph=graph), get_method(name)
    fitted.fit()
    method = fitted.method.eval()
    vectors = method.encode(method.prepare(make_graph(graph), CPU)).vectors
    config: Any = kind.complete(kind.configure(None, small_settings(kind)), make_graph(graph), 0)
    assert kind.vector_columns(config, make_graph(graph).num_features) == vectors.shape[1]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_tells_whether_the_direction_of_edges_matters(name: str) -> None:
    graph = make_graph("directed")
    both_ways = replace(graph, adjacency=undirected(graph.adjacency))
    edgeless = replace(graph, adjacency=sp.csr_array(graph.adjacency.shape, dtype=np.float32))
    kind = get_method(name)
    fitted = trainer(name, graph="directed")
    fitted.fit()
    method = fitted.method.eval()
    given, symmetrized = (method.encode(method.prepare(one, CPU)).vectors for one in (graph, both_ways))
    if kind.undirected:
        assert torch.equal(given, symmetrized)
        return
    reads_edges = not torch.equal(given, method.encode(method.prepare(edgeless, CPU)).vectors)
    assert torch.equal(given, symmetrized) != reads_edges


def assert_finite(records: list[dict[str, float]], trained: Trainer) -> None:
    assert len(records) == (2 if trained.method.trained else 0)
    for record in records:
        assert record and all(math.isfinite(value) for value in record.values()), record
    for parameter_name, parameter in trained.method.named_parameters():
        assert parameter.isfinite().all(), parameter_name
    vectors = trained.method.encode(trained.prepared).vectors
    assert vectors.shape[0] == NODES and vectors.isfinite().all()


@pytest.mark.parametrize("graph", KINDS)
@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_two_steps_give_finite_losses_weights_and_embeddings(name: str, preset: str, graph: str) -> None:
    trained = trainer(name, preset, graph=graph)
    assert_finite(train(trained), trained)


@pytest.mark.parametrize("name", METHODS)
def test_features_in_disorder_train_to_the_same_bits(name: str) -> None:
    in_order, disorder = (trainer(name, graph=kind) for kind in ("sparse features", "disordered sparse features"))
    assert train(in_order, epochs=1) == train(disorder, epochs=1)
    for key, value in in_order.method.state_dict().items():
        assert torch.equal(value, disorder.method.state_dict()[key]), key
    vectors = [trained.method.encode(trained.prepared).vectors for trained in (in_order, disorder)]
    assert torch.equal(*vectors)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_a_graph_without_edges_is_trained_on_or_refused_with_a_remedy(name: str, preset: str) -> None:
    try:
        trained = trainer(name, preset, graph="no edges")
    except GraphError as error:
        assert error.what and error.remedy
    else:
        assert_finite(train(trained), trained)


@pytest.mark.parametrize(("name", "preset"), TRAINED)
def test_the_progress_line_begins_with_the_loss_and_is_short(name: str, preset: str) -> None:
    record = train(trainer(name, preset), epochs=1)[0]
    line = describe({**record, "epoch": 1, "seconds": 0.1})
    assert re.match(r"loss -?[\d.]+(e[+-]\d+)?(  |$)", line)
    assert len(line) < 100 and "epoch" not in line and "rank" not in line


def choices() -> list[Any]:
    """Every value of every setting that offers a choice, one at a time, for every method and preset."""
    found = []
    for name, preset in PRESETS:
        config = get_method(name).configure(preset)
        for setting, field in type(config).model_fields.items():
            offered: tuple[Any, ...] = ()
            if typing.get_origin(field.annotation) is typing.Literal:
                offered = typing.get_args(field.annotation)
            elif field.annotation is bool:
                offered = (True, False)
            elif type(None) in typing.get_args(field.annotation):
                offered = (None,)
            elif setting == "cost_threshold":
                offered = (0.0, 0.1)
            found += [
                pytest.param(name, preset, {setting: value}, id=f"{name}-{preset}-{setting}={value}")
                for value in offered
                if value != getattr(config, setting)
            ]
    return found


@pytest.mark.parametrize(("name", "preset", "change"), choices())
def test_every_choice_trains(name: str, preset: str, change: dict[str, Any]) -> None:
    trained = trainer(name, preset, **change)
    assert_finite(train(trained), trained)


@pytest.mark.parametrize("encoder", ["decoupled", "gcn", "gcnii"])
@pytest.mark.parametrize(
    "generator", ["gat_embeddings", "gat_features", "feature_attention", "gcn_embeddings", "random_edges"]
)
@pytest.mark.parametrize("graph", ["isolated nodes", "directed"])
def test_every_encoder_trains_with_every_generator(encoder: str, generator: str, graph: str) -> None:
    trained = trainer("fossil", graph=graph, encoder=encoder, generator=generator)
    assert_finite(train(trained), trained)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_parameter_is_in_one_group_and_learns_from_some_objective(name: str, preset: str) -> None:
    trained = trainer(name, preset)
    method = trained.method
    grouped = [id(p) for group in method.parameter_groups().values() for p in group.parameters]
    assert sorted(grouped) == sorted(id(p) for p in method.parameters() if p.requires_grad)
    learnt: set[str] = set()
    for objective in method.step(trained.prepared, torch.Generator().manual_seed(0)):
        method.zero_grad(set_to_none=True)
        torch.autograd.backward(list(objective.terms.values()))
        stepped = {id(p) for group in objective.groups for p in method.parameter_groups()[group].parameters}
        for parameter_name, parameter in method.named_parameters():
            if parameter.grad is not None and parameter.grad.abs().sum() > 0:
                assert id(parameter) in stepped, f"{parameter_name} has a gradient that nobody follows"
                learnt.add(parameter_name)
    assert learnt == {parameter_name for parameter_name, p in method.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_equal_seeds_give_equal_bits_and_other_seeds_other_embeddings(name: str, preset: str) -> None:
    vectors: list[Tensor] = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(vectors))  # the ambient generator must not matter
        trained = trainer(name, preset, seed=seed)
        train(trained)
        vectors.append(trained.method.encode(trained.prepared).vectors)
    assert torch.equal(vectors[0], vectors[1])
    # What nothing is trained for is a property of the graph, which any seed should find, up to rounding.
    assert torch.allclose(vectors[0], vectors[2], atol=1e-4) != trained.method.trained


@pytest.mark.parametrize("name", [name for name in METHODS if not get_method(name).trained])
def test_a_method_without_training_has_nothing_to_optimise_and_is_fitted_once(name: str, tmp_path: Path) -> None:
    fitted = trainer(name)
    assert not list(fitted.method.parameters()) and not fitted.optimizers and get_method(name).epochs == 0
    assert train(fitted) == [] and fitted.steps == 0
    expected = fitted.method.encode(fitted.prepared).vectors
    save_tensors(tmp_path / "checkpoint", fitted.state(), {})
    loaded = trainer(name, graph="zero features")
    loaded.load_state(load_tensors(tmp_path / "checkpoint").tensors, 0)
    train(loaded)  # finds the state that it goes on with, and fits nothing to its own graph
    assert torch.equal(loaded.method.encode(fitted.prepared).vectors, expected)


@pytest.mark.parametrize(("name", "preset"), TRAINED)
def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(name: str, preset: str, tmp_path: Path) -> None:
    whole, stopped, continued = trainer(name, preset), trainer(name, preset), trainer(name, preset)
    train(whole, epochs=3)
    stopped.run(3, lambda epoch, record: epoch == 1)
    save_tensors(tmp_path / "checkpoint", stopped.state(), {})
    continued.load_state(load_tensors(tmp_path / "checkpoint").tensors, stopped.steps)
    assert continued.steps == 1
    train(continued, epochs=3)
    expected, found = whole.method.state_dict(), continued.method.state_dict()
    assert continued.steps == 3 and all(torch.equal(expected[key], found[key]) for key in expected)
    vectors = [one.method.encode(one.prepared).vectors for one in (whole, continued)]
    assert torch.equal(*vectors)


@pytest.mark.parametrize("name", METHODS)
def test_building_and_training_leave_the_ambient_generators_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)  # where there is no GPU it waits for one
    state = torch.get_rng_state()
    train(trainer(name))
    assert torch.equal(torch.get_rng_state(), state) and not seeded


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_encoding_is_deterministic_without_gradient_and_changes_nothing(name: str, preset: str) -> None:
    trained = trainer(name, preset)
    train(trained)
    before = copy.deepcopy(trained.method.state_dict())
    first = trained.method.train().encode(trained.prepared)
    second = trained.method.eval().encode(trained.prepared)
    assert torch.equal(first.vectors, second.vectors) and not first.vectors.requires_grad
    if first.fusion is not None:
        assert second.fusion is not None and first.fusion.shape == (NODES,) and torch.equal(first.fusion, second.fusion)
    after = trained.method.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_training_changes_the_embeddings(name: str, preset: str) -> None:
    trained = trainer(name, preset)
    before = trained.method.encode(trained.prepared).vectors
    train(trained)
    assert not torch.allclose(before, trained.method.encode(trained.prepared).vectors)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_saved_weights_and_settings_rebuild_the_same_method(name: str, preset: str, tmp_path: Path) -> None:
    trained = trainer(name, preset)
    train(trained)
    save_tensors(tmp_path / "weights", trained.method.state_dict(), {})
    kind = get_method(name)
    given = kind.configure(preset, small_settings(kind))
    config = kind.Config.build(yaml.safe_load(yaml.safe_dump(given.model_dump())))
    assert config == given
    other = kind.build(config, FEATURES, seed=9)
    other.load_state_dict(load_tensors(tmp_path / "weights").tensors)
    found = other.encode(other.prepare(make_graph("plain"), CPU))
    expected = trained.method.encode(trained.prepared)
    assert torch.equal(found.vectors, expected.vectors)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_sparse_and_dense_features_give_the_same_embeddings(name: str, preset: str) -> None:
    vectors = []
    for graph in ("plain", "sparse features"):
        made = trainer(name, preset, graph=graph)
        made.fit()
        vectors.append(made.method.encode(made.prepared).vectors)
    torch.testing.assert_close(vectors[0], vectors[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_embeddings_follow_the_nodes_when_they_are_renumbered(name: str, preset: str) -> None:
    made = trainer(name, preset, graph="directed")
    made.fit()
    graph, order = make_graph("directed"), np.random.default_rng(0).permutation(NODES)
    moved = Graph("moved", sp.csr_array(graph.adjacency[order][:, order]), graph.features[order], graph.ids[order])
    found = made.method.encode(made.method.prepare(moved, CPU)).vectors
    expected = made.method.encode(made.prepared).vectors[order]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_preparing_leaves_the_graph_alone(name: str) -> None:
    graph = make_graph("plain")
    before = graph.adjacency.toarray(), graph.features.copy()
    train(trainer(name))
    np.testing.assert_array_equal(graph.adjacency.toarray(), before[0])
    np.testing.assert_array_equal(graph.features, before[1])


@pytest.mark.parametrize("name", METHODS)
def test_every_value_of_the_search_space_is_a_valid_setting(name: str) -> None:
    kind = get_method(name)
    space = kind.Config.search_space()
    assert space
    for setting, values in space.items():
        assert len(values) == len(set(values)) > 1
        for value in values:
            assert getattr(kind.configure(None, {setting: value}), setting) == value


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_says_what_it_means(name: str) -> None:
    for setting, field in get_method(name).Config.model_fields.items():
        assert field.description and "\n" not in field.description, setting


@pytest.mark.parametrize(("name", "graph"), [(name, graph) for name in METHODS for graph in recipes(name)])
def test_every_recipe_builds_a_method(name: str, graph: str) -> None:
    kind, recipe = get_method(name), recipes(name)[graph]
    for preset in kind.presets:
        config = kind.configure(preset, recipe.settings)
        for setting, value in recipe.settings.items():
            assert getattr(config, setting) == value
    small = kind.configure(None, recipe.settings, small_settings(kind))
    assert kind.build(small, FEATURES, 0).num_features == FEATURES
    assert recipe.published is None or 0 < recipe.published < 100


@pytest.mark.parametrize("name", METHODS)
def test_wrong_presets_and_settings_are_refused_with_the_nearest_name(name: str) -> None:
    kind = get_method(name)
    preset, setting = next(iter(kind.presets)), next(iter(kind.Config.model_fields))
    with pytest.raises(SettingError, match=f"Did you mean '{preset}'"):
        kind.configure(preset + "x")
    with pytest.raises(SettingError, match=f"Did you mean '{setting}'"):
        kind.configure(None, {setting + "x": 1})


@pytest.mark.parametrize("name", METHODS)
def test_every_method_introduces_itself(name: str) -> None:
    kind = get_method(name)
    assert kind.name == name and kind.title and kind.paper and kind.__doc__ and all(kind.cost)
    assert set(kind.small) | set(kind.filled_in) <= set(kind.Config.model_fields)
    assert next(iter(kind.presets))


@pytest.mark.parametrize("reach", ["two_hop", "six_hop"])
@pytest.mark.parametrize("name", [name for name in METHODS if "subgraph_size" in get_method(name).Config.model_fields])
def test_a_subgraph_size_that_no_component_can_fill_is_refused(name: str, reach: str) -> None:
    edges = sp.block_diag([np.ones((5, 5)) - np.eye(5)] * 4 + [np.zeros((1, 1))] * 3, format="csr", dtype=np.float32)
    edges.eliminate_zeros()
    graph = Graph("cliques", sp.csr_array(edges), np.ones((23, 2), np.float32), np.arange(23))
    kind = get_method(name)
    changes = {"reach": reach} if "reach" in kind.Config.model_fields else {}
    for size, fits in ((4, True), (6, False)):
        method = kind.build(kind.configure(None, small_settings(kind), changes, {"subgraph_size": size}), 2, 0)
        prepared = method.prepare(graph, CPU)
        if fits:
            method.check_trainable(prepared)
            continue
        with pytest.raises(GraphError, match="subgraph_size=6") as caught:
            method.check_trainable(prepared)
        assert "of 23 tried, 3 have no neighbour and 20 have too few" in caught.value.what
        assert "Lower subgraph_size" in caught.value.remedy
    bare = Graph("bare", sp.csr_array((23, 23), dtype=np.float32), np.ones((23, 2), np.float32), np.arange(23))
    with pytest.raises(GraphError, match="23 have no neighbour") as caught:
        method.check_trainable(method.prepare(bare, CPU))
    assert caught.value.remedy == "Add edges: a subgraph is made of neighbours."
