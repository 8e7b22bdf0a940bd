"""FOSSIL's training step as the authors' code takes it, written plainly: what the library's step is measured against.

Every choice that costs time is theirs: Python sets to sample subgraphs, one sparse selection per subgraph for its
adjacency, the multiplicative transport solver unrolled under autograd, four dense N×N matrices for the node loss,
dense features, sparse products with an identity matrix, a second forward pass for the fusion layer, and one Adam that
is not fused. The 3S transport problems are solved as one batch, as they do. Losses and weights have the library's
meaning and names, so that `load_state_dict` takes the weights of `fossil.methods.fossil.Fossil`.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fossil.graph.graph import Graph
from fossil.methods.fossil import Fossil
from fossil.methods.fossil.settings import FossilSettings

_EXPANSIONS = 5  # after the first neighbours: six hops in all
_UNUSED = {"fusion_pass", "solver_gradient"}  # a second pass and the unrolled gradient are what this file is about


class Views(NamedTuple):
    """Both views (N×D), the encoder's feature and structure branches (N×D) and λ (N×1)."""

    original: Tensor
    generated: Tensor
    feature: Tensor
    structure: Tensor
    fusion: Tensor


class Reference(nn.Module):
    """The released computation on one graph.

    Args:
        config: settings of FOSSIL; only the released reading of the paper is written here.
        graph: what to train on.
        device: where to train.
        seed: of the sampled subgraphs and their negatives; dropout follows PyTorch's own generator.

    Raises:
        ValueError: a setting is not the released one.
    """

    def __init__(self, config: FossilSettings, graph: Graph, device: torch.device, seed: int = 0) -> None:
        super().__init__()
        _require_released(config)
        self.config, self.random = config, random.Random(seed)
        activation: nn.Module = nn.ReLU() if config.activation == "relu" else nn.PReLU()
        self.encoder = _Encoder(graph.num_features, config.hidden, config.width, activation)
        self.generator = _Attention(config.width, activation)
        self.fusion = _Gate(config.width, config.fusion_hidden, config.fusion_dropout)
        self.to(device)
        gate = list(self.fusion.parameters())
        rest = [weight for name, weight in self.named_parameters() if not name.startswith("fusion.")]
        groups = [
            {"params": rest, "lr": config.learning_rate},
            {"params": gate, "lr": config.fusion_learning_rate},
        ]
        self.optimizer = torch.optim.Adam(groups, weight_decay=config.weight_decay)

        features = graph.features.toarray() if graph.has_sparse_features else np.array(graph.features)
        self.features = torch.from_numpy(features).float().to(device)
        pairs = np.stack(graph.adjacency.nonzero()).astype(np.int64)
        nodes = torch.arange(graph.num_nodes)
        self.edges = torch.from_numpy(pairs).to(device)
        self.loops = torch.stack([nodes, nodes]).to(device)
        self.adjacency, self.identity = (_sparse(ends, graph.num_nodes) for ends in (self.edges, self.loops))
        self.degree = torch.bincount(self.edges[0], minlength=graph.num_nodes)[:, None].float()
        self.neighbours: list[set[int]] = [set() for _ in range(graph.num_nodes)]
        for source, target in pairs.T.tolist():
            self.neighbours[source].add(target)

    def step(self) -> dict[str, Tensor]:
        """Take one training step: on the contrast, then on the fusion layer's own loss. Return the losses."""
        subgraphs = self.sample()
        self.optimizer.zero_grad()
        views = self()
        ot, node = self.subgraph_loss(views, subgraphs), self.node_loss(views, subgraphs)
        (ot + node).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

        self.optimizer.zero_grad()
        fusion = self.fusion_loss(self())
        fusion.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return {"ot": ot.detach(), "node": node.detach(), "fusion": fusion.detach()}

    def sample(self) -> Tensor:
        """Return the subgraphs of this step's anchors, at most S×K: those that can be filled."""
        nodes, wanted = len(self.neighbours), self.config.num_anchors
        anchors = self.random.sample(range(nodes), min(wanted, nodes))
        found = [self.subgraph(anchor) for anchor in anchors]
        return torch.tensor([members for members in found if members], device=self.features.device)

    def subgraph(self, anchor: int) -> list[int]:
        """Return K nodes around the anchor, itself last, or nothing where six hops do not reach enough."""
        size, current = self.config.subgraph_size, set(self.neighbours[anchor])
        for _ in range(_EXPANSIONS):
            if len(current) >= size:
                break
            reached = set().union(*(self.neighbours[node] for node in current))
            if len(reached) < size:
                current = reached
            else:
                current |= set(self.random.sample(sorted(reached - current), size - len(current)))
        if len(current) < size:
            return []
        return [*self.random.sample(sorted(current - {anchor}), size - 1), anchor]

    def forward(self) -> Views:
        """Encode, perturb and fuse all nodes, with dropout while training."""
        features = functional.dropout(self.features, self.config.dropout, self.training)
        feature, structure = self.encoder(features, self.identity), self.encoder(features, self.adjacency)
        perturbed = self.generator(feature, self.loops), self.generator(structure, self.edges)
        fusion = self.fusion(feature.detach(), structure.detach(), self.degree)
        of_perturbed = self.fusion(perturbed[0].detach(), perturbed[1].detach(), self.degree)
        return Views(
            original=feature + fusion.detach() * structure,
            generated=perturbed[0] + of_perturbed.detach() * perturbed[1],
            feature=feature,
            structure=structure,
            fusion=fusion,
        )

    def subgraph_loss(self, views: Views, subgraphs: Tensor, negatives: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return L_ot (Eq. 11) of S×K subgraphs; `negatives` are drawn unless they are given."""
        if len(subgraphs) < 2:
            return 0 * views.original.sum()
        config, temperature = self.config, self.config.temperature
        a, b = negatives or (self._others(len(subgraphs)), self._others(len(subgraphs)))
        X, Y = views.original[subgraphs], views.generated[subgraphs]
        within = torch.stack([self._adjacency_of(nodes) for nodes in subgraphs])
        costs_X, costs_Y = self._costs(X, X), self._costs(Y, Y)
        source = costs_X * torch.exp(-within / temperature)
        distances = self._distances(
            self._costs(torch.cat([X, X, X]), torch.cat([Y, X[a], Y[b]])),
            torch.cat([source, source, source]),
            torch.cat([costs_Y, costs_X[a], costs_Y[b]]),
        )
        scores = torch.exp(-distances / (config.contrast_temperature or temperature))
        labels = torch.zeros_like(scores)
        labels[: len(subgraphs)] = 1
        return functional.binary_cross_entropy_with_logits(scores, labels)

    def node_loss(self, views: Views, subgraphs: Tensor) -> Tensor:
        """Return L_node (Eq. 12 and 13), over all nodes or over those of the subgraphs (v2)."""
        first, second = views.original, views.generated
        if self.config.node_contrast == "subgraph_nodes":
            nodes = torch.unique(subgraphs)
            first, second = first[nodes], second[nodes]
        first, second = functional.normalize(first), functional.normalize(second)
        return ((self._one_way(first, second) + self._one_way(second, first)) / 2).mean()

    def fusion_loss(self, views: Views) -> Tensor:
        """Return L_θ (Eq. 15), with the branches held constant."""
        config, fusion = self.config, views.fusion
        alike = functional.cosine_similarity(views.feature.detach(), views.structure.detach(), eps=1e-12)
        pulled = (fusion.squeeze(1) * alike).sum()
        centred = (fusion.mean() - (1 - config.alpha)).abs()
        loss: Tensor = pulled + config.fusion_mean * centred + config.fusion_l2 * torch.linalg.vector_norm(fusion)
        return loss

    def _one_way(self, first: Tensor, second: Tensor) -> Tensor:
        within = torch.exp(first @ first.T / self.config.temperature)
        across = torch.exp(first @ second.T / self.config.temperature)
        return -torch.log(across.diag() / (across.sum(1) + within.sum(1) - within.diag()))

    def _others(self, count: int) -> Tensor:
        draws = [self.random.randrange(count - 1) for _ in range(count)]
        # Their rule, which favours the neighbour before: whoever draws itself takes that one, and the first the second.
        others = [(draw - 1 if draw else 1) if draw == i else draw for i, draw in enumerate(draws)]
        return torch.tensor(others, device=self.features.device)

    def _adjacency_of(self, nodes: Tensor) -> Tensor:
        return self.adjacency.index_select(0, nodes).index_select(1, nodes).to_dense()

    def _costs(self, first: Tensor, second: Tensor) -> Tensor:
        """Return Eq. 10 from cosines, cut at a tenth of the way from the least to the greatest cost of a pair."""
        cosines = functional.normalize(first, dim=2) @ functional.normalize(second, dim=2).transpose(1, 2)
        costs = torch.exp(-cosines / self.config.temperature)
        low, high = costs.amin((1, 2), keepdim=True), costs.amax((1, 2), keepdim=True)
        return torch.relu(costs - (low + self.config.cost_threshold * (high - low)))

    def _distances(self, M: Tensor, C1: Tensor, C2: Tensor) -> Tensor:
        """Return the fused distances of B pairs after the unrolled iterations of BAPG."""
        alpha, step, mass = self.config.alpha, self.config.bapg_step, 1 / M.shape[1]
        plan = torch.full_like(M, mass * mass)
        for _ in range(self.config.solver_iterations):
            for dim in (2, 1):
                gradient = alpha * M - 4 * (1 - alpha) * C1 @ plan @ C2.transpose(1, 2)
                plan = plan * torch.exp(-gradient / step)
                plan = mass * plan / plan.sum(dim, keepdim=True)
        constant = mass * (C1.square().sum(2)[:, :, None] + C2.square().sum(2)[:, None, :])
        structure = (constant - 2 * C1 @ plan @ C2.transpose(1, 2)) * plan
        return (alpha * M * plan + (1 - alpha) * structure).sum((1, 2))


class _Layer(nn.Module):
    """PReLU(S X W + b)."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inward, outward)))
        self.bias = nn.Parameter(torch.zeros(outward))
        self.prelu = nn.PReLU()

    def forward(self, X: Tensor, S: Tensor) -> Tensor:
        result: Tensor = self.prelu(torch.sparse.mm(S, X @ self.weight) + self.bias)
        return result


class _Encoder(nn.Module):
    """Two layers with an activation of their own in between (Eq. 5)."""

    def __init__(self, features: int, hidden: int, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.activation = _Layer(features, hidden), _Layer(hidden, width), activation

    def forward(self, X: Tensor, S: Tensor) -> Tensor:
        result: Tensor = self.second(self.activation(self.first(X, S)), S)
        return result


class _Attention(nn.Module):
    """A graph attention layer with one head: a message of D numbers along each edge."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, width)))
        self.bias = nn.Parameter(torch.zeros(width))
        self.attention = nn.ParameterDict(
            {name: nn.init.xavier_uniform_(torch.empty(1, width)) for name in ("to_centre", "to_neighbour")}
        )
        self.activation = activation

    def forward(self, H: Tensor, edges: Tensor) -> Tensor:
        Z = H @ self.weight
        centre, neighbour = edges
        of_centre, of_neighbour = (Z @ self.attention[name].T for name in ("to_centre", "to_neighbour"))
        scores = functional.leaky_relu(of_centre[centre] + of_neighbour[neighbour], 0.2).squeeze(1)
        highest = scores.new_full((len(Z),), -torch.inf).scatter_reduce(0, centre, scores.detach(), "amax")
        weights = torch.exp(scores - highest[centre])
        totals = torch.zeros_like(highest).index_add(0, centre, weights)
        messages = (weights / totals[centre])[:, None] * Z[neighbour]
        result: Tensor = self.activation(torch.zeros_like(Z).index_add(0, centre, messages) + self.bias)
        return result


class _Gate(nn.Module):
    """ψ: two linear maps and the degree, joined to λ; its dropout reaches the logit."""

    def __init__(self, width: int, hidden: int, drop: float) -> None:
        super().__init__()
        self.of_feature, self.of_structure = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.join, self.drop = nn.Linear(2 * hidden + 1, 1), drop
        for layer in (self.of_feature, self.of_structure, self.join):
            nn.init.xavier_normal_(layer.weight, gain=1.414)

    def forward(self, feature: Tensor, structure: Tensor, degree: Tensor) -> Tensor:
        parts = [self._dropped(self.of_feature(feature)), self._dropped(self.of_structure(structure)), degree]
        return torch.sigmoid(self._dropped(self.join(torch.cat(parts, 1))))

    def _dropped(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self.drop, self.training)


def _sparse(ends: Tensor, nodes: int) -> Tensor:
    ones = torch.ones(ends.shape[1], device=ends.device)
    return torch.sparse_coo_tensor(ends, ones, (nodes, nodes), check_invariants=False).coalesce()


def _require_released(config: FossilSettings) -> None:
    """Refuse any switch that chooses another reading or part than the released code has."""
    released = Fossil.configure("released")
    switches = [name for name, value in released.model_dump().items() if isinstance(value, str | bool)]
    free = _UNUSED | {"activation", "node_contrast"}
    changed = [name for name in switches if name not in free and getattr(config, name) != getattr(released, name)]
    if changed or config.activation == "none" or config.node_contrast == "none":
        raise ValueError(f"the reference is written for the released settings alone, not for other {changed}")
