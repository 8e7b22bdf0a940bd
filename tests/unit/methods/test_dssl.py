"""What is particular to DSSL: its bound, its twin and its prototypes, against plain loops in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.methods.dssl import DSSL, DsslGraph, Links, _gumbel, released_prototypes, unit_prototypes
from fossil.training.trainer import Trainer

CPU = torch.device("cpu")
SMALL = {"hidden": 8, "width": 6, "clusters": 3, "neighbours": 4}


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph(nodes: int = 30) -> Graph:
    """A directed graph whose last two nodes have no edges."""
    draw = np.random.default_rng(0)
    edges = np.triu(draw.random((nodes, nodes)) < 0.2, 1)
    edges[-2:] = edges[:, -2:] = False
    features = draw.random((nodes, 5), dtype=np.float32)
    return Graph("g", sp.csr_array(edges.astype(np.float32)), features, np.arange(nodes))


def make(seed: int = 0, **changes: Any) -> tuple[DSSL, DsslGraph]:
    method = DSSL.build(DSSL.configure(None, SMALL, changes), 5, seed)
    return method, method.prepare(graph(), CPU)


def apply(network: nn.Module, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Linear, ReLU, linear, in float64."""
    first, _, second = network.double().children()
    hidden = np.maximum(first.weight.detach().numpy() @ values + first.bias.detach().numpy(), 0)
    result: np.ndarray[Any, Any] = second.weight.detach().numpy() @ hidden + second.bias.detach().numpy()
    return result


def softmax(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())


@pytest.mark.parametrize("gumbel_input", ["log_probabilities", "probabilities"])
def test_the_terms_of_the_bound_equal_a_loop_over_links(gumbel_input: str) -> None:
    beta, tau = 0.7, 0.4
    method, prepared = make(gumbel_input=gumbel_input, factor_weight=beta, temperature=tau)
    links = method.links(prepared, random())
    found = method.loss_parts(links, random(7))

    noise = _gumbel(links.log_reasons, random(7)).double().numpy()
    method = copy.deepcopy(method)
    z, t = links.nodes.detach().double().numpy(), links.targets.double().numpy()
    prototypes = method.prototypes.double().numpy()
    reconstruction, prior, entropy = [], [], []
    for i in range(len(z)):
        reasons = []
        for j in range(4):
            k = softmax(apply(method.inference, z[i] * t[i, j]))
            drawn = softmax((np.log(k) if gumbel_input == "log_probabilities" else k) + noise[i, j])
            predicted = apply(method.predictor, z[i]) + beta * apply(method.factor, drawn)
            cosine = predicted @ t[i, j] / np.linalg.norm(predicted) / np.linalg.norm(t[i, j])
            reconstruction.append(2 - 2 * cosine)
            reasons.append(k)
        mean = np.mean(reasons, axis=0)
        prior.append(-(mean * np.log(softmax(z[i] @ prototypes / tau))).sum())
        entropy.append((mean * np.log(mean)).sum())
    for name, expected in (("reconstruction", reconstruction), ("prior", prior), ("entropy", entropy)):
        assert float(found[name].detach()) == pytest.approx(np.mean(expected), rel=1e-5), name


def test_the_loss_weighs_the_divergence_and_a_prior_equal_to_the_reasons_has_none() -> None:
    method, prepared = make(prior_weight=0.3)
    objective = next(method.step(prepared, random()))
    parts = {key: float(torch.as_tensor(value).detach()) for key, value in objective.diagnose().items()}
    assert float(objective.terms["loss"].detach()) == pytest.approx(
        parts["reconstruction"] + 0.3 * (parts["prior"] + parts["entropy"]), rel=1e-6
    )
    assert parts["prior"] + parts["entropy"] > 0
    # Reasons that are the same for all links of a node, and a prior made of just them.
    links = method.links(prepared, None)
    log_prior = torch.log_softmax(links.nodes @ method.prototypes, dim=1)
    agreeing = Links(*links[:3], log_prior[:, None].expand(-1, 4, -1))
    shared = method.loss_parts(agreeing, random())
    assert float((shared["prior"] + shared["entropy"]).detach()) == pytest.approx(0, abs=1e-6)


def test_links_join_unit_embeddings_with_the_twins_of_true_neighbours() -> None:
    method, prepared = make()
    links = method.links(prepared, None)
    online = method.online(prepared.features, prepared.propagation, None).detach()
    torch.testing.assert_close(links.nodes, nn.functional.normalize(online))
    twin = nn.functional.normalize(method.target(prepared.features, prepared.propagation, None))
    undirected = (graph().adjacency + graph().adjacency.T).toarray()
    for i, row in enumerate(prepared.neighbours.tolist()):
        for place, j in enumerate(row):
            assert undirected[i, j] or (i == j and i >= 28)
            torch.testing.assert_close(links.targets[i, place], twin[j])
    assert links.log_reasons.exp().sum(-1).allclose(torch.ones(30, 4))


def test_gumbel_noise_has_the_mean_and_variance_of_its_law() -> None:
    noise = _gumbel(torch.empty(200_000), random()).double()
    deviation = math.pi / math.sqrt(6)
    assert float(noise.mean()) == pytest.approx(0.5772156649, abs=5 * deviation / math.sqrt(200_000))
    assert float(noise.std()) == pytest.approx(deviation, rel=0.02)


