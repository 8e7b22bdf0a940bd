"""A step of FOSSIL that reads a part of the graph, held to the step that reads all of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from sampled_graphs import hub_graph
from torch import Tensor

from fossil.errors import SettingError
from fossil.graph.graph import Graph
from fossil.methods.fossil import FossilV2
from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil.stages import FossilGraph
from fossil.nn.tensors import GraphTensors
from fossil.ops.features import FeatureMatrix
from fossil.ops.ranks import Ranks, divided_among
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.store import GraphStore

CPU = torch.device("cpu")
CERTAIN = {"dropout": 0.0, "fusion_dropout": 0.0}
SMALL = {"hidden": 11, "width": 6, "fusion_hidden": 5, "num_anchors": 12, "subgraph_size": 4, "temperature": 2.0}


def random(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def double(matrix: SparseMatrix) -> SparseMatrix:
    return matrix.with_values(matrix.values.double())


def in_float64(graph: FossilGraph) -> FossilGraph:
    """Return the prepared graph with all its numbers in float64."""
    tensors, data = graph.tensors, graph.tensors.features.data
    features = FeatureMatrix(data.double() if isinstance(data, Tensor) else double(data))
    of_node = None if tensors.centrality is None else tensors.centrality.double()
    adjacency = double(tensors.adjacency)
    same = tensors.propagation is tensors.adjacency
    return FossilGraph(
        GraphTensors(features, adjacency, adjacency if same else double(tensors.propagation), of_node), graph.sampler
    )


def make(graph: Graph, fan_out: int | None = None, **changes: Any) -> tuple[FossilV2, FossilGraph, SampledGraph]:
    method = FossilV2.build(FossilV2.configure(None, SMALL, CERTAIN, changes), graph.num_features, 0).double()
    sampled = method.prepare_sampled(GraphStore.of(graph), CPU, fan_out)
    return method, in_float64(method.prepare(graph, CPU)), dataclasses.replace(sampled, dtype=torch.float64)


def step(method: FossilV2, prepared: Any, *terms: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the terms of a step and the gradient of every parameter of the sum of those that are named."""
    method.zero_grad()
    objective = next(iter(method.step(prepared, random())))
    torch.stack([objective.terms[name] for name in terms or objective.terms]).sum().backward()
    gradients = {name: value.grad for name, value in method.named_parameters() if value.grad is not None}
    return dict(objective.terms), {name: value.clone() for name, value in gradients.items()}


def assert_alike(method: FossilV2, whole: Any, part: Any, *terms: str) -> None:
    expected, slopes = step(method, whole, *terms)
    found, steepness = step(method, part, *terms)
    assert slopes.keys() == steepness.keys() and slopes
    for name in terms or expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-10)
    for name, slope in slopes.items():
        torch.testing.assert_close(
            steepness[name], slope, rtol=1e-10, atol=1e-10, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aggregation": "symmetric", "activation": "none", "reach": "two_hop"},
        {"encoder": "gcn"},
        {"encoder": "gcn", "generator": "gcn_embeddings"},
        {"generator": "gat_features"},
        {"generator": "feature_attention"},
        {"hidden": 5},  # narrower than the features: they are projected before they are summed
        {"centrality": "degree_by_sum", "similarity": "pooled_cosine"},
    ],
    ids=str,
)
def test_losses_and_gradients_of_a_part_are_those_of_the_whole(directed: bool, changes: dict[str, Any]) -> None:
    method, whole, part = make(hub_graph(directed=directed), **changes)
    assert_alike(method, whole, part, "ot", "node")


def test_sparse_features_are_read_row_by_row() -> None:
    method, whole, part = make(hub_graph(directed=False, sparse=True))
    assert_alike(method, whole, part, "ot", "node")


def test_with_every_node_an_anchor_the_gate_learns_the_same_too() -> None:
    graph = hub_graph(directed=True)
    for training in ("separate", "joint"):
        method, whole, part = make(graph, num_anchors=graph.num_nodes, fusion_training=training)
        assert_alike(method, whole, part)


def test_a_fan_out_that_no_node_exceeds_changes_nothing() -> None:
    method, whole, part = make(hub_graph(directed=False), fan_out=89)
    assert_alike(method, whole, part, "ot", "node")


