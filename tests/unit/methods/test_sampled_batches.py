"""Steps of other methods on batches of nodes, held to the steps that read the whole graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from sampled_graphs import hub_graph
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.batches import TrainsOnBatches
from fossil.methods.bgrl import BatchNorm, Bgrl, BootstrapGraph
from fossil.methods.bnll import Bnll
from fossil.methods.dgi import DGI, DGIGraph
from fossil.methods.grace import Grace, GraceGraph
from fossil.nn.augment import drop_edges, symmetric_scaled, with_self_loops
from fossil.nn.blocks import LoopedBlock
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.batches import NodeBatches
from fossil.sampling.store import GraphStore

CPU = torch.device("cpu")
WIDTHS = {"width": 6, "hidden": 9, "projection": 5, "predictor_hidden": 7}


def random(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(kind: type[TrainsOnBatches[Any]], graph: Graph, **changes: Any) -> TrainsOnBatches[Any]:
    small = {name: value for name, value in WIDTHS.items() if name in kind.Config.model_fields}
    return kind.build(kind.configure(None, small, changes), graph.num_features, 0).double()


def parts_of(method: TrainsOnBatches[Any], graph: Graph, batch: int, fan_out: int | None = None) -> NodeBatches:
    method.batch_nodes = batch
    sampled = method.prepare_sampled(GraphStore.of(graph, ("out",)), CPU, fan_out)
    return dataclasses.replace(sampled, dtype=torch.float64)


def double(matrix: SparseMatrix) -> SparseMatrix:
    return matrix.with_values(matrix.values.double())


def whole_of(method: TrainsOnBatches[Any], graph: Graph) -> Any:
    """Return what `prepare` does, in float64."""
    looped = double(with_self_loops(graph.adjacency))
    parts = parts_of(method, graph, graph.num_nodes)
    features = parts.store.features.take(torch.arange(graph.num_nodes), CPU, torch.float64)
    if isinstance(method, DGI):
        return DGIGraph(features, symmetric_scaled(looped))
    if isinstance(method, Grace):
        return GraceGraph(features, looped, symmetric_scaled(looped))
    return BootstrapGraph(features, double(SparseMatrix.from_scipy(graph.adjacency)), looped)


def step(method: TrainsOnBatches[Any], prepared: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of a step and its gradient by every parameter."""
    method.zero_grad()
    objective = next(iter(method.step(prepared, random())))
    loss = torch.stack(list(objective.terms.values())).sum()
    loss.backward()
    slopes = {name: value.grad.clone() for name, value in method.named_parameters() if value.grad is not None}
    return loss.detach(), slopes


CASES = [
    (DGI, {}),
    (DGI, {"layers": 3, "activation": "relu", "normalize_features": False}),
    (DGI, {"width": 12, "dropout": 0.3}),
    (Grace, {}),
    (Grace, {"layers": 1, "activation": "prelu", "edge_drop_1": 0.0, "unit_embeddings": False}),
    (Bgrl, {}),
    (Bgrl, {"layers": 3, "norm": "layer", "unit_embeddings": False}),
    (Bnll, {}),
    (Bnll, {"second_prediction": "overwritten", "layers": 1}),
]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("kind", "changes"), CASES, ids=str)
def test_a_batch_of_all_nodes_is_the_full_step(
    kind: type[TrainsOnBatches[Any]], changes: dict[str, Any], sparse: bool, directed: bool
) -> None:
    graph = hub_graph(directed=directed, sparse=sparse)
    method = make(kind, graph, **changes)
    expected, slopes = step(method, whole_of(method, graph))
    found, steepness = step(method, parts_of(method, graph, graph.num_nodes))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert slopes.keys() == steepness.keys() and slopes
    for name, slope in slopes.items():
        torch.testing.assert_close(steepness[name], slope, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("kind", "changes"), CASES, ids=str)
def test_rows_are_those_of_the_full_encoding(
    kind: type[TrainsOnBatches[Any]], changes: dict[str, Any], sparse: bool, directed: bool
) -> None:
    graph = hub_graph(directed=directed, sparse=sparse)
    method = make(kind, graph, **changes).float().eval()
    expected = method.encode(method.prepare(graph, CPU)).vectors
    parts = dataclasses.replace(parts_of(method, graph, 5, fan_out=2), dtype=torch.float32)
    inference = method.inference(parts)
    found = torch.cat([inference.vectors(first, min(first + 17, 90)).vectors for first in range(0, 90, 17)])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(method.encode(parts).vectors, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("kind", "changes"), [case for case in CASES if case[0] is not Bnll], ids=str)
def test_a_small_batch_with_all_neighbours_has_the_rows_of_the_whole_graph(
    kind: type[TrainsOnBatches[Any]], changes: dict[str, Any], directed: bool
) -> None:
    """A batch of all nodes has no rim; here the block ends before the graph does."""
    graph = hub_graph(directed=directed)
    method, nodes = make(kind, graph, **changes), torch.tensor([3, 88, 0, 41])
    looped = double(with_self_loops(graph.adjacency))
    whole = whole_of(method, graph)
    layers = len(method.row_layers())
    block = LoopedBlock.around(parts_of(method, graph, 4), nodes, layers, random())

    def embed(features: FeatureMatrix, propagation: SparseMatrix) -> Tensor:
        if isinstance(method, DGI):
            return method.embed(features.project(method.first.weight), propagation)
        if isinstance(method, Grace):
            return method.embed(features, propagation)
        return method.encoder(features, propagation, learning=False)

    expected = embed(whole.features, symmetric_scaled(looped))[nodes]
    found = embed(block.features, block.propagation())
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_views_of_a_block_are_those_of_the_whole_graph_on_average() -> None:
    graph, nodes = hub_graph(directed=True), torch.tensor([3, 0, 41])
    looped, columns = double(with_self_loops(graph.adjacency)), torch.eye(90, dtype=torch.float64)
    method, draws = make(Grace, graph), 4_000
    block = LoopedBlock.around(parts_of(method, graph, 3), nodes, 1, random())
    around = parts_of(method, graph, 3).around(nodes, "out", 1, random()).nodes
    source = random(2)
    whole = torch.stack([drop_edges(looped, 0.4, source).matmul(columns)[nodes] for _ in range(draws)])
    part = torch.stack([block.dropped(0.4, source).matmul(columns[around]) for _ in range(draws)])
    error = ((whole.var(0) + part.var(0)) / draws).sqrt()
    assert ((whole.mean(0) - part.mean(0)).abs() <= 5 * error + 1e-12).all()
    torch.testing.assert_close(whole.std(0), part.std(0), rtol=0.15, atol=0.01)


def test_statistics_of_the_first_rows_normalise_all_of_them() -> None:
    values = torch.randn(12, 3, generator=random(), dtype=torch.float64)
    norm, plain = BatchNorm(3, 0.7).double(), BatchNorm(3, 0.7).double()
    found = norm(values, learning=True, counted=5)
    torch.testing.assert_close(found[:5], plain(values[:5], learning=True), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(norm.mean, plain.mean)
    torch.testing.assert_close(norm.variance, plain.variance)
    spread = values[:5].var(0, correction=0)
    torch.testing.assert_close(found, (values - values[:5].mean(0)) / (spread + 1e-5).sqrt())
