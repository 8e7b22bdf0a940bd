"""What is particular to MUSE: its views and both losses, against dense float64 formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.methods.muse import MUSE, Views, scaled, thin
from fossil.nn.encoders import Branches
from fossil.nn.tensors import GraphTensors
from fossil.ops.sparse import SparseMatrix
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
SMALL = {"hidden": 12, "width": 6, "fusion_hidden": 4}
STILL = {"dropout": 0.0, "feature_mask": 0.0, "edge_drop": 0.0, "fusion_dropout": 0.0}
NODES = 25


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph() -> Graph:
    """A directed graph whose last node has no edges."""
    draw = np.random.default_rng(0)
    edges = draw.random((NODES, NODES)) < 0.2
    edges[-1] = edges[:, -1] = False
    np.fill_diagonal(edges, False)
    features = draw.normal(size=(NODES, 5)).astype(np.float32)
    return Graph("g", sp.csr_array(edges.astype(np.float32)), features, np.arange(NODES))


def make(preset: str | None = None, **changes: Any) -> tuple[MUSE, GraphTensors]:
    method = MUSE.build(MUSE.configure(preset, SMALL, changes), 5, 0)
    return method, method.prepare(graph(), CPU)


def dense_branch(method: MUSE, features: Tensor, spread: Tensor) -> Tensor:
    """Two layers PReLU(S X W + b) with a ReLU between them, in float64."""
    first, second = method.encoder.first, method.encoder.second
    hidden = spread @ features @ first.weight.double() + first.bias
    hidden = torch.relu(nn.functional.prelu(hidden, first.prelu.weight.double()))
    out = spread @ hidden @ second.weight.double() + second.bias
    return nn.functional.prelu(out, second.prelu.weight.double())


def dense_contrast(method: MUSE, first: Tensor, second: Tensor) -> Tensor:
    """GRACE's loss behind the head, with all N×N similarities at once, in float64."""
    inward, norm, _, outward = method.head.children()
    projected = []
    for values in (first, second):
        hidden = values @ inward.weight.double().T
        centred = hidden - hidden.mean(0)
        hidden = centred / (centred.square().mean(0) + norm.eps).sqrt() * norm.weight + norm.bias
        projected.append(nn.functional.elu(hidden) @ outward.weight.double().T + outward.bias)
    u, v = (nn.functional.normalize(values) for values in projected)
    directions = []
    for one, other in ((u, v), (v, u)):
        between, within = (torch.exp(one @ x.T / method.config.temperature) for x in (other, one))
        directions.append(-torch.log(between.diag() / (between.sum(1) + within.sum(1) - within.diag())))
    return torch.cat(directions).mean()


def random_views() -> Views:
    h1, h2, h3, h4 = torch.randn(4, NODES, 6, generator=random(1), dtype=torch.float32)
    return Views(Branches(h1, h3), Branches(h2, h4), torch.rand(NODES, 1, generator=random(2)))


