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
from fossil.methods.bgrl import Bgrl, BootstrapGraph
from fossil.methods.bnll import Bnll
from fossil.methods.dgi import DGI, DGIGraph
from fossil.methods.grace import Grace, GraceGraph
from fossil.nn.augment import symmetric_scaled, with_self_loops
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
    rows = method.embedding(parts)
    found = torch.cat([rows.rows(first, min(first + 17, 90)).vectors for first in range(0, 90, 17)])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(method.encode(parts).vectors, expected, rtol=1e-5, atol=1e-6)
