"""What FOSSIL writes into the history of a run beside its losses."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.methods.fossil.stages import Transported
from fossil.nn.effective_rank import sampled_rank
from fossil.ops.fusion_gate import Gate
from fossil.sampling.subgraphs import Subgraphs

Numbers = dict[str, Tensor | float]


def describe_step(embeddings: Tensor, gate: Gate | None, subgraphs: Subgraphs) -> Numbers:
    """Return what was sampled, how many directions the embeddings (N×D) use, and how λ is spread."""
    found: Numbers = {
        "subgraphs": subgraphs.count,
        "skipped_isolated": subgraphs.isolated,
        "skipped_too_small": subgraphs.too_small,
        "effective_rank": sampled_rank(embeddings),
    }
    if gate is not None:
        fusion = gate.values
        found |= {"lambda_mean": fusion.mean(), "lambda_median": fusion.median(), "lambda_std": fusion.std()}
    return found


def describe_pairs(solution: Transported | None, subgraphs: Subgraphs, iterations: int) -> Numbers:
    """Return the mean distance of positive and of negative pairs, and how far plans are from their row marginals.

    Args:
        solution: of 3S pairs, the positive ones first; None where nothing was transported.
        subgraphs: the S subgraphs they are made of.
        iterations: of the solver.
    """
    if solution is None:
        return {}
    usable = subgraphs.usable
    both = torch.stack(solution).view(2, 3, -1)
    means = torch.where(usable, both, 0).sum(2) / usable.sum().clamp_min(1)
    return {
        "solver_iterations": float(iterations),
        "distance_positive": means[0, 0],
        "distance_negative": means[0, 1:].mean(),
        "marginal_error": means[1].mean(),
    }
