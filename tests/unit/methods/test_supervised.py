"""The supervised references: the networks against PyG and plain PyTorch, and that no label leaks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

import fossil
from fossil.errors import GraphError, RunError, SettingError
from fossil.evaluation.protocol import protocol
from fossil.graph.graph import Graph
from fossil.methods.registry import get_method
from fossil.methods.supervised import Supervised
from fossil.ops.features import FeatureMatrix
from fossil.readers.read import LoadedGraph
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.runs.run import Run
from fossil.training.trainer import Trainer, TrainingSettings

CPU = torch.device("cpu")
NODES, FEATURES, CLASSES = 60, 7, 3
KNOWN = {"num_classes": CLASSES, "split_seed": 4, "hidden": 5}
SHORT = TrainingSettings(epochs=5, device="cpu")
BOTH = pytest.mark.parametrize("name", ["fs_gcn", "fs_mlp"])


def make_graph(*, sparse: bool = False, labels: Any = "classes") -> Graph:
    """A directed graph with isolated nodes whose features know a little about the classes."""
    random = np.random.default_rng(2)
    edges = (random.random((NODES, NODES)) < 0.08).astype(np.float32)
    np.fill_diagonal(edges, 0)
    edges[-5:] = edges[:, -5:] = 0
    classes = random.integers(CLASSES, size=NODES)
    features = (random.random((NODES, FEATURES)) * (random.random((NODES, FEATURES)) < 0.6)).astype(np.float32)
    features[:, :CLASSES] += 0.3 * np.eye(CLASSES, dtype=np.float32)[classes]
    stored = sp.csr_array(features) if sparse else features
    known = classes if isinstance(labels, str) else labels
    return Graph("made", sp.csr_array(edges), stored, np.arange(NODES), known)


def build(name: str, **changes: Any) -> Supervised:
    kind = get_method(name)
    method = kind.build(kind.configure(None, KNOWN | changes), FEATURES, seed=3)
    assert isinstance(method, Supervised)
    with torch.no_grad():  # biases of zero would hide where they are added
        for layer in (method.first, method.second):
            assert layer.bias is not None
            layer.bias += 0.1
    return method


def dense(graph: Graph) -> Tensor:
    return torch.from_numpy(graph.features.toarray() if graph.has_sparse_features else graph.features.copy())


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("aggregation", ["symmetric", "sum"])
def test_fs_gcn_equals_two_convolutions_of_pyg(aggregation: str, sparse: bool) -> None:
    graph, method = make_graph(sparse=sparse), build("fs_gcn", aggregation=aggregation)
    usual = aggregation == "symmetric"
    layers = [GCNConv(a, b, normalize=usual, add_self_loops=usual) for a, b in ((FEATURES, 5), (5, CLASSES))]
    for theirs, ours in zip(layers, (method.first, method.second), strict=True):
        theirs.lin.weight, theirs.bias = torch.nn.Parameter(ours.weight.T), ours.bias
    centre, neighbour = graph.adjacency.nonzero()  # a row sums over the nodes it points to: messages run against edges
    messages = torch.tensor(np.stack([neighbour, centre]), dtype=torch.int64)
    expected = layers[1](torch.relu(layers[0](dense(graph), messages)), messages)
    found = method.encode(method.prepare(graph, CPU)).vectors
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sparse", [True, False])
def test_fs_mlp_equals_two_linear_layers(sparse: bool) -> None:
    graph, method = make_graph(sparse=sparse), build("fs_mlp")
    hidden = torch.nn.functional.linear(dense(graph), method.first.weight.T, method.first.bias).relu()
    expected = torch.nn.functional.linear(hidden, method.second.weight.T, method.second.bias)
    torch.testing.assert_close(method.encode(method.prepare(graph, CPU)).vectors, expected.detach())


def plain_training(method: Supervised, graph: Graph, train: Any, steps: int, decay: float) -> Tensor:
    """Dense full-batch training of the same weights by one Adam whose first layer alone is penalised."""
    A = torch.eye(NODES)
    if method.name == "fs_gcn":
        A = torch.tensor(graph.adjacency.toarray()) + A
        A = A / A.sum(1).sqrt()[:, None] / A.sum(1).sqrt()
    assert graph.labels is not None
    X, rows, labels = dense(graph), torch.tensor(train), torch.tensor(graph.labels[train])
    W1, b1, W2, b2 = (p.detach().clone().requires_grad_() for p in method.parameters())
    optimizer = torch.optim.Adam([{"params": [W1, b1], "weight_decay": decay}, {"params": [W2, b2]}], lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        scores = A @ torch.relu(A @ X @ W1 + b1) @ W2 + b2
        loss = -scores.log_softmax(1)[rows, labels].mean()
        loss.backward()
        optimizer.step()
    return (A @ torch.relu(A @ X @ W1 + b1) @ W2 + b2).detach()


@BOTH
def test_training_reaches_what_plain_pytorch_reaches(name: str) -> None:
    graph, decay = make_graph(sparse=True), 0.05  # large enough to matter in 30 steps
    method = build(name, dropout=0.0, weight_decay=decay)
    train = protocol("released").draw(graph.labels, 4, "made").train
    expected = plain_training(method, graph, train, 30, decay)
    before = method.encode(method.prepare(graph, CPU)).vectors
    trainer = Trainer(method, method.prepare(graph, CPU), 0, CPU)
    trainer.run(30, lambda *_: False)
    found = method.encode(trainer.prepared).vectors
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert (found - before).abs().max() > 0.1  # it went somewhere


@BOTH
def test_dropout_is_before_both_layers(name: str) -> None:
    graph, method = make_graph(), build(name, dropout=0.4)
    prepared = method.prepare(graph, CPU)
    found = method.class_scores(prepared.features, prepared.propagation, torch.Generator().manual_seed(1))
    random = torch.Generator().manual_seed(1)

    def dropped(values: Tensor) -> Tensor:
        return values * torch.empty(values.shape).bernoulli_(0.6, generator=random) / 0.6

    S = torch.eye(NODES) if prepared.propagation is None else prepared.propagation.matmul(torch.eye(NODES))
    hidden = torch.relu(S @ dropped(dense(graph)) @ method.first.weight + method.first.bias)
    expected = S @ dropped(hidden) @ method.second.weight + method.second.bias
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def vectors(name: str, labels: np.ndarray[Any, Any], **settings: Any) -> np.ndarray[Any, Any]:
    loaded = LoadedGraph(make_graph(labels=labels), None)
    return fit(plan_run(loaded, method=name, settings={"hidden": 5} | settings, training=SHORT, seed=4)).vectors


@BOTH
@pytest.mark.parametrize("split", ["released", "paper"])
def test_labels_outside_the_training_part_change_nothing(name: str, split: str) -> None:
    labels = make_graph().labels
    assert labels is not None
    train = protocol(split).draw(labels, 4, "made").train
    others = np.setdiff1d(np.arange(NODES), train)
    permuted, spoiled = labels.copy(), labels.copy()
    permuted[others] = np.random.default_rng(0).permutation(labels[others])
    spoiled[train] = np.roll(labels[train], 1)
    assert (permuted != labels).any()
    before = vectors(name, labels, split=split)
    np.testing.assert_array_equal(vectors(name, permuted, split=split), before)
    assert not np.array_equal(vectors(name, spoiled, split=split), before)


@BOTH
def test_test_labels_change_nothing_where_training_nodes_are_drawn_per_class(name: str) -> None:
    labels = make_graph().labels
    assert labels is not None
    test = protocol("paper").per_class_everywhere(3).draw(labels, 4, "made").test
    permuted = labels.copy()
    permuted[test] = np.roll(labels[test], 1)
    assert (permuted != labels).any()
    before, after = (vectors(name, known, split="paper", nodes_per_class=3) for known in (labels, permuted))
    np.testing.assert_array_equal(after, before)


@BOTH
def test_training_nodes_may_be_those_of_a_published_split(name: str) -> None:
    graph = make_graph()
    parts = np.random.default_rng(1).permuted(np.tile(np.arange(NODES) % 3, (5, 1)), axis=1)
    given = replace(graph, published_splits={"geom_gcn": parts})
    method = build(name, split="geom_gcn")  # of split seed 4
    part = method.prepare(given, CPU).training
    assert graph.labels is not None and part is not None
    assert part.labels.tolist() == graph.labels[parts[4] == 0].tolist()
    spoilt = given.with_labels(np.where(parts[4] == 0, graph.labels, (graph.labels + 1) % CLASSES))
    for changed in (given, spoilt):
        run = plan_run(LoadedGraph(changed, None), method=name, settings={"split": "geom_gcn"}, training=SHORT, seed=14)
        found = fit(run)
        [row] = fossil.evaluate(found, device="cpu")
        assert [one.seed for one in row.scores[14]] == [4] and "'geom_gcn'" in row.protocol
    with pytest.raises(GraphError, match="no published splits 'geom_gcn'") as caught:
        method.prepare(graph, CPU)
    assert "--set split=paper" in caught.value.remedy
    with pytest.raises(GraphError, match="per class cannot be chosen"):
        build(name, split="geom_gcn", nodes_per_class=3).prepare(given, CPU)


def test_a_citation_graph_has_its_own_training_nodes_under_public() -> None:
    kind = get_method("fs_mlp")
    settings = kind.configure(None, KNOWN | {"split": "public"})
    found = kind.training_split(settings, "cora")
    assert found is not None and found.rule == protocol("public").rule("cora")


@pytest.mark.parametrize("rule", ["paper", "released"])
@pytest.mark.parametrize(("graph_name", "size"), [("cora", 140), ("town", None)])
def test_the_training_part_is_that_of_the_protocol(rule: str, graph_name: str, size: int | None) -> None:
    nodes = 1700  # more than the released rule sets aside
    labels = np.random.default_rng(0).integers(7, size=nodes)
    empty = sp.csr_array((nodes, nodes), dtype=np.float32)
    graph = Graph(graph_name, empty, sp.csr_array((nodes, 1433), dtype=np.float32), np.arange(nodes), labels)
    kind = get_method("fs_gcn")
    method = kind.build(kind.configure(None, KNOWN | {"num_classes": 7, "split": rule}), 1433, 0)
    part = method.prepare(graph, CPU).training
    expected = protocol(rule).draw(labels, 4, graph_name).train
    assert part.rows.tolist() == expected.tolist() and part.labels.tolist() == labels[expected].tolist()
    assert size is None or len(expected) == size


def test_fs_mlp_reads_its_training_rows_alone() -> None:
    graph, method = make_graph(sparse=True), build("fs_mlp")
    part = method.prepare(graph, CPU).training
    assert part is not None
    train = protocol("released").draw(graph.labels, 4, "made").train
    eye = torch.eye(FEATURES)
    torch.testing.assert_close(part.features.project(eye), dense(graph)[torch.tensor(train)])
    assert isinstance(part.features, FeatureMatrix) and len(part.labels) == len(train) < NODES


def test_a_run_fills_in_the_classes_and_its_own_seed_unless_told_otherwise(tmp_path: Path) -> None:
    for folder, settings, expected in (("a", {}, 9), ("b", {"split_seed": 2}, 2)):
        loaded = LoadedGraph(make_graph(), None)
        fit(plan_run(loaded, method="fs_mlp", settings=settings, training=SHORT, seed=9, out=tmp_path / folder))
        config = Run.open(tmp_path / folder).config.settings.model_dump()
        assert (config["split_seed"], config["num_classes"]) == (expected, CLASSES)


@BOTH
def test_a_trained_run_encodes_graphs_without_labels(name: str, tmp_path: Path) -> None:
    result = fit(plan_run(LoadedGraph(make_graph(), None), method=name, training=SHORT, out=tmp_path / "run"))
    assert result.vectors.shape == (NODES, CLASSES)
    for labels in (None, np.full(NODES, -1)):
        found = Run.open(tmp_path / "run").encode(make_graph(labels=labels)).vectors
        np.testing.assert_allclose(found.numpy(), result.vectors, rtol=1e-5, atol=1e-6)


def test_other_labels_are_another_training(tmp_path: Path) -> None:
    labels = make_graph().labels
    assert labels is not None
    fit(plan_run(LoadedGraph(make_graph(), None), method="fs_mlp", training=SHORT, out=tmp_path / "run"))
    moved = LoadedGraph(make_graph(labels=np.roll(labels, 1)), None)
    with pytest.raises(RunError, match="was trained on another graph"):
        fit(plan_run(moved, method="fs_mlp", training=SHORT, out=tmp_path / "run", resume=True))


@pytest.mark.parametrize("missing", ["num_classes", "split_seed"])
def test_building_by_hand_needs_what_a_run_fills_in(missing: str) -> None:
    with pytest.raises(SettingError, match=r"FS-GCN needs num_classes and split_seed"):
        build("fs_gcn", **{missing: None})


@BOTH
@pytest.mark.parametrize("labels", [None, np.full(NODES, -1)])
def test_a_graph_without_labels_is_refused(name: str, labels: Any) -> None:
    with pytest.raises(GraphError, match="trains on labels, and made has none"):
        fit(plan_run(LoadedGraph(make_graph(labels=labels), None), method=name, training=SHORT))


@BOTH
def test_too_few_labels_for_the_split_are_refused_with_the_settings_to_change(name: str) -> None:
    with pytest.raises(GraphError, match="20 are needed for training") as caught:
        vectors(name, make_graph().labels, split="paper", nodes_per_class=20)  # type: ignore[arg-type]
    assert "--set nodes_per_class=N" in caught.value.remedy


@BOTH
def test_labels_of_one_class_are_refused_with_what_is_needed(name: str) -> None:
    with pytest.raises(GraphError, match="60 labelled nodes of 1 classes") as caught:
        vectors(name, np.zeros(NODES, np.int64))
    assert "at least two classes" in caught.value.remedy


def test_more_classes_than_the_setting_says_are_refused() -> None:
    with pytest.raises(GraphError, match="made has 3 classes, more than num_classes=2"):
        vectors("fs_gcn", make_graph().labels, num_classes=2)  # type: ignore[arg-type]
