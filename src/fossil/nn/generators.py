"""Generators (Section 4.3): a learnt perturbation of the embeddings makes the second view.

`GATOnEmbeddings` is the paper's. The others are the alternatives of its generator ablation (Table 5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from fossil.nn.encoders import Branches, Encoder
from fossil.nn.tensors import GraphTensors
from fossil.ops.activation import biased_activation
from fossil.ops.edges import edge_attention
from fossil.ops.rows import row_products
from fossil.ops.sparse import SparseMatrix, leading


class Generator(nn.Module, ABC):
    """Maps the encoder's branches to perturbed branches of the same shape."""

    @abstractmethod
    def forward(self, branches: Branches, graph: GraphTensors, random: torch.Generator | None) -> Branches:
        """Perturb `branches`; with `random` in training mode, without it deterministically."""


class _OneLayer(Generator):
    """A linear map, a weighted sum over neighbours for the structure branch, bias and activation for both.

    On the identity graph the sum has one term of weight one, so the feature branch is just the linear layer.
    """

    def __init__(self, in_features: int, width: int, activation: nn.Module) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_features, width)))
        self.bias = nn.Parameter(torch.zeros(width))
        self.activation = activation

    def forward(self, branches: Branches, graph: GraphTensors, random: torch.Generator | None) -> Branches:
        """Return perturbed branches, N×D each; on a block, of the nodes whose neighbours were encoded."""
        feature, structure, _ = self.project(branches, graph)
        matrix, weights = self.neighbours(structure, graph)
        if feature is None:
            return Branches(None, self.finish(matrix.matmul(structure, weights)))
        own = leading(feature, matrix.shape[0])
        return Branches.of(self.finish(matrix.matmul_below(own, structure, weights)))

    def project(self, branches: Branches, graph: GraphTensors) -> Branches:
        """Return the linear map of both branches."""
        if branches.feature is None:
            return Branches(None, branches.structure @ self.weight)
        return Branches.of(branches.together() @ self.weight)

    @abstractmethod
    def neighbours(self, projected: Tensor, graph: GraphTensors) -> tuple[SparseMatrix, Tensor | None]:
        """Return over which neighbours the structure branch is summed, and their weights (E) if not the matrix's."""

    def finish(self, values: Tensor) -> Tensor:
        """Add the bias and apply the activation."""
        return biased_activation(values, self.bias, self.activation)


class GATOnEmbeddings(_OneLayer):
    """GAT-E: Ĥ^f = g(I, H^f) and Ĥ^s = g(A, H^s) with one attention layer g."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__(width, width, activation)
        self.attention = _Attention(width)

    def neighbours(self, projected: Tensor, graph: GraphTensors) -> tuple[SparseMatrix, Tensor | None]:
        """Return all neighbours, weighted by attention to the embeddings."""
        return graph.adjacency, self.attention(projected, graph.adjacency)


class GATOnFeatures(GATOnEmbeddings):
    """GAT-F: the attention layer reads the input features in place of the embeddings."""

    def __init__(self, features: int, width: int, activation: nn.Module) -> None:
        super().__init__(width, activation)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, width)))

    def project(self, branches: Branches, graph: GraphTensors) -> Branches:
        """Return the linear map of the features for either branch."""
        projected = graph.features.leading(len(branches.structure)).project(self.weight)
        return Branches(None if branches.feature is None else projected, projected)


class FeatureAttention(_OneLayer):
    """F-GAT-E: attention computed from the input features, applied to the embeddings."""

    def __init__(self, features: int, width: int, activation: nn.Module) -> None:
        super().__init__(width, width, activation)
        self.key = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, width)))
        self.attention = _Attention(width)

    def neighbours(self, projected: Tensor, graph: GraphTensors) -> tuple[SparseMatrix, Tensor | None]:
        """Return all neighbours, weighted by attention to the features."""
        encoded = graph.features.leading(len(projected))
        return graph.adjacency, self.attention(encoded.project(self.key), graph.adjacency)


class GCNOnEmbeddings(_OneLayer):
    """GCN-E: the encoder's kind of layer, with fixed weights where GAT-E attends."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__(width, width, activation)
        self.prelu = nn.PReLU()

    def neighbours(self, projected: Tensor, graph: GraphTensors) -> tuple[SparseMatrix, Tensor | None]:
        """Return the neighbours of the encoder's propagation matrix with its weights."""
        return graph.propagation.next.next, None

    def finish(self, values: Tensor) -> Tensor:
        """Add the bias, apply the layer's PReLU and then the activation."""
        return biased_activation(values, self.bias, self.prelu, self.activation)


class RandomEdgeDropping(Generator):
    """Random: drop a share of the edges and encode again with the encoder's own weights."""

    def __init__(self, encoder: Encoder, share: float) -> None:
        super().__init__()
        # In a tuple, so that it is no submodule: the weights are the encoder's, saved and optimised once.
        self._encoder = (encoder,)
        self.share = share

    def forward(self, branches: Branches, graph: GraphTensors, random: torch.Generator | None) -> Branches:
        """Return the branches of the thinned graph; of the whole graph when `random` is None."""
        propagation = graph.propagation
        if random is not None:
            values = propagation.values
            kept = torch.rand(values.shape, generator=random, device=values.device) >= self.share
            propagation = propagation.with_values(values * kept)
        encoded: Branches = self._encoder[0](graph.features, propagation, random)
        return encoded


class _Attention(nn.Module):
    """Single-head graph attention: LeakyReLU(a·Wx_i + b·Wx_j), softmax over the neighbours j of i."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.to_centre = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width)))
        self.to_neighbour = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width)))

    def forward(self, projected: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return the attention of each edge (E)."""
        centre, neighbour = row_products(projected, self.to_centre, self.to_neighbour)
        return edge_attention(adjacency, leading(centre, adjacency.shape[0]), neighbour)
