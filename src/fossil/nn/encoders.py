"""Encoders (Section 4.2): node features and structure become embeddings.

`decoupled` is the paper's; `gcn` and `gcnii` are the alternatives of its encoder ablation (Table 4). Every encoder
returns `Branches`; those without a feature branch leave it out, and the fusion layer then has nothing to mix.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from fossil.ops.activation import biased_activation
from fossil.ops.features import FeatureMatrix, dropout
from fossil.ops.sparse import SparseMatrix, leading

Activation = Literal["none", "relu", "prelu"]


class Branches(NamedTuple):
    """Embeddings from the features alone (H^f, N×D) and from features and structure (H^s, N×D).

    `stacked` is both as one tensor, H^f above H^s (2N×D), where they were made as one: a layer that takes them together
    then neither copies them nor puts the two gradients together.
    """

    feature: Tensor | None
    structure: Tensor
    stacked: Tensor | None = None

    @classmethod
    def of(cls, stacked: Tensor) -> Branches:
        """Take both from one tensor, 2N×D."""
        feature, structure = stacked.chunk(2)
        return cls(feature, structure, stacked)

    def together(self) -> Tensor:
        """Return both as one tensor, 2N×D."""
        assert self.feature is not None
        return torch.cat([self.feature, self.structure]) if self.stacked is None else self.stacked

    def leading(self, nodes: int) -> Branches:
        """Return the branches of the first nodes; the same where these are all."""
        if len(self.structure) == nodes:
            return self
        return Branches(None if self.feature is None else self.feature[:nodes], self.structure[:nodes])

    def detached(self) -> Branches:
        """Return the same numbers as constants."""
        if self.stacked is not None:
            return Branches.of(self.stacked.detach())
        return Branches(None if self.feature is None else self.feature.detach(), self.structure.detach())


def activation_module(name: Activation) -> nn.Module:
    """Return the module for an activation's name."""
    kinds: dict[Activation, type[nn.Module]] = {"none": nn.Identity, "relu": nn.ReLU, "prelu": nn.PReLU}
    return kinds[name]()


class Encoder(nn.Module, ABC):
    """Maps features and one propagation matrix to `Branches`."""

    @abstractmethod
    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix, random: torch.Generator | None = None
    ) -> Branches:
        """Encode all nodes; with `random` in training mode (dropout), without it deterministically.

        On a block of a graph `propagation` has a row for each node whose neighbours are in it, and the layers that
        follow take what is left of it (`SparseMatrix.next`): what returns is for the nodes of its last hop but one.
        """


class TwoLayers(Encoder):
    """What the decoupled encoder and the plain GCN are made of."""

    def __init__(self, in_features: int, hidden: int, out_features: int, activation: nn.Module, drop: float) -> None:
        super().__init__()
        self.first = _Layer(in_features, hidden)
        self.second = _Layer(hidden, out_features)
        self.activation = activation
        self.drop = drop


class DecoupledEncoder(TwoLayers):
    """Two layers with shared weights, once with the graph and once with the identity in its place (Eq. 5).

    Each layer is PReLU(S X W + b). `activation` is applied between the layers on top of that PReLU, as in the
    released code; `none` gives the paper's text. The product X W₁ serves both branches, and from there on they are one
    tensor, the structure branch below the feature branch.
    """

    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix, random: torch.Generator | None = None
    ) -> Branches:
        """Return both branches, N×D each."""
        second = propagation.next
        nodes = second.shape[0]  # that are encoded
        product = _first_hop(features.dropout(self.drop, random), self.first.weight, propagation, nodes)
        hidden = self.first.finish(product, self.activation)
        feature, structure = (hidden @ self.second.weight).split([nodes, propagation.shape[0]])
        return Branches.of(self.second.finish(second.matmul_below(feature, structure)))


class GCNEncoder(TwoLayers):
    """A plain two-layer GCN: the structure branch alone. `propagation` is expected to contain self-loops."""

    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix, random: torch.Generator | None = None
    ) -> Branches:
        """Return the structure branch, N×D."""
        product = _first_hop(features.dropout(self.drop, random), self.first.weight, propagation, 0)
        hidden = self.first.finish(product, self.activation)
        return Branches(None, self.second.finish(propagation.next.matmul(hidden @ self.second.weight)))


def _first_hop(features: FeatureMatrix, weight: Tensor, propagation: SparseMatrix, own: int) -> Tensor:
    """Return X W of the first `own` nodes, and below it S X W, (own+R)×H.

    On a block most nodes are at its rim, and only narrow features are summed over: S X comes before W where it can.
    """
    data, rim = features.data, propagation.shape[0] < propagation.shape[1]
    if rim and isinstance(data, Tensor) and data.shape[1] < weight.shape[1]:
        return (propagation.matmul_below(data[:own], data) if own else propagation.matmul(data)) @ weight
    projected = features.project(weight)
    return propagation.matmul_below(leading(projected, own), projected) if own else propagation.matmul(projected)


class GCNIIEncoder(Encoder):
    """GCNII (Chen et al., ICML 2020): initial residual and identity mapping keep a deep stack from smoothing.

    H₀ = relu(X W + b);  R = (1-a) Â drop(H) + a H₀;  H ← relu((1-b_l) R + b_l R W_l),  b_l = log(strength/l + 1).
    """

    def __init__(
        self, in_features: int, width: int, layers: int, drop: float, residual: float = 0.1, strength: float = 0.5
    ) -> None:
        super().__init__()
        self.inward = nn.Linear(in_features, width)
        self.weights = nn.ParameterList(
            [nn.Parameter(torch.empty(width, width).uniform_(-1, 1) / math.sqrt(width)) for _ in range(layers)]
        )
        self.drop = drop
        self.residual = residual
        self.strength = strength

    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix, random: torch.Generator | None = None
    ) -> Branches:
        """Return the structure branch, N×D."""
        start = torch.relu(features.dropout(self.drop, random).project(self.inward.weight.T) + self.inward.bias)
        state = start
        for depth, weight in enumerate(self.weights, start=1):
            pull = math.log(self.strength / depth + 1)
            mixed = (1 - self.residual) * propagation.matmul(dropout(state, self.drop, random)) + self.residual * start
            state = torch.relu(torch.addmm(mixed, mixed, weight, beta=1 - pull, alpha=pull))
        return Branches(None, state)


class _Layer(nn.Module):
    """W (Xavier-uniform), b (zero) and the PReLU of one graph layer."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_features, out_features)))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.prelu = nn.PReLU()

    def finish(self, product: Tensor, *after: nn.Module) -> Tensor:
        """Return PReLU(S X W + b), given S X W, with the activations `after` on top."""
        return biased_activation(product, self.bias, self.prelu, *after)
