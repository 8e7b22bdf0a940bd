"""One forward pass and its losses, against a plain dense float64 transcription of what the released code computes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.fossil import Fossil
from fossil.methods.fossil.stages import Compared, FossilGraph, Pairs
from fossil.nn.encoders import Branches
from fossil.ops.fusion_gate import Gate
from fossil.sampling.subgraphs import Subgraphs

NODES, FEATURES = 24, 7
SUBGRAPHS = torch.tensor(
    [[3, 5, 9, 0], [1, 2, 4, 8], [10, 11, 12, 13], [5, 3, 20, 21], [22, 23, 0, 7], [14, 15, 16, 6]]
)
NEGATIVES = torch.tensor([1, 0, 4, 5, 3, 2]), torch.tensor([2, 5, 3, 0, 1, 4])
SMALL = {"hidden": 10, "width": 6, "fusion_hidden": 4, "subgraph_size": 4, "dropout": 0.0, "fusion_dropout": 0.0}
VARIANTS: dict[str, dict[str, object]] = {
    "defaults": {},
    "relu": {"activation": "relu", "alpha": 0.2, "temperature": 0.5},
    "features alone": {"alpha": 1.0, "bapg_step": 0.1},
    "structure alone": {"alpha": 0.0, "bapg_step": 2.0},
    "v2": {"node_contrast": "subgraph_nodes", "temperature": 1.5},
}


class Expected(NamedTuple):
    """What the plain version found."""

    scores: Tensor
    ot: Tensor
    node: Tensor
    penalty: Tensor


class Plain:
    """The released computation for one graph, with weights by name, written as the formulas stand."""

    def __init__(
        self, weights: dict[str, Tensor], adjacency: Tensor, features: Tensor, config: dict[str, object]
    ) -> None:
        self.w, self.A, self.X, self.config = weights, adjacency, features, config
        self.tau, self.alpha = float(config["temperature"]), float(config["alpha"])  # type: ignore[arg-type]

    def act(self, x: Tensor) -> Tensor:
        if self.config["activation"] == "relu":
            return torch.relu(x)
        return torch.where(x > 0, x, self.w["encoder.activation.weight"] * x)

    def layer(self, x: Tensor, S: Tensor, name: str) -> Tensor:
        y = S @ x @ self.w[f"{name}.weight"] + self.w[f"{name}.bias"]
        return torch.where(y > 0, y, self.w[f"{name}.prelu.weight"] * y)

    def encode(self, S: Tensor) -> Tensor:
        return self.layer(self.act(self.layer(self.X, S, "encoder.first")), S, "encoder.second")

    def gat(self, H: Tensor, S: Tensor) -> Tensor:
        Z = H @ self.w["generator.weight"]
        rows = []
        for i in range(len(S)):
            mates = [j for j in range(len(S)) if S[i, j] > 0]
            total = torch.zeros_like(Z[i])
            if mates:
                centre = (self.w["generator.attention.to_centre"] @ Z[i]).squeeze()
                raw = torch.stack(
                    [centre + (self.w["generator.attention.to_neighbour"] @ Z[j]).squeeze() for j in mates]
                )
                power = torch.exp(torch.where(raw > 0, raw, 0.2 * raw))
                total = sum(((p / power.sum()) * Z[j] for p, j in zip(power, mates, strict=True)), total)
            rows.append(total + self.w["generator.bias"])
        return self.act(torch.stack(rows))

    def gate(self, Hf: Tensor, Hs: Tensor) -> Tensor:
        w, degree = self.w, self.A.sum(1, keepdim=True)
        parts = [
            Hf.detach() @ w["fusion.of_feature.weight"].T + w["fusion.of_feature.bias"],
            Hs.detach() @ w["fusion.of_structure.weight"].T + w["fusion.of_structure.bias"],
            degree,
        ]
        logit = torch.cat(parts, 1) @ w["fusion.join.weight"].T + w["fusion.join.bias"]
        return 1 / (1 + torch.exp(-logit))

    def cost(self, X: Tensor, Y: Tensor) -> Tensor:
        cosine = (X / X.norm(dim=1, keepdim=True)) @ (Y / Y.norm(dim=1, keepdim=True)).T
        E = torch.exp(-cosine / self.tau)
        return torch.relu(E - (E.min() + 0.1 * (E.max() - E.min())))

    def distance(self, i: Tensor, X: Tensor, Y: Tensor) -> Tensor:
        """Twenty iterations of the multiplicative update, and the value with the prescribed marginals."""
        alpha, step, k = self.alpha, float(self.config["bapg_step"]), len(i)  # type: ignore[arg-type]
        M, C2 = self.cost(X, Y), self.cost(Y, Y)
        C1 = self.cost(X, X) * torch.exp(-self.A[i][:, i] / self.tau)
        mass = torch.full((k,), 1 / k, dtype=torch.float64)
        T = torch.outer(mass, mass)
        for _ in range(20):
            T = T * torch.exp(-(alpha * M - 4 * (1 - alpha) * C1 @ T @ C2.T) / step)
            T = torch.diag(mass / T.sum(1)) @ T
            T = T * torch.exp(-(alpha * M - 4 * (1 - alpha) * C1 @ T @ C2.T) / step)
            T = T @ torch.diag(mass / T.sum(0))
        ones = torch.ones(k, dtype=torch.float64)
        const = torch.outer(C1**2 @ mass, ones) + torch.outer(ones, C2**2 @ mass)
        return alpha * (M * T).sum() + (1 - alpha) * ((const - 2 * C1 @ T @ C2.T) * T).sum()

    def node_loss(self, U: Tensor, V: Tensor) -> Tensor:
        def one_way(u: Tensor, v: Tensor) -> Tensor:
            u, v = u / u.norm(dim=1, keepdim=True), v / v.norm(dim=1, keepdim=True)
            within, across = torch.exp(u @ u.T / self.tau), torch.exp(u @ v.T / self.tau)
            return -torch.log(across.diag() / (across.sum(1) + within.sum(1) - within.diag()))

        return ((one_way(U, V) + one_way(V, U)) / 2).mean()

    def run(self) -> Expected:
        eye = torch.eye(NODES, dtype=torch.float64)
        Hf, Hs = self.encode(eye), self.encode(self.A)
        Gf, Gs = self.gat(Hf, eye), self.gat(Hs, self.A)
        weight = self.gate(Hf, Hs)
        H, G = Hf + weight.detach() * Hs, Gf + self.gate(Gf, Gs).detach() * Gs

        sets = list(SUBGRAPHS)
        positive = [self.distance(s, H[s], G[s]) for s in sets]
        with_original = [self.distance(s, H[s], H[sets[a]]) for s, a in zip(sets, NEGATIVES[0], strict=True)]
        with_generated = [self.distance(s, H[s], G[sets[b]]) for s, b in zip(sets, NEGATIVES[1], strict=True)]
        scores = torch.exp(-torch.stack(positive + with_original + with_generated) / 0.01)
        sigma = 1 / (1 + torch.exp(-scores))
        count = len(sets)
        ot = -(torch.log(sigma[:count]).sum() + torch.log(1 - sigma[count:]).sum()) / (3 * count)

        union = sorted(set(SUBGRAPHS.flatten().tolist()))
        chosen = union if self.config["node_contrast"] == "subgraph_nodes" else list(range(NODES))
        alike = (Hf * Hs).sum(1) / (Hf.norm(dim=1) * Hs.norm(dim=1))
        penalty = (
            (weight.squeeze(1) * alike.detach()).sum()
            + float(self.config["fusion_mean"]) * abs(weight.mean() - (1 - self.alpha))  # type: ignore[arg-type]
            + float(self.config["fusion_l2"]) * (weight**2).sum().sqrt()  # type: ignore[arg-type]
        )
        return Expected(scores, ot, self.node_loss(H[chosen], G[chosen]), penalty)


def small_graph(directed: bool) -> Graph:
    random = np.random.default_rng(3)
    edges = random.random((NODES, NODES)) < 0.15
    np.fill_diagonal(edges, False)
    edges[17] = edges[:, 17] = False  # an isolated node
    matrix = (edges if directed else edges | edges.T).astype(np.float32)
    features = random.standard_normal((NODES, FEATURES)).astype(np.float32)
    return Graph("small", sp.csr_array(matrix), features, np.arange(NODES))


class Case(NamedTuple):
    """Our method and the plain one, with equal weights."""

    method: Fossil
    prepared: FossilGraph
    plain: Plain

    def branches(self) -> Branches:
        graph = self.prepared.tensors
        branches: Branches = self.method.encoder(graph.features, graph.propagation)
        return branches

    def gate(self) -> Gate:
        gate = self.method.fuse(self.branches(), self.prepared.tensors.centrality, None)[1]
        assert gate is not None
        return gate

    def compared(self, pairs: Pairs) -> Compared:
        graph, branches = self.prepared.tensors, self.branches()
        H, _ = self.method.fuse(branches, graph.centrality, None)
        H_hat, _ = self.method.fuse(self.method.generator(branches, graph, None), graph.centrality, None)
        return self.method.compared(H, H_hat, pairs.subgraphs)

    def contrast(self) -> tuple[Tensor, Tensor | None]:
        """L_ot and L_node."""
        pairs = self.pairs()
        compared = self.compared(pairs)
        return self.method.subgraph_loss(compared, pairs)[0], self.method.node_loss(compared)

    def pairs(self) -> Pairs:
        return self.method.pair(Subgraphs.of(SUBGRAPHS), self.prepared.sampler, torch.Generator())


def make(monkeypatch: pytest.MonkeyPatch, directed: bool, **changes: object) -> Case:
    config = Fossil.configure("released", SMALL, changes)
    method = Fossil.build(config, FEATURES, seed=5)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():  # biases and slopes away from their first values
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=random))
    graph = small_graph(directed)
    turns = iter(NEGATIVES * 2)
    monkeypatch.setattr(Subgraphs, "others", lambda *_: next(turns))
    weights = {name: value.double().requires_grad_() for name, value in method.state_dict().items()}
    dense = torch.from_numpy(graph.adjacency.toarray()).double()
    plain = Plain(weights, dense, torch.tensor(graph.features).double(), config.model_dump())
    return Case(method, method.prepare(graph, torch.device("cpu")), plain)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_those_of_the_plain_transcription(
    monkeypatch: pytest.MonkeyPatch, variant: str, directed: bool
) -> None:
    case = make(monkeypatch, directed, **VARIANTS[variant])
    expected = case.plain.run()
    pairs = case.pairs()
    scores, _ = case.method.similarity(case.compared(pairs), pairs)
    assert expected.scores.max() > 0.05 and expected.scores.std() > 0.01  # the distances say something
    torch.testing.assert_close(scores.double(), expected.scores, rtol=1e-4, atol=1e-5)
    ot, node = case.contrast()
    penalty = case.method.fusion_loss(case.gate(), case.branches()).total
    for found, wanted in ((ot, expected.ot), (node, expected.node), (penalty, expected.penalty)):
        assert isinstance(found, Tensor) and found.item() == pytest.approx(wanted.item(), rel=1e-4)


def relative_gap(found: Tensor | None, expected: Tensor | None) -> float:
    assert found is not None and expected is not None
    gap = (found.double() - expected).norm().item()
    # A ReLU on top of the first layer's PReLU leaves its slope without effect: both gradients are then exactly zero.
    return gap / expected.norm().item() if gap else 0.0


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_unrolled_gradients_are_those_of_the_plain_transcription(
    monkeypatch: pytest.MonkeyPatch, variant: str, directed: bool
) -> None:
    case = make(monkeypatch, directed, solver_gradient="unrolled", **VARIANTS[variant])
    expected = case.plain.run()
    (expected.ot + expected.node).backward()
    ot, node = case.contrast()
    assert node is not None
    (ot + node).backward()
    names = [name for name, _ in case.method.named_parameters() if name.startswith(("encoder.", "generator."))]
    for name in names:
        found = case.method.get_parameter(name).grad
        assert relative_gap(found, case.plain.w[name].grad) < 1e-3, name
    assert all(parameter.grad is None for parameter in case.method.fusion.parameters())  # type: ignore[union-attr]


def test_unrolled_transport_gradient_alone_agrees_and_differs_from_the_envelope(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gaps = {}
    for gradient in ("unrolled", "envelope"):
        case = make(monkeypatch, False, solver_gradient=gradient, node_contrast="none")
        case.plain.run().ot.backward()
        case.contrast()[0].backward()
        weight = "encoder.first.weight"
        gaps[gradient] = relative_gap(case.method.get_parameter(weight).grad, case.plain.w[weight].grad)
    assert gaps["unrolled"] < 1e-3 < 0.05 < gaps["envelope"]


def test_fusion_layer_gradient_is_that_of_the_plain_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make(monkeypatch, False, fusion_l2=10.0)
    case.plain.run().penalty.backward()
    case.method.fusion_loss(case.gate(), case.branches()).total.backward()
    for name, parameter in case.method.named_parameters():
        if name.startswith("fusion."):
            assert relative_gap(parameter.grad, case.plain.w[name].grad) < 1e-3, name
