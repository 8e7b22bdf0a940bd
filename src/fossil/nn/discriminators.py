"""Telling nodes of a graph from nodes of a corrupted one, given a summary of the graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BilinearDiscriminator(nn.Module):
    """Scores vectors h against a summary s by h·B s + c, a logit.

    B s is computed once, so that N scores cost D² + N·D; a bilinear layer on N copies of s costs N·D². B starts as a
    1×D×D Xavier-uniform tensor, of which PyTorch takes D² as the inward and D as the outward width.

    Args:
        width: D.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width, width))[0])
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, vectors: Tensor, summary: Tensor) -> Tensor:
        """Return the score of each vector (N×D, or any number of such) against `summary` (D): N, or as many."""
        return vectors @ (self.weight @ summary) + self.bias


def real_or_fake(real: Tensor, fake: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of two sets of logits, N each, that should be high and low: a scalar."""
    return (nn.functional.softplus(-real).mean() + nn.functional.softplus(fake).mean()) / 2