def test_what_the_sample_says_of_the_fusion_loss_is_right_on_average() -> None:
    method, whole, part = make(hub_graph(directed=False), num_anchors=15)
    exact = next(iter(method.step(whole, random()))).diagnose()
    drawn = [next(iter(method.step(part, random(seed)))).diagnose() for seed in range(300)]
    # The sum is unbiased, and so is the square of the length.
    for name, power in (("fusion_similarity", 1), ("fusion_l2", 2)):
        values = np.array([float(each[name]) for each in drawn]) ** power
        assert abs(values.mean() - float(exact[name]) ** power) < 4 * values.std() / len(values) ** 0.5


def test_dropout_of_a_node_is_the_same_for_all_who_see_it() -> None:
    """Sums of dropped features over neighbours vary as they do on the whole graph, where a node drops once."""
    graph = hub_graph(directed=False)
    method, whole, part = make(graph, dropout=0.5)
    nodes = torch.arange(graph.num_nodes)

    def both(prepared: Any, seed: int) -> Tensor:
        tensors = prepared.tensors if prepared is whole else method.surroundings(part, nodes, 2, random(seed))
        return method.encoder(tensors.features, tensors.propagation, random(seed)).structure[:40].detach()

    of_whole, of_part = (torch.stack([both(each, seed) for seed in range(400)]) for each in (whole, part))
    error = (of_whole.var(0) + of_part.var(0)).div(400).sqrt()
    assert ((of_whole.mean(0) - of_part.mean(0)).abs() < 5 * error + 1e-9).all()
    # Covariances between nodes, which share neighbours.
    first, second = (torch.cov(each.flatten(1).T).diagonal(40) for each in (of_whole, of_part))
    assert torch.corrcoef(torch.stack([first, second]))[0, 1] > 0.8


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"encoder": "gcn"},
        {"aggregation": "symmetric", "generator": "gcn_embeddings"},
        {"generator": "gat_features"},
        {"generator": "feature_attention", "hidden": 5},
    ],
    ids=str,
)
def test_each_rank_encodes_its_share_as_one_process_would(changes: dict[str, Any], sparse: bool) -> None:
    method, _, part = make(hub_graph(directed=True, sparse=sparse), fan_out=2, dropout=0.5, **changes)
    nodes = torch.arange(2, 33)

    def views(graph: GraphTensors) -> Tensor:
        branches = method.encoder(graph.features, graph.propagation, random(2))
        both = branches.leading(graph.num_nodes), method.generator(branches, graph, None)
        return torch.cat([rows for view in both for rows in view[:2] if rows is not None], 1)

    whole, found = method.surroundings(part, nodes, 3, random()), []
    for rank in range(3):
        with divided_among(Ranks(rank, 3)):
            share = method.surroundings(part, nodes, 3, random())
        assert share.features.shape[0] < whole.features.shape[0]
        found.append(views(share))
    assert [len(rows) for rows in found] == [11, 10, 10]
    torch.testing.assert_close(torch.cat(found), views(whole), rtol=0, atol=1e-12)


@pytest.mark.parametrize("changes", [{}, {"encoder": "gcn"}, {"aggregation": "symmetric"}, {"hidden": 5}], ids=str)
@pytest.mark.parametrize("directed", [False, True])
def test_vectors_made_in_stretches_are_those_of_the_whole(
    directed: bool, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fossil.sampling.rows.CHUNK_ELEMENTS", {"cpu": 77})
    graph = hub_graph(directed=directed)
    method = FossilV2.build(FossilV2.configure(None, SMALL, changes), graph.num_features, 0).eval()
    expected = method.encode(method.prepare(graph, CPU))
    found = method.encode(method.prepare_sampled(GraphStore.of(graph), CPU, 2))
    torch.testing.assert_close(found.vectors, expected.vectors, rtol=1e-5, atol=1e-6)
    if expected.fusion is not None:
        torch.testing.assert_close(found.fusion, expected.fusion, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found.structure_share, expected.structure_share, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("changes", [{"encoder": "gcnii"}, {"generator": "random_edges"}, {"centrality": "pagerank"}])
def test_settings_that_need_the_whole_graph_say_so(changes: dict[str, Any]) -> None:
    method = FossilV2.build(FossilV2.configure(None, SMALL, changes), 7, 0)
    with pytest.raises(SettingError, match="needs the whole graph"):
        method.check_sampled()
