"""Fusion layer (Section 4.4): how much structure does each node need?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fossil.nn.encoders import Branches
from fossil.nn.sparse import dropout
from fossil.nn.unit import cosine


class FusionGate(nn.Module):
    """ψ: two linear maps, joined with the node's centrality, down to one number λ in (0, 1) per node.

    Args:
        width: D.
        hidden: width of each linear map; the released code has 30.
        with_centrality: whether a centrality is joined in.
        drop: dropout in training mode (p_f).
        nonlinear: put a ReLU after the two maps; the released code has none, the paper says MLP.
        drop_logit: let the dropout reach the logit too. It then sets λ = 1/2 on a share `drop` of the nodes in
            each training step, which is how structure reaches the contrast once λ itself has shrunk.
    """

    def __init__(
        self, width: int, hidden: int, *, with_centrality: bool, drop: float, nonlinear: bool, drop_logit: bool
    ) -> None:
        super().__init__()
        self.of_feature = nn.Linear(width, hidden)
        self.of_structure = nn.Linear(width, hidden)
        self.join = nn.Linear(2 * hidden + int(with_centrality), 1)
        for layer in (self.of_feature, self.of_structure, self.join):
            nn.init.xavier_normal_(layer.weight, gain=1.414)
        self.drop = drop
        self.nonlinear = nonlinear
        self.drop_logit = drop_logit

    def forward(self, branches: Branches, centrality: Tensor | None, random: torch.Generator | None) -> Tensor:
        """Return λ, N×1; with `random` in training mode, without it deterministically."""
        assert branches.feature is not None
        parts = [self.of_feature(branches.feature), self.of_structure(branches.structure)]
        if self.nonlinear:
            parts = [torch.relu(part) for part in parts]
        parts = [dropout(part, self.drop, random) for part in parts]
        if centrality is not None:
            parts.append(centrality)
        logit = self.join(torch.cat(parts, dim=1))
        if self.drop_logit:
            logit = dropout(logit, self.drop, random)
        return torch.sigmoid(logit)


def fuse(branches: Branches, fusion: Tensor | None) -> Tensor:
    """Return H = H^f + λ H^s, or H^s alone where there is no feature branch; in float32 at least."""
    if branches.feature is None or fusion is None:
        fused = branches.structure
    else:
        fused = branches.feature + fusion * branches.structure
    return fused.to(torch.promote_types(fused.dtype, torch.float32))


def fusion_penalty(
    fusion: Tensor, branches: Branches, *, alpha: float, l2: float, mean: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the embedding fusion loss L_θ (Eq. 15) and its three parts.

    Args:
        fusion: λ, N×1.
        branches: the encoder's branches.
        alpha: weight of the features in the transport cost; λ is drawn towards 1 - alpha on average.
        l2: β₁, weight of ||λ||₂.
        mean: β₂, weight of |mean(λ) - (1 - alpha)|.
    """
    assert branches.feature is not None
    alike = cosine(branches.feature, branches.structure)
    parts = {
        "fusion_similarity": (fusion.squeeze(1) * alike).sum(),
        "fusion_l2": l2 * fusion.norm(),
        "fusion_mean": mean * (fusion.mean() - (1 - alpha)).abs(),
    }
    return torch.stack(list(parts.values())).sum(), parts
