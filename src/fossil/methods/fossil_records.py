"""What FOSSIL writes into the history of a run beside its losses."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.graph.subgraphs import Subgraphs
from fossil.nn.contrast import sampled_rank
from fossil.transport import Solution

Record = dict[str, Tensor | float]


@torch.no_grad()
def describe_pairs(solution: Solution, subgraphs: Subgraphs) -> Record:
    """Return the mean distance of positive and of negative pairs, and how far plans are from their row marginals.

    Args:
        solution: of 3S pairs, the positive ones first.
        subgraphs: the S subgraphs they are made of.
    """
    usable = subgraphs.usable
    both = torch.stack([solution.value, solution.row_error]).view(2, 3, -1)
    means = torch.where(usable, both, 0).sum(2) / usable.sum().clamp_min(1)
    return {
        "distance_positive": means[0, 0],
        "distance_negative": means[0, 1:].mean(),
        "marginal_error": means[1].mean(),
    }


@torch.no_grad()
def describe_step(embeddings: Tensor, fusion: Tensor | None, subgraphs: Subgraphs) -> Record:
    """Return what was sampled, how many directions the embeddings (N×D) use, and how λ (N×1) is spread."""
    record: Record = {
        "subgraphs": subgraphs.count,
        "skipped_isolated": subgraphs.isolated,
        "skipped_too_small": subgraphs.too_small,
        "effective_rank": sampled_rank(embeddings),
    }
    if fusion is not None:
        record |= {"lambda_mean": fusion.mean(), "lambda_median": fusion.median(), "lambda_std": fusion.std()}
    return record
