"""Small networks between the embeddings and a loss, thrown away after training."""

from __future__ import annotations

from torch import Tensor, nn


class ProjectionHead(nn.Module):
    """Linear, ELU, linear: maps embeddings to where they are contrasted.

    Args:
        inward: D, width of the embeddings.
        hidden: width between the two maps.
        outward: width of the result.
    """

    def __init__(self, inward: int, hidden: int, outward: int) -> None:
        super().__init__()
        self.first = nn.Linear(inward, hidden)
        self.second = nn.Linear(hidden, outward)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the projections of `embeddings` (N×D)."""
        projected: Tensor = self.second(nn.functional.elu(self.first(embeddings)))
        return projected
