"""The contrast of subgraphs (Section 4.6.1).

The contrast of nodes (Section 4.6.2) is an operation of its own: `fossil.ops.infonce.node_contrast`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def subgraph_contrast(scores: Tensor, positives: int, counted: Tensor) -> Tensor:
    """Binary cross-entropy on subgraph similarities (Eq. 11): the first `positives` scores are of equal pairs.

    Args:
        scores: similarity of each pair, for example exp(-D/τ), used as logits.
        positives: how many of them come first and should be high.
        counted: which pairs count; the others may hold any finite number.

    Returns:
        The mean over the pairs that count, a scalar; zero if there are none.
    """
    wanted = torch.cat([scores[:positives], -scores[positives:]])
    losses = -nn.functional.logsigmoid(wanted)
    return torch.where(counted, losses, 0).sum() / counted.sum().clamp_min(1)
