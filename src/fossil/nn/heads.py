"""Small networks between the embeddings and a loss, thrown away after training."""

from __future__ import annotations

from torch import Tensor, nn


class ProjectionHead(nn.Module):
    """Linear, ELU, linear: maps embeddings to where they are contrasted.

    Args:
        in_features: D, width of the embeddings.
        hidden: width between the two maps.
        out_features: width of the result.
    """

    def __init__(self, in_features: int, hidden: int, out_features: int) -> None:
        super().__init__()
        self.first = nn.Linear(in_features, hidden)
        self.second = nn.Linear(hidden, out_features)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the projections of `embeddings` (N×D)."""
        projected: Tensor = self.second(nn.functional.elu(self.first(embeddings)))
        return projected
