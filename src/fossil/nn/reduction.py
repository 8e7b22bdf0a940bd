"""Features in fewer columns, with nothing trained: a truncated singular value decomposition."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fossil.ops.features import FeatureMatrix
from fossil.ops.svd import HasGram, right_singular_vectors


class Reduction(nn.Module):
    """Z = X V: the projection on the leading right singular vectors, or all features where there are no more of them.

    Args:
        in_features: F.
        width: D, the most columns that Z may have.
        oversampling: directions that the singular value decomposition follows beyond them.
        iterations: multiplications by Xᵀ X in it.
    """

    def __init__(self, in_features: int, width: int, oversampling: int = 10, iterations: int = 4) -> None:
        super().__init__()
        self.width = min(width, in_features)
        self.options = {"oversampling": oversampling, "iterations": iterations}
        self.directions: Tensor | None  # V, F×D; there is none where all features are kept
        self.register_buffer("directions", torch.zeros(in_features, width) if in_features > width else None)

    def fit(self, features: HasGram, random: torch.Generator) -> None:
        """Find V."""
        if self.directions is not None:
            self.directions.copy_(right_singular_vectors(features, self.width, random, **self.options))

    def forward(self, features: FeatureMatrix) -> Tensor:
        """Return Z, N×D."""
        if self.directions is not None:
            return features.project(self.directions)
        data = features.data
        return data if isinstance(data, Tensor) else features.project(torch.eye(self.width, device=data.col.device))
