"""A step of FOSSIL with channels that reads a part of the graph, held to the step that reads all of it."""

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
from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil_channels import FossilChannels, FossilChannelsV2
from fossil.methods.fossil_channels.method import ChannelGraph
from fossil.nn.channel_tensors import ChannelTensors
from fossil.ops.features import FeatureMatrix
from fossil.ops.ranks import Ranks, divided_among
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.store import GraphStore

CPU = torch.device("cpu")
CERTAIN = {"dropout": 0.0, "edge_dropout": 0.0}
SMALL = {"hidden": 11, "width": 5, "untrained": 4, "num_anchors": 12, "subgraph_size": 4}


def random(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def double(matrix: SparseMatrix) -> SparseMatrix:
    return matrix.with_values(matrix.values.double())


def build(graph: Graph, **changes: Any) -> FossilChannelsV2:
    config = FossilChannelsV2.complete(FossilChannelsV2.configure(None, SMALL, changes), graph, 0)
    return FossilChannelsV2.build(config, graph.num_features, 0)


def make(
    graph: Graph, fan_out: int | None = None, **changes: Any
) -> tuple[FossilChannelsV2, ChannelGraph, SampledGraph]:
    """Return the method, fitted and in float64, with the whole graph and with its parts."""
    method = build(graph, **CERTAIN | changes)
    whole = method.prepare(graph, CPU)
    method.fit(whole, random(0))
    method.double()
    tensors, data = whole.tensors, whole.tensors.features.data
    features = FeatureMatrix(data.double() if isinstance(data, Tensor) else double(data))
    operators = {name: double(matrix) for name, matrix in tensors.operators.items()}
    sampled = method.prepare_sampled(GraphStore.of(graph), CPU, fan_out)
    exact = ChannelGraph(ChannelTensors(features, operators), whole.sampler)
    return method, exact, dataclasses.replace(sampled, dtype=torch.float64)


def step(method: FossilChannels, prepared: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    method.zero_grad()
    objective = next(iter(method.step(prepared, random())))
    torch.stack(list(objective.terms.values())).sum().backward()
    gradients = {name: value.grad.clone() for name, value in method.named_parameters() if value.grad is not None}
    return dict(objective.terms), gradients


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("changes", [{}, {"hidden": 5}, {"channels": "low,neighbours2"}, {"channels": "identity,low2"}])
def test_losses_and_gradients_of_a_part_are_those_of_the_whole(directed: bool, changes: dict[str, Any]) -> None:
    if directed and "channels" in changes:
        changes = {"channels": changes["channels"].replace("neighbours", "in")}
    for sparse in (False, True):
        method, whole, part = make(hub_graph(directed=directed, sparse=sparse), **changes)
        (expected, slopes), (found, steepness) = step(method, whole), step(method, part)
        assert slopes.keys() == steepness.keys() and slopes
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(steepness, slopes, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("directed", [False, True])
def test_weights_and_vectors_made_in_chunks_are_those_of_the_whole(
    directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fossil.sampling.rows.CHUNK_ELEMENTS", {"cpu": 24_000})
    for changes in ({}, {"weighting": "node", "untrained": 0}):
        graph = hub_graph(directed=directed, features=150)  # wider than the columns that channels are compared by
        whole, part = build(graph, **changes).eval(), build(graph, **changes).eval()
        prepared, sampled = whole.prepare(graph, CPU), part.prepare_sampled(GraphStore.of(graph), CPU, 2)
        whole.fit(prepared, random(0))
        part.fit(sampled, random(0))
        for name, value in whole.named_buffers():
            torch.testing.assert_close(dict(part.named_buffers())[name], value, rtol=2e-4, atol=2e-5)
        part.load_state_dict(whole.state_dict())
        expected, found = whole.encode(prepared), part.encode(sampled)
        torch.testing.assert_close(found.vectors, expected.vectors, rtol=1e-4, atol=2e-6)
        torch.testing.assert_close(found.channels, expected.channels, rtol=1e-4, atol=1e-5)
        assert found.channel_shares == pytest.approx(expected.channel_shares, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("largest", [3e38, 1e-41])
def test_features_are_scaled_before_they_are_summed_in_chunks_too(largest: float) -> None:
    graph = hub_graph(directed=False)
    features = (0.8 + 0.2 * np.tanh(graph.features)) * largest  # sums of the largest over a hub leave float32
    graph = dataclasses.replace(graph, features=features.astype(np.float32))
    method = build(graph).eval()
    whole, part = method.prepare(graph, CPU), method.prepare_sampled(GraphStore.of(graph), CPU, 2)
    method.fit(whole, random(0))
    torch.testing.assert_close(method.encode(part).vectors, method.encode(whole).vectors, rtol=1e-4, atol=2e-6)


def test_edge_dropout_goes_by_the_degrees_of_the_whole_graph() -> None:
    """With a fan-out of one every row has one entry, and a share of the edges is dropped all the same."""
    graph = hub_graph(directed=False)
    method, _, part = make(graph, fan_out=1)
    nodes = torch.arange(40)
    block = method.surroundings(part, nodes, random())
    thin = block.drop_edges(torch.tensor(0.5), method.channels, random())
    matrix, degree = block.operators["neighbours"], block.degree("neighbours")
    kept = (thin.operators["neighbours"].values != 0).double()
    alone = degree[matrix.row] == 1
    assert kept[alone].all() and 0.3 < kept[~alone].mean() < 0.75
    inner = thin.operators["neighbours"].next
    assert torch.equal(inner.values, thin.operators["neighbours"].values[: inner.num_entries])


def test_edge_dropout_leaves_the_mean_of_what_a_node_sees() -> None:
    graph = hub_graph(directed=True)
    method, whole, part = make(graph)
    channel = next(channel for channel in method.channels if channel.name == "out2")
    nodes = torch.arange(60)
    block, start = method.surroundings(part, nodes, random()), whole.tensors.features.data
    exact = whole.tensors.propagate(channel, start, 2)[:60]
    draw, found = random(5), []
    for _ in range(400):
        thin = block.drop_edges(torch.tensor(0.5), method.channels, draw).operators["out"]
        found.append(thin.next.matmul(thin.matmul(block.features.data[block.columns["out"]])))
    values = torch.stack(found)
    error = values.std(0) / len(values) ** 0.5
    assert ((values.mean(0) - exact).abs() <= 5 * error + 1e-12).all()
    assert exact.abs().max() > 10 * error.max()  # what is compared is not lost in what draws vary by


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_each_rank_encodes_its_share_as_one_process_would(directed: bool, sparse: bool) -> None:
    graph = hub_graph(directed=directed, sparse=sparse)
    method, _, part = make(graph, fan_out=2, dropout=0.5, edge_dropout=0.4)
    nodes = torch.arange(2, 33)
    whole, found = method.surroundings(part, nodes, random()), []
    for rank in range(3):
        with divided_among(Ranks(rank, 3)):
            share = method.surroundings(part, nodes, random())
        assert share.features.shape[0] < whole.features.shape[0]
        found.append(method.view(share, random(2)))
    assert [len(rows) for rows in found] == [11, 10, 10]
    torch.testing.assert_close(torch.cat(found), method.view(whole, random(2)), rtol=0, atol=1e-12)


def test_the_node_loss_over_all_nodes_needs_the_whole_graph() -> None:
    with pytest.raises(SettingError, match="needs the whole graph"):
        FossilChannels.build(FossilChannels.configure(None, SMALL), 7, 0).check_sampled()
