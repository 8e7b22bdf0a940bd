"""What is particular to GSC, against a transcription of its formulas pair by pair, POT and PyG."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import ot
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv

from fossil.graph.graph import Graph
from fossil.methods.gsc import GSC, GSCCheb, GSCGraph, pairing
from fossil.nn.encoders import Branches
from fossil.nn.filters import ChebyshevConvolution
from fossil.sampling.subgraphs import Subgraphs
from fossil.transport import FusedProblem, NestedGW, ProximalPoint

CPU = torch.device("cpu")
SMALL = {"hidden": 12, "width": 6, "num_anchors": 20, "subgraph_size": 5}
NODES, FEATURES = 40, 7


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=random(seed), dtype=torch.float64)


def graph(directed: bool = False, joined: int = NODES) -> Graph:
    generator = np.random.default_rng(0)
    edges = np.triu(generator.random((NODES, NODES)) < 0.12, 1)
    edges[joined:] = edges[:, joined:] = False
    adjacency = edges if directed else edges | edges.T
    features = generator.random((NODES, FEATURES), dtype=np.float32)
    return Graph("g", sp.csr_array(adjacency.astype(np.float32)), features, np.arange(NODES))


def make(given: Graph | None = None, kind: type[GSC] = GSC, **changes: Any) -> tuple[GSC, GSCGraph]:
    method = kind.build(kind.configure(None, SMALL, changes), FEATURES, 0)
    return method, method.prepare(given or graph(), CPU)


def symmetric(*shape: int, seed: int = 0) -> Tensor:
    values = draw(*shape, seed=seed)
    return (values + values.mT) / 2


def plain_proximal(cost: Any, beta: float, iterations: int) -> Any:
    """Transcribe the recursion for one cost in NumPy."""
    size = len(cost)
    kernel, plan, sigma = np.exp(-cost / beta), np.ones((size, size)), np.ones(size) / size
    for _ in range(iterations):
        weighted = kernel * plan
        delta = 1 / (size * (weighted @ sigma))
        sigma = 1 / (size * (weighted.T @ delta))
        plan = delta[:, None] * weighted * sigma[None]
    return plan


def plain_cosines(first: Any, second: Any) -> Any:
    first, second = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (first, second))
    return first @ second.T


def plain_distances(z: Any, generated: Any, edges: Any, others: Any, plan_of: str) -> tuple[Any, Any]:
    """Return the two distances of 3S pairs, one pair after another; thresholds are over all pairs."""
    count, size = z.shape[:2]
    pairs = [(z[i], generated[i]) for i in range(count)]
    pairs += [(z[i], z[j]) for i, j in enumerate(others)] + [(z[i], generated[j]) for i, j in enumerate(others)]

    def lowered(costs: list[Any]) -> Any:
        stacked = np.stack(costs)
        low, high = stacked.min(), stacked.max()
        return np.maximum(stacked - (low + 0.1 * (high - low)), 0)

    between = lowered([np.exp(-plain_cosines(x, y) / 5) for x, y in pairs])
    within_source = lowered([np.exp(-edges[index % count] / 5) for index in range(len(pairs))])
    within_target = lowered([np.exp(-plain_cosines(y, y) / 5) for _, y in pairs])
    feature, structure = [], []
    for cost, source, target in zip(between, within_source, within_target, strict=True):
        plan = plain_proximal(cost, 0.5, 40)
        own = np.full((size, size), 1 / size**2)
        for step in range(6):
            linear = (source**2).mean(1)[:, None] + (target**2).mean(1)[None] - 2 * source @ own @ target.T
            own = plain_proximal(linear, 0.1, 20) if step < 5 else own
        feature.append((cost * plan).sum())
        structure.append((linear * (own if plan_of == "own" else plan)).sum())
    return np.array(feature), np.array(structure)


def subgraph_tensors() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    first, second = (torch.randn(4, 5, 6, generator=random(seed), dtype=torch.float64) for seed in (1, 2))
    edges = torch.triu((draw(4, 5, 5, seed=3) < 0.5).double(), 1)
    return first, second, edges + edges.mT, torch.tensor([2, 0, 3, 1])


@pytest.mark.parametrize("plan", ["own", "features"])
@pytest.mark.parametrize("gradient", ["envelope", "unrolled"])
def test_distances_are_those_of_the_plain_version(plan: str, gradient: str) -> None:
    method, _ = make(structure_plan=plan, solver_gradient=gradient)
    first, second, edges, others = subgraph_tensors()
    found = method.compare(first, second, edges, others)
    expected = plain_distances(first.numpy(), second.numpy(), edges.numpy(), others.numpy(), plan)
    np.testing.assert_allclose(found.feature.numpy(), expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.structure.numpy(), expected[1], rtol=0, atol=1e-12)


def test_steps_and_iterations_are_the_official_ones() -> None:
    method, _ = make()
    assert method.feature_solver == ProximalPoint(step=0.5, iterations=40)
    assert method.structure_solver == NestedGW(outer=5, inner=20, step=0.1)


def test_the_feature_distance_is_close_to_pots_exact_one_from_above() -> None:
    costs = 3 * draw(8, 15, 15, seed=4)
    mass = np.full(15, 1 / 15)
    found = make()[0].feature_solver(FusedProblem.of_features(costs)).value
    for cost, value in zip(costs, found.tolist(), strict=True):
        exact = ot.emd2(mass, mass, cost.numpy())
        assert exact - 1e-3 < value < exact + 0.02
        # Far better than the plan it starts from.
        assert cost.mean().item() > exact + 0.5


def test_the_structure_distance_is_pots_loss_of_the_plan() -> None:
    source, target = symmetric(3, 6, 6, seed=5), symmetric(3, 6, 6, seed=6)
    solution = make()[0].structure_solver(FusedProblem.of_structures(source, target))
    found, plans = solution.value, solution.plan
    mass = np.full(6, 1 / 6)
    for index in range(3):
        constant, first, second = ot.gromov.init_matrix(
            source[index].numpy(), target[index].numpy(), mass, mass, "square_loss"
        )
        expected = ot.gromov.gwloss(constant, first, second, plans[index].numpy())
        assert found[index].item() == pytest.approx(expected, abs=1e-12)


def test_only_the_unrolled_gradient_goes_through_the_plans() -> None:
    first, second, edges, others = subgraph_tensors()
    gradients = {}
    for kind in ("envelope", "unrolled"):
        method, _ = make(solver_gradient=kind, structure_plan="features")
        given = first.clone().requires_grad_()
        found = method.compare(given, second, edges, others)
        gradients[kind] = torch.autograd.grad(found.feature.sum() + found.structure.sum(), given)[0]
    assert not torch.allclose(gradients["envelope"], gradients["unrolled"], rtol=1e-3)
    direction = torch.zeros_like(first)
    direction[1, 2, 3] = 1e-6

    def total(z: Tensor) -> float:
        found = method.compare(z, second, edges, others)
        return (found.feature.sum() + found.structure.sum()).item()

    slope = (total(first + direction) - total(first - direction)) / 2e-6
    assert gradients["unrolled"][1, 2, 3].item() == pytest.approx(slope, rel=1e-4)


def test_the_loss_is_plain_cross_entropy_over_the_filled_subgraphs() -> None:
    method, _ = make(structure_weight=0.3)
    first, second, edges, others = subgraph_tensors()
    distances = method.compare(first, second, edges, others)
    count = torch.tensor(3)
    subgraphs = Subgraphs(torch.zeros(4, 5, dtype=torch.int64), count, count, count)
    loss, record = method.contrast(distances, subgraphs)
    kept = torch.tensor([0, 1, 2, 4, 5, 6, 8, 9, 10])
    labels = torch.tensor([1.0] * 3 + [0.0] * 6, dtype=torch.float64)
    entropy = nn.BCEWithLogitsLoss()
    of_features = entropy(torch.exp(-distances.feature[kept] / 0.01), labels)
    of_structure = entropy(torch.exp(-distances.structure[kept] / 0.1), labels)
    torch.testing.assert_close(record["wasserstein"], of_features)
    torch.testing.assert_close(record["gromov_wasserstein"], of_structure)
    torch.testing.assert_close(loss, 0.7 * of_features + 0.3 * of_structure)


@pytest.mark.parametrize("filled", [0, 1])
def test_a_step_without_a_pair_of_subgraphs_has_no_loss_and_no_nan(filled: int) -> None:
    method, prepared = make()
    count = torch.tensor(filled)
    subgraphs = Subgraphs(torch.zeros(20, 5, dtype=torch.int64), count, count, count)
    rows, others = pairing(subgraphs, random())
    embeddings = method.embed(prepared.tensors)[subgraphs.nodes[rows]]
    loss, _ = method.contrast(method.compare(embeddings, embeddings, torch.zeros(20, 5, 5), others), subgraphs)
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in method.parameters())


def test_partners_are_other_filled_subgraphs_uniformly_and_repeated_rows_copy_the_first() -> None:
    count, size, draws = 5, 12, 3000
    subgraphs = Subgraphs(torch.zeros(size, 3, dtype=torch.int64), torch.tensor(count), *[torch.tensor(0)] * 2)
    seen, generator = torch.zeros(count, count), random()
    for _ in range(draws):
        rows, others = pairing(subgraphs, generator)
        assert torch.equal(rows, torch.arange(size) % count)
        assert torch.equal(others[count:], others[rows[count:]])
        seen[rows[:count], others[:count]] += 1
    assert seen.diagonal().sum() == 0
    rest = seen[~torch.eye(count, dtype=torch.bool)] / draws
    assert ((rest - 0.25).abs() < 5 * (0.25 * 0.75 / draws) ** 0.5).all()


def test_the_encoder_and_the_generator_are_those_of_pyg() -> None:
    method, prepared = make()
    first, second = GCNConv(FEATURES, 12), GCNConv(12, 6)
    attention = GATConv(6, 6, add_self_loops=False)
    with torch.no_grad():
        for peer, layer in ((first, method.first), (second, method.second)):
            layer.bias.normal_(generator=random(7))
            peer.lin.weight.copy_(layer.weight.T)
            peer.bias.copy_(layer.bias)
        attention.lin.weight.copy_(method.generator.weight.T)
        attention.att_src.copy_(method.generator.attention.to_neighbour[None])
        attention.att_dst.copy_(method.generator.attention.to_centre[None])
        attention.bias.copy_(method.generator.bias)
    edges = torch.from_numpy(np.stack(graph().adjacency.nonzero())).long()
    features = torch.from_numpy(graph().features.copy())
    expected = torch.relu(second(torch.relu(first(features, edges)), edges))
    found = method.encode(prepared).vectors
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    generated = method.generator(Branches(None, found), prepared.tensors, random()).structure
    torch.testing.assert_close(generated, torch.relu(attention(expected, edges)), rtol=1e-4, atol=1e-5)


def test_subgraphs_hold_distinct_connected_nodes_around_the_anchor_and_isolated_anchors_drop_out() -> None:
    _, prepared = make(graph(joined=30))
    anchors = torch.arange(NODES)
    subgraphs = prepared.sampler.sample(anchors, random()).compact()
    degree = graph(joined=30).adjacency.sum(1)
    assert 0 < subgraphs.count <= int((degree > 0).sum())
    dense = graph(joined=30).adjacency.toarray() + np.eye(NODES)
    within = np.linalg.matrix_power(dense, 6) > 0
    for nodes in subgraphs.nodes.tolist():
        assert len(set(nodes)) == 5
        assert within[nodes[-1], nodes].all()


def test_structure_costs_see_no_self_loops() -> None:
    method, prepared = make()
    seen: list[Tensor] = []
    plain = method.compare

    def watch(first: Tensor, second: Tensor, edges: Tensor, others: Tensor) -> Any:
        seen.append(edges)
        return plain(first, second, edges, others)

    method.compare = watch  # type: ignore[method-assign]
    next(method.step(prepared, random()))
    (edges,) = seen
    assert edges.sum() > 0
    assert not edges.diagonal(dim1=1, dim2=2).any()
    assert torch.equal(edges, edges.mT)


def test_gsc_cheb_has_chebyshev_convolutions_of_the_given_number_of_terms() -> None:
    method, prepared = make(kind=GSCCheb, polynomial_terms=4)
    assert isinstance(method.first, ChebyshevConvolution) and isinstance(method.second, ChebyshevConvolution)
    assert method.first.weight.shape == (FEATURES, 4 * 12)
    values = prepared.tensors.propagation.values
    assert (values < 0).all() and prepared.tensors.propagation.num_entries == graph().num_edges


@pytest.mark.parametrize("kind", [GSC, GSCCheb])
def test_self_loops_are_left_out(kind: type[GSC]) -> None:
    method, prepared = make(kind=kind)
    looped = replace(graph(), adjacency=sp.csr_array(graph().adjacency + sp.eye_array(NODES, dtype=np.float32)))
    torch.testing.assert_close(method.encode(method.prepare(looped, CPU)).vectors, method.encode(prepared).vectors)


@pytest.mark.parametrize("kind", [GSC, GSCCheb])
def test_directed_graphs_are_made_undirected(kind: type[GSC]) -> None:
    method, prepared = make(kind=kind)
    found = method.encode(method.prepare(graph(directed=True), CPU)).vectors
    torch.testing.assert_close(found, method.encode(prepared).vectors)
