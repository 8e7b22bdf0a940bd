"""One whole step of the `paper` preset against Section 4 and Algorithm 1, written out in float64 with plain sums.

The plain version shares no code with the package. It takes the weights by name, the dense adjacency and the features,
and follows the equations of the paper as they stand; where the text is silent (how attention is scored, what ψ looks
like inside) it follows `docs/paper/readings.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.methods.base import Objective
from fossil.methods.fossil import Fossil, FossilV2
from fossil.methods.fossil.stages import FossilGraph
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.subgraphs import Subgraphs, SubgraphSampler

NODES, FEATURES, ISOLATED = 18, 6, 11
SUBGRAPHS = torch.tensor([[3, 5, 9, 0], [1, 2, 4, 8], [10, 12, 13, 7], [5, 3, 16, 17], [14, 15, 6, 0]])
OTHERS = torch.tensor([1, 0, 4, 2, 3])
# Weights of the fusion loss that let each of its parts be seen, an α far from one half, a τ far from one.
CHANGES = {
    "hidden": 8, "width": 5, "fusion_hidden": 4, "subgraph_size": 4, "num_anchors": 5, "dropout": 0.0,
    "fusion_dropout": 0.0, "alpha": 0.3, "temperature": 1.7, "fusion_l2": 0.6, "fusion_mean": 40.0, "bapg_step": 0.4,
}  # fmt: skip
VARIANTS: dict[str, tuple[type[Fossil], dict[str, Any]]] = {
    "v1": (Fossil, {}),
    "v1, unrolled": (Fossil, {"solver_gradient": "unrolled", "bapg_step": 1.5}),
    "v1, mostly features": (Fossil, {"alpha": 0.8, "temperature": 0.9}),
    "v2": (FossilV2, {}),
}


class Expected(NamedTuple):
    """What the equations give."""

    scores: Tensor
    terms: dict[str, Tensor]
    penalty: dict[str, Tensor]


class Equations:
    """Section 4 for one graph, in the order of its subsections."""

    def __init__(self, weights: dict[str, Tensor], adjacency: Tensor, features: Tensor, config: dict[str, Any]) -> None:
        self.w, self.A, self.X, self.config = weights, adjacency, features, config
        self.alpha, self.tau = config["alpha"], config["temperature"]

    def normalised(self) -> Tensor:
        """Ã = D^-1/2 A D^-1/2, D the row sums, no self loops; the package stores it in float32."""
        found = torch.zeros_like(self.A)
        degree = self.A.sum(1)
        for i in range(NODES):
            for j in range(NODES):
                if self.A[i, j] > 0 and degree[j] > 0:
                    found[i, j] = 1 / (degree[i].sqrt() * degree[j].sqrt())
        return found.float().double()

    def encoder(self, S: Tensor) -> Tensor:
        """4.2: two layers with a PReLU after each, nothing else between them."""
        H = self.X
        for layer in ("encoder.first", "encoder.second"):
            Z = S @ H @ self.w[f"{layer}.weight"] + self.w[f"{layer}.bias"]
            H = Z.clamp(min=0) + self.w[f"{layer}.prelu.weight"] * Z.clamp(max=0)
        return H

    def generator(self, S: Tensor, H: Tensor) -> Tensor:
        """4.3: one attention layer over the neighbours that S has."""
        Z = H @ self.w["generator.weight"]
        rows = []
        for i in range(NODES):
            neighbours = torch.nonzero(S[i])[:, 0].tolist()
            row = self.w["generator.bias"]
            if neighbours:
                scores = [
                    self.w["generator.attention.to_centre"][0] @ Z[i]
                    + self.w["generator.attention.to_neighbour"][0] @ Z[j]
                    for j in neighbours
                ]
                powers = [torch.exp(score if score > 0 else 0.2 * score) for score in scores]
                row = row + sum(p / sum(powers) * Z[j] for p, j in zip(powers, neighbours, strict=True))
            rows.append(row)
        return torch.stack(rows)

    def fusion(self, Hf: Tensor, Hs: Tensor) -> tuple[Tensor, Tensor]:
        """4.4: λ, and H = H^f + λ H^s; ψ is an MLP of both embeddings and of the degree A1."""
        hidden = [
            torch.relu(H @ self.w[f"fusion.{name}.weight"].T + self.w[f"fusion.{name}.bias"])
            for name, H in (("of_feature", Hf), ("of_structure", Hs))
        ]
        given = torch.cat([*hidden, self.A.sum(1, keepdim=True)], 1)
        logit = given @ self.w["fusion.join.weight"][0] + self.w["fusion.join.bias"]
        weight = 1 / (1 + torch.exp(-logit))
        return weight, Hf + torch.diag(weight) @ Hs

    def distance(self, C1: Tensor, C2: Tensor, M: Tensor) -> Tensor:
        """Eq. 1 by Algorithm 1: D = <α M + (1-α) L⊗P, P>, with every sum over four indices written out."""
        k, alpha, step = len(C1), self.alpha, self.config["bapg_step"]
        mu = torch.full((k,), 1 / k, dtype=torch.float64)
        L = (C1[:, None, :, None] - C2[None, :, None, :]) ** 2  # L[i, j, k, l] = |C1[i, k] - C2[j, l]|²

        def tensor_product(P: Tensor) -> Tensor:
            return torch.einsum("ijkl,kl->ij", L, P)

        P = torch.outer(mu, mu)
        with torch.set_grad_enabled(self.config["solver_gradient"] == "unrolled"):
            for _ in range(self.config["solver_iterations"]):
                P = P * torch.exp(-(alpha * M + 2 * (1 - alpha) * tensor_product(P)) / step)
                P = torch.diag(mu / P.sum(1)) @ P
                P = P * torch.exp(-(alpha * M + 2 * (1 - alpha) * tensor_product(P)) / step)
                P = P @ torch.diag(mu / P.sum(0))
        return ((alpha * M + (1 - alpha) * tensor_product(P)) * P).sum()

    def pair(self, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
        """Eq. 10: D of two subgraphs, each given as its (adjacency, embeddings)."""
        (A1, H1), (A2, H2) = first, second
        return self.distance(torch.exp(-A1 / self.tau), torch.exp(-A2 / self.tau), torch.exp(-(H1 @ H2.T) / self.tau))

    def subgraph_scores(self, H: Tensor, G: Tensor) -> Tensor:
        """4.5 and 4.6.1: exp(-D/τ) of (G_i, Ĝ_i), of (G_i, G_j) and of (G_i, Ĝ_j) with one j; Â holds cosines."""
        cosines = (G @ G.T) / torch.outer(G.norm(dim=1), G.norm(dim=1))
        originals = [(self.A[s][:, s], H[s]) for s in SUBGRAPHS]
        perturbed = [(cosines[s][:, s], G[s]) for s in SUBGRAPHS]
        found = [self.pair(originals[i], perturbed[i]) for i in range(len(SUBGRAPHS))]
        found += [self.pair(originals[i], originals[j]) for i, j in enumerate(OTHERS.tolist())]
        found += [self.pair(originals[i], perturbed[j]) for i, j in enumerate(OTHERS.tolist())]
        return torch.exp(-torch.stack(found) / self.tau)

    def subgraph_loss(self, scores: Tensor) -> Tensor:
        """Eq. 11 with M = 2 negatives."""
        count = len(SUBGRAPHS)
        sigma = 1 / (1 + torch.exp(-scores))
        return -(torch.log(sigma[:count]).sum() + torch.log(1 - sigma[count:]).sum()) / (3 * count)

    def node_loss(self, H: Tensor, G: Tensor) -> Tensor:
        """Eq. 12 to 14: mean over nodes and both directions."""

        def one(u: Tensor, v: Tensor, i: int) -> Tensor:
            def similarity(x: Tensor, y: Tensor) -> Tensor:
                return torch.exp(x @ y / (x.norm() * y.norm()) / self.tau)

            within = sum(similarity(u[i], u[j]) for j in range(len(u)) if j != i)
            across = sum(similarity(u[i], v[j]) for j in range(len(v)))
            return -torch.log(similarity(u[i], v[i]) / (within + across))

        return sum(one(H, G, i) + one(G, H, i) for i in range(len(H))) / (2 * len(H))

    def fusion_penalty(self, weight: Tensor, Hf: Tensor, Hs: Tensor) -> dict[str, Tensor]:
        """Eq. 15."""
        return {
            "fusion_similarity": sum(weight[i] * (Hf[i] @ Hs[i]) / (Hf[i].norm() * Hs[i].norm()) for i in range(NODES)),
            "fusion_l2": self.config["fusion_l2"] * (weight**2).sum().sqrt(),
            "fusion_mean": self.config["fusion_mean"] * abs(weight.sum() / NODES - (1 - self.alpha)),
        }

    def run(self) -> Expected:
        eye = torch.eye(NODES, dtype=torch.float64)
        Hf, Hs = self.encoder(eye), self.encoder(self.normalised())
        Gf, Gs = self.generator(eye, Hf), self.generator(self.A, Hs)
        weight, H = self.fusion(Hf, Hs)
        _, G = self.fusion(Gf, Gs)
        scores = self.subgraph_scores(H, G)
        union = sorted(set(SUBGRAPHS.flatten().tolist()))
        chosen = union if self.config["node_contrast"] == "subgraph_nodes" else list(range(NODES))
        penalty = self.fusion_penalty(weight, Hf, Hs)
        terms = {
            "ot": self.subgraph_loss(scores),
            "node": self.node_loss(H[chosen], G[chosen]),
            "fusion": sum(penalty.values()),
        }
        return Expected(scores, terms, penalty)


class Case(NamedTuple):
    """Our method in float64 and the equations, with equal weights."""

    method: Fossil
    prepared: FossilGraph
    equations: Equations

    def step(self) -> Objective:
        (objective,) = self.method.step(self.prepared, torch.Generator())
        return objective


def in_float64(prepared: FossilGraph) -> FossilGraph:
    def wide(matrix: SparseMatrix) -> SparseMatrix:
        return matrix.with_values(matrix.values.double())

    tensors = prepared.tensors
    assert isinstance(tensors.features.data, Tensor) and tensors.centrality is not None
    tensors = replace(
        tensors,
        features=FeatureMatrix(tensors.features.data.double()),
        adjacency=wide(tensors.adjacency),
        propagation=wide(tensors.propagation),
        centrality=tensors.centrality.double(),
    )
    return FossilGraph(tensors, prepared.sampler)


def small_graph(directed: bool) -> Graph:
    random = np.random.default_rng(4)
    edges = random.random((NODES, NODES)) < 0.2
    np.fill_diagonal(edges, False)
    edges[ISOLATED] = edges[:, ISOLATED] = False
    matrix = (edges if directed else edges | edges.T).astype(np.float32)
    features = random.standard_normal((NODES, FEATURES)).astype(np.float32)
    return Graph("small", sp.csr_array(matrix), features, np.arange(NODES))


@pytest.fixture(params=["undirected", "directed"])
def graph(request: pytest.FixtureRequest) -> Graph:
    return small_graph(request.param == "directed")


@pytest.fixture(params=VARIANTS)
def case(request: pytest.FixtureRequest, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Case:
    kind, changes = VARIANTS[request.param]
    config = kind.configure("paper", CHANGES, changes)
    method = kind.build(config, FEATURES, seed=2).double()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():  # biases and slopes away from their first values
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=random, dtype=torch.float64))
        # Degrees are up to nine times the other numbers; a large weight of theirs would leave λ at its ends.
        method.get_parameter("fusion.join.weight")[:, -1].mul_(0.2)
    # What is drawn is given: the subgraphs, and a second draw of negatives that the paper does not make.
    draws = iter([OTHERS, OTHERS.roll(1)])
    adjacency = SubgraphSampler.adjacency
    monkeypatch.setattr(SubgraphSampler, "sample", lambda *_: Subgraphs.of(SUBGRAPHS))
    monkeypatch.setattr(SubgraphSampler, "adjacency", lambda self, nodes: adjacency(self, nodes).double())
    monkeypatch.setattr(Subgraphs, "others", lambda *_: next(draws))
    weights = {name: value.detach().clone().requires_grad_() for name, value in method.named_parameters()}
    dense = torch.from_numpy(graph.adjacency.toarray()).double()
    equations = Equations(weights, dense, torch.tensor(graph.features).double(), config.model_dump())
    return Case(method, in_float64(method.prepare(graph, torch.device("cpu"))), equations)


def test_every_loss_is_that_of_the_equations(case: Case) -> None:
    expected, objective = case.equations.run(), case.step()
    assert expected.scores.std() > 0.01 and 0.05 < expected.scores.min() < expected.scores.max() < 0.999
    assert list(objective.terms) == list(expected.terms)
    for name, value in expected.terms.items():
        torch.testing.assert_close(objective.terms[name], value, rtol=1e-10, atol=0)
    record = objective.diagnose()
    for name, value in expected.penalty.items():
        torch.testing.assert_close(record[name], value, rtol=1e-10, atol=0)


def test_the_gradient_of_every_parameter_is_that_of_the_equations(case: Case) -> None:
    sum(case.equations.run().terms.values()).backward()
    sum(case.step().terms.values()).backward()
    for name, parameter in case.method.named_parameters():
        expected = case.equations.w[name].grad
        assert expected is not None and expected.norm() > 1e-4, name
        torch.testing.assert_close(
            parameter.grad, expected, rtol=1e-8, atol=1e-10, msg=lambda text, name=name: name + text
        )
