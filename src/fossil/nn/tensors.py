"""What encoders, generators and the fusion layer read of a graph, on one device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix


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