def parameters(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def test_after_a_step_the_frozen_twin_is_the_moving_average_of_the_encoder() -> None:
    method, prepared = make(momentum=0.8)
    before = parameters(method.target)
    Trainer(method, prepared, 0, CPU).step()
    for twin, start, online in zip(parameters(method.target), before, parameters(method.online), strict=True):
        torch.testing.assert_close(twin, 0.8 * start + 0.2 * online)
    assert not any(torch.equal(*pair) for pair in zip(parameters(method.online), before, strict=True))


@pytest.mark.parametrize("leaking", [False, True])
def test_the_twin_takes_gradients_when_told_to_leak_only(leaking: bool) -> None:
    method, prepared = make(leaking_target=leaking)
    next(method.step(prepared, random())).terms["loss"].backward()
    assert all((p.grad is not None) is leaking for p in method.target.parameters())
    grouped = {id(p) for p in method.parameter_groups()["all"].parameters}
    assert all((id(p) in grouped) is leaking for p in method.target.parameters())


@pytest.mark.parametrize(("weight", "reaches"), [(0.0, False), (1.0, True)])
def test_a_leaking_twin_learns_through_the_reasons_of_links_and_not_as_what_is_predicted(
    weight: float, reaches: bool
) -> None:
    method, prepared = make(leaking_target=True, factor_weight=weight)
    reconstruction = method.loss_parts(method.links(prepared, random()), random())["reconstruction"]
    found = torch.autograd.grad(reconstruction, list(method.target.parameters()), allow_unused=True)
    assert any(each is not None and bool(each.any()) for each in found) is reaches


def assigned() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Nodes, shares of three clusters of which the last is nobody's first choice, and old prototypes."""
    draw = np.random.default_rng(3)
    shares = draw.dirichlet(np.ones(3), 20)
    shares[:, 2] *= 0.01
    return draw.normal(size=(20, 4)), shares, draw.normal(size=(4, 3))


def test_unit_prototypes_are_directions_of_cluster_means_and_empty_clusters_keep_theirs() -> None:
    nodes, shares, previous = assigned()
    found = unit_prototypes(*map(torch.from_numpy, (nodes, shares, previous)))
    expected = previous.copy()
    for cluster in (0, 1):
        mean = nodes[shares.argmax(1) == cluster].mean(0)
        expected[:, cluster] = mean / np.linalg.norm(mean)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_released_prototypes_are_scaled_across_clusters_and_by_their_size() -> None:
    nodes, shares, _ = assigned()
    found = released_prototypes(torch.from_numpy(nodes), torch.from_numpy(shares))
    sums = np.stack([nodes[shares.argmax(1) == cluster].sum(0) for cluster in range(3)], axis=1)
    sizes = np.bincount(shares.argmax(1), minlength=3)
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True) / (sizes + 1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("axis", ["features", "clusters"])
def test_prototypes_follow_the_clusters_after_each_step(axis: str) -> None:
    method, prepared = make(prototype_axis=axis)
    before = method.prototypes.clone()
    Trainer(method, prepared, 0, CPU).step()
    links = method.links(prepared, None)
    shares = links.log_reasons.exp().mean(1)
    expected = (
        unit_prototypes(links.nodes, shares, before)
        if axis == "features"
        else released_prototypes(links.embeddings, shares)
    )
    torch.testing.assert_close(method.prototypes, expected.detach())


def test_encoders_are_the_networks_of_the_paper() -> None:
    """In training mode without dropout, against PyTorch's own layers and a dense propagation matrix."""
    for kind in ("gcn", "mlp"):
        method, prepared = make(encoder=kind, dropout=0.0)
        encoder = copy.deepcopy(method.online).double()
        x = torch.tensor(graph().features, dtype=torch.float64)
        looped = torch.from_numpy((graph().adjacency + graph().adjacency.T).toarray()).double() + torch.eye(30)
        scale = looped.sum(1).rsqrt()
        spread = scale[:, None] * looped * scale if kind == "gcn" else torch.eye(30, dtype=torch.float64)
        hidden = spread @ x @ encoder.first.weight
        if kind == "gcn":
            hidden = torch.relu(nn.BatchNorm1d(8).double()(hidden))
        else:
            hidden = nn.BatchNorm1d(8).double()(torch.relu(hidden + encoder.first.bias))
        expected = spread @ hidden @ encoder.second.weight + encoder.second.bias
        found = method.online(prepared.features, prepared.propagation, random())
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_sampled_neighbours_depend_on_the_seed_of_the_run() -> None:
    first, again, other = (make(seed)[1].neighbours for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("edges", [sp.csr_array((4, 4), dtype=np.float32), sp.eye_array(4, dtype=np.float32)])
def test_a_graph_without_edges_between_nodes_is_refused(edges: sp.csr_array) -> None:
    method, _ = make()
    bare = Graph("bare", sp.csr_array(edges), np.ones((4, 5), np.float32), np.arange(4))
    with pytest.raises(GraphError, match="no edges") as caught:
        method.check_trainable(method.prepare(bare, CPU))
    assert caught.value.remedy
