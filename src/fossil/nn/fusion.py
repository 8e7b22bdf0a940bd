"""Fusion layer (Section 4.4): how much structure does each node need?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fossil.nn.encoders import Branches
from fossil.ops.fusion_gate import Gate, GateInputs, GateRule, GateWeights, gate, gated_mixture, mixture


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
        self.rule = GateRule(drop, nonlinear, drop_logit)

    def forward(self, branches: Branches, centrality: Tensor | None, random: torch.Generator | None) -> Tensor:
        """Return λ, N×1; with `random` in training mode, without it deterministically."""
        assert branches.feature is not None
        uniforms = self._uniforms(branches.structure, random)
        inputs = GateInputs(branches.feature, branches.structure, centrality, uniforms)
        return gate(inputs, self._weights, self.rule)

    def mix(self, branches: Branches, centrality: Tensor | None, random: torch.Generator | None) -> tuple[Tensor, Gate]:
        """Return H (N×D) and λ of a gate that is trained apart: what it reads and says are constants to the encoder."""
        uniforms = self._uniforms(branches.structure, random)
        return gated_mixture(branches.together(), centrality, uniforms, self._weights, self.rule)

    @property
    def _weights(self) -> GateWeights:
        layers = self.of_feature, self.of_structure, self.join
        return GateWeights(*(each for layer in layers for each in (layer.weight, layer.bias)))

    def _uniforms(self, like: Tensor, random: torch.Generator | None) -> Tensor | None:
        """Draw what decides all dropout for the rows of `like`, a column per hidden number and logit; None for none."""
        if random is None or self.rule.drop == 0:
            return None
        columns = 2 * self.of_feature.out_features + int(self.rule.drop_logit)
        return torch.rand(len(like), columns, generator=random, device=like.device)


def fuse(branches: Branches, fusion: Tensor | None) -> Tensor:
    """Return H = H^f + λ H^s, or H^s alone where there is no feature branch; in float32 at least."""
    if branches.feature is None or fusion is None:
        return branches.structure.to(torch.promote_types(branches.structure.dtype, torch.float32))
    return mixture(branches.feature, branches.structure, fusion)


def structure_share(branches: Branches, fusion: Tensor) -> Tensor:
    """Return ||λ H^s|| / (||H^f|| + ||λ H^s||) of every node (N): how much of its vector comes from structure.

    λ alone does not say it, because H^s can be hundreds of times as long as H^f.
    """
    assert branches.feature is not None
    feature, structure = (
        torch.linalg.vector_norm(branch.float(), dim=1) for branch in (branches.feature, branches.structure)
    )
    weighted = fusion.flatten() * structure
    share: Tensor = weighted / (feature + weighted).clamp(min=torch.finfo(weighted.dtype).tiny)
    return share
