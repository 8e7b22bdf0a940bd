"""What encoders, generators and the fusion layer read of a graph, on one device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.nn.encoders import Branches
from fossil.ops.features import FeatureMatrix, FeatureShare
from fossil.ops.ranks import all_gather, ranks
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.neighbourhoods import part_around


@dataclass(frozen=True, eq=False)
class GraphTensors:
    """A graph on a device, or a block of one: its matrices then have fewer rows with each hop towards the targets.

    Attributes:
        features: X, N×F.
        adjacency: A, N×N, zeros and ones; attention lives on its pattern. On a block, of the hop after the encoder's.
        propagation: what the encoder multiplies with: A itself, or a normalised form of it.
        centrality: N×1 centrality for the fusion layer, or None.
    """

    features: FeatureMatrix
    adjacency: SparseMatrix
    propagation: SparseMatrix
    centrality: Tensor | None

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.adjacency.shape[0]

    def from_all_ranks(self, branches: Branches) -> Branches:
        """Return what was encoded, of all nodes that the losses read."""
        return branches

    def divided(self) -> GraphTensors:
        """Return this rank's share of a block; the block itself where one process works alone."""
        group, num_targets = ranks(), self.num_nodes
        if group.world_size == 1:
            return self
        own = torch.arange(num_targets, device=self.adjacency.col.device)[group.share(num_targets)]
        propagation, read, _ = part_around(self.propagation, own)
        adjacency = part_around(self.adjacency, own).matrix
        return GraphShare(FeatureShare(self.features, read), adjacency, propagation, self.centrality, num_targets)


@dataclass(frozen=True, eq=False)
class GraphShare(GraphTensors):
    """The share of a block that one of several ranks encodes. Centrality is that of all targets, as are fused rows.

    Attributes:
        targets: how many nodes all ranks encode together.
    """

    targets: int

    def from_all_ranks(self, branches: Branches) -> Branches:
        """Return what all ranks encoded."""
        if branches.feature is None:
            return Branches(None, all_gather(branches.structure, self.targets))
        width = branches.structure.shape[1]
        side_by_side = torch.cat([branches.feature, branches.structure], 1)
        feature, structure = all_gather(side_by_side, self.targets).split(width, 1)
        return Branches(feature.contiguous(), structure.contiguous())