def test_the_loss_is_the_weighted_sum_of_three_dense_contrasts() -> None:
    method, _ = make(context_weight=0.3, fused_weight=0.7)
    views = random_views()
    (h1, h3), (h2, h4), fusion = (
        tuple(x.double() for x in part[:2]) if isinstance(part, Branches) else part.double() for part in views
    )
    found, parts = method.contrast(views)
    pairs = {"semantic": (h1, h2), "context": (h3, h4), "fused": (h1 + fusion * h3, h2 + fusion * h4)}
    expected = {name: dense_contrast(method, *pair) for name, pair in pairs.items()}
    for name, value in expected.items():
        torch.testing.assert_close(torch.as_tensor(parts[name]).double(), value, rtol=1e-5, atol=1e-5)
    total = expected["semantic"] + 0.3 * expected["context"] + 0.7 * expected["fused"]
    torch.testing.assert_close(found.double(), total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("aggregation", ["sum", "mean", "symmetric"])
def test_views_without_changes_are_the_dense_encodings(aggregation: str) -> None:
    method, prepared = make(aggregation=aggregation, **STILL)
    views = method.views(prepared, random())
    spread = torch.from_numpy(dense_propagation(graph().adjacency.toarray(), aggregation))
    x = torch.tensor(graph().features, dtype=torch.float64)
    semantic, context = (dense_branch(method, x, s) for s in (torch.eye(NODES, dtype=torch.float64), spread))
    for branches in (views.original, views.changed):
        assert branches.feature is not None
        torch.testing.assert_close(branches.feature.double(), semantic, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(branches.structure.double(), context, rtol=1e-4, atol=1e-5)
    embedding, fusion, *_ = method.encode(prepared)
    assert fusion is not None
    torch.testing.assert_close(embedding.double(), semantic + fusion[:, None] * context, rtol=1e-4, atol=1e-5)


def dense_propagation(adjacency: np.ndarray[Any, Any], aggregation: str) -> np.ndarray[Any, Any]:
    dense = adjacency.astype(np.float64)
    degree = np.where(dense.sum(1) > 0, dense.sum(1), 1)
    if aggregation == "mean":
        return np.asarray(dense / degree[:, None])
    if aggregation == "symmetric":
        linked = dense.sum(1) > 0
        return np.asarray(dense * np.outer(linked, linked) / np.sqrt(np.outer(degree, degree)))
    return dense


def test_masking_changes_the_semantic_view_alone_and_dropping_the_contextual_view_alone() -> None:
    for change, semantic_moves in (({"feature_mask": 0.5}, True), ({"edge_drop": 0.5}, False)):
        method, prepared = make(**{**STILL, **change})
        original, changed, _ = method.views(prepared, random(3))
        assert original.feature is not None and changed.feature is not None
        assert torch.allclose(original.feature, changed.feature) is not semantic_moves
        assert torch.allclose(original.structure, changed.structure) is semantic_moves


@pytest.mark.parametrize(("pull", "factor"), [("per_graph", 1), ("per_node", NODES)])
def test_the_gate_loss_equals_its_formula_on_constant_embeddings(pull: str, factor: int) -> None:
    method, prepared = make(fusion_pull=pull, fusion_mean=1.5, fusion_l2=0.2, fusion_target=0.9, **STILL)
    _, objective = method.step(prepared, random())
    branches = method.encoder(prepared.features, prepared.propagation)
    h1, h3 = branches.feature.detach().double(), branches.structure.detach().double()
    gate = method.gate
    degree = torch.from_numpy(graph().adjacency.sum(axis=1).astype(np.float64))[:, None]
    read = [
        h1 @ gate.of_feature.weight.double().T + gate.of_feature.bias,
        h3 @ gate.of_structure.weight.double().T + gate.of_structure.bias,
        degree,
    ]
    fusion = torch.sigmoid(torch.cat(read, 1) @ gate.join.weight.double().T + gate.join.bias).squeeze(1)
    alike = (fusion * nn.functional.cosine_similarity(h1, h3)).sum()
    expected = alike + factor * 1.5 * (fusion.mean() - 0.9).abs() + 0.2 * fusion.square().sum().sqrt()
    torch.testing.assert_close(objective.terms["fusion"].double(), expected, rtol=1e-5, atol=1e-5)


def test_the_contrast_moves_the_encoder_alone_and_the_gate_loss_the_gate_alone() -> None:
    method, prepared = make()
    touched = []
    for objective in method.step(prepared, random()):
        method.zero_grad(set_to_none=True)
        (loss,) = objective.terms.values()
        loss.backward()
        touched.append({name.split(".")[0] for name, p in method.named_parameters() if p.grad is not None})
    assert touched == [{"encoder", "head"}, {"gate"}]


def test_the_pull_per_node_holds_the_average_and_the_released_one_lets_it_fall() -> None:
    """Both branches are the same, so that cosines are one and push λ down with all their force."""
    alike, degree = torch.randn(400, 6, generator=random(4)), torch.ones(400, 1)
    branches = Branches(alike, alike)
    means = []
    for pull, weight in (("per_node", 2.0), ("per_graph", 100.0)):
        method, _ = make(fusion_target=0.6, fusion_pull=pull, fusion_mean=weight)
        optimizer = torch.optim.Adam(method.gate.parameters(), lr=0.01)
        for step in range(400):
            optimizer.zero_grad()
            method.gate_loss(branches, degree, random(step))[0].backward()
            optimizer.step()
        means.append(float(method.gate(branches, degree, None).detach().mean()))
    assert means[0] == pytest.approx(0.6, abs=0.05)
    assert means[1] < 0.1


def test_thinning_keeps_ones_in_place_with_the_probability_asked_for() -> None:
    whole = SparseMatrix.from_scipy(sp.csr_array(np.ones((200, 200), np.float32)))
    thinned = thin(whole, 0.2, random())
    assert torch.equal(thinned.col, whole.col)
    assert set(thinned.values.tolist()) == {0.0, 1.0}
    assert float(thinned.values.mean()) == pytest.approx(0.8, abs=5 * (0.16 / 40_000) ** 0.5)
    entries = thinned.values.view(200, 200)
    assert not torch.equal(entries, entries.T)
    assert thin(whole, 0.0, random()) is whole


def test_averages_of_a_thinned_graph_are_over_the_edges_left() -> None:
    thinned = thin(SparseMatrix.from_scipy(graph().adjacency), 0.5, random())
    found = scaled(thinned, "mean").matmul(torch.eye(NODES))
    expected = dense_propagation(thinned.matmul(torch.eye(NODES)).numpy(), "mean")
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_the_slope_that_a_relu_hides_stays_and_the_gate_learns() -> None:
    method, prepared = make()
    before = [p.detach().clone() for p in method.gate.parameters()]
    Trainer(method, prepared, 0, CPU).step()
    assert float(method.encoder.first.prelu.weight) == 0.25
    assert not any(torch.equal(*pair) for pair in zip(before, method.gate.parameters(), strict=True))


def test_a_single_node_is_refused() -> None:
    method, _ = make()
    lone = Graph("lone", sp.csr_array((1, 1), dtype=np.float32), np.ones((1, 5), np.float32), np.arange(1))
    with pytest.raises(GraphError, match="has one") as caught:
        method.check_trainable(method.prepare(lone, CPU))
    assert caught.value.remedy
