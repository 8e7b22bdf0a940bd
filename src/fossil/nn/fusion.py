"""Fusion layer (Section 4.4): how much structure does each node need?

On a GPU the gate and the mixing are one launch while the gate reads constants, and so is all of their gradient but
two products; the loss of constant branches takes two launches and its gradient one.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fossil.accelerate import Beside, kernels, serves
from fossil.nn.encoders import Branches
from fossil.nn.precision import ambient_products
from fossil.nn.unit import SHORTEST, cosine

_KERNELS = "fossil.nn._fusion_kernel"
_PENALTY_KERNELS = "fossil.nn._fusion_penalty_kernel"
_KERNEL_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_MOST_HIDDEN = 64  # wider maps would not leave room for a tile of each in shared memory


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
        if _are_constant(branches) and _is_served(self, branches):
            return _launched(self, branches, centrality, random, mix=False)[1]
        assert branches.feature is not None
        uniforms = self.uniforms(branches.structure, random)
        parts = [self.of_feature(branches.feature), self.of_structure(branches.structure)]
        if self.nonlinear:
            parts = [torch.relu(part) for part in parts]
        if uniforms is not None:
            hidden = self.of_feature.out_features
            parts = [
                self._dropped(part, u) for part, u in zip(parts, torch.split(uniforms, hidden, dim=1), strict=False)
            ]
        if centrality is not None:
            parts.append(centrality)
        logit = self.join(torch.cat(parts, dim=1))
        if uniforms is not None and self.drop_logit:
            logit = self._dropped(logit, uniforms[:, -1:])
        return torch.sigmoid(logit)

    def uniforms(self, like: Tensor, random: torch.Generator | None) -> Tensor | None:
        """Draw what decides all dropout for the rows of `like`, a column per hidden number and logit; None for none."""
        if random is None or self.drop == 0:
            return None
        columns = 2 * self.of_feature.out_features + int(self.drop_logit)
        return torch.rand(len(like), columns, generator=random, device=like.device)

    def _dropped(self, values: Tensor, uniforms: Tensor) -> Tensor:
        return torch.where(uniforms >= self.drop, values / (1 - self.drop), 0)


def fuse(branches: Branches, fusion: Tensor | None) -> Tensor:
    """Return H = H^f + λ H^s, or H^s alone where there is no feature branch; in float32 at least."""
    if branches.feature is None or fusion is None:
        fused = branches.structure
    else:
        fused = branches.feature + fusion * branches.structure
    return fused.to(torch.promote_types(fused.dtype, torch.float32))


def gated_fusion(
    gate: FusionGate,
    branches: Branches,
    centrality: Tensor | None,
    random: torch.Generator | None,
    beside: Beside | None = None,
) -> tuple[Tensor, Tensor]:
    """Return H (N×D) and λ (N×1) of a gate that is trained apart.

    What the gate reads and says are constants to the encoder: H has gradients in the branches alone, λ in the gate's
    parameters alone. Both can be differentiated once.

    Args:
        gate: ψ.
        branches: H^f and H^s.
        centrality: N×1, where the gate was made for one.
        random: draws dropout; None for none.
        beside: where the gate's gradient is computed; among all others when None.
    """
    if _is_served(gate, branches):
        fused, fusion = _launched(gate, branches, centrality, random, beside, mix=True)
        assert fused is not None
    else:
        constant = branches.detached()
        fusion = gate(constant, centrality, random)
        fused = fuse(constant, fusion.detach())
    mixed: Tensor = _Mixed.apply(branches.together(), (fused, fusion.detach()))  # type: ignore[no-untyped-call]
    return mixed, fusion


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
    if fusion.dtype == torch.float32 and _are_constant(branches) and _are_served(branches):
        weights = float(l2), float(mean), float(1 - alpha)
        total, *values = _Penalty.apply(fusion, branches.feature, branches.structure, weights)  # type: ignore[no-untyped-call]
        return total, dict(zip(("fusion_similarity", "fusion_l2", "fusion_mean"), values, strict=True))
    alike = cosine(branches.feature, branches.structure)
    parts = {
        "fusion_similarity": (fusion.squeeze(1) * alike).sum(),
        "fusion_l2": l2 * fusion.norm(),
        "fusion_mean": mean * (fusion.mean() - (1 - alpha)).abs(),
    }
    return torch.stack(list(parts.values())).sum(), parts


class _Mixed(torch.autograd.Function):
    """H = H^f + λ H^s, made before, as a function of the branches alone."""

    @staticmethod
    def forward(ctx: Any, branches: Tensor, made: tuple[Tensor, Tensor]) -> Tensor:
        fused, fusion = made
        ctx.kind = branches.dtype
        ctx.save_for_backward(fusion)
        return fused

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (fusion,) = ctx.saved_tensors
        count, width = upstream[0].shape
        if upstream[0].dtype == torch.float32 and upstream[0].numel() and serves(fusion.device):
            return kernels(_KERNELS).mixing_gradient(upstream[0].contiguous(), fusion.contiguous(), ctx.kind), None
        result = upstream[0].new_empty(2 * count, width)
        result[:count] = upstream[0]
        torch.mul(upstream[0], fusion, out=result[count:])
        return result.to(ctx.kind), None


class _Gated(torch.autograd.Function):
    """λ that a kernel made, as a function of the gate's parameters alone."""

    @staticmethod
    def forward(ctx: Any, made: tuple[Tensor, Tensor], inputs: Any, setup: Any, *parameters: Tensor) -> Tensor:
        fusion, kept = made
        ctx.setup = setup
        ctx.save_for_backward(fusion, kept, parameters[4], *inputs)
        return fusion

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        fusion, kept, join, *inputs = ctx.saved_tensors
        parameters = kernels(_KERNELS).gradients(upstream[0].contiguous(), fusion, kept, inputs, join, ctx.setup)
        return None, None, None, *parameters


class _Penalty(torch.autograd.Function):
    """The embedding fusion loss and its three parts, differentiated in λ alone."""

    @staticmethod
    def forward(
        ctx: Any, fusion: Tensor, feature: Tensor, structure: Tensor, weights: tuple[float, float, float]
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.weights, fusion = weights[:2], fusion.contiguous()
        values, alike, state = kernels(_PENALTY_KERNELS).penalty(
            fusion, feature.contiguous(), structure.contiguous(), SHORTEST, weights
        )
        ctx.save_for_backward(fusion, alike, state)
        result: tuple[Tensor, ...] = values
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor, None, None, None]:
        gradient: Tensor = kernels(_PENALTY_KERNELS).penalty_gradient(upstream, *ctx.saved_tensors, *ctx.weights)
        return gradient, None, None, None


def _launched(
    gate: FusionGate,
    branches: Branches,
    centrality: Tensor | None,
    random: torch.Generator | None,
    beside: Beside | None = None,
    *,
    mix: bool,
) -> tuple[Tensor | None, Tensor]:
    """Return H if `mix`, a constant, and λ, by the kernels."""
    layers = gate.of_feature, gate.of_structure, gate.join
    parameters = [each for layer in layers for each in (layer.weight, layer.bias)]
    learns = torch.is_grad_enabled() and any(each.requires_grad for each in parameters)
    precision = "ieee" if ambient_products(branches.structure.device) == "float32" else "tf32"
    setup = kernels(_KERNELS).Gate(float(gate.drop), gate.nonlinear, gate.drop_logit, precision)
    uniforms = gate.uniforms(branches.structure, random)
    inputs = [None if each is None else each.detach().contiguous() for each in (*branches[:2], centrality, uniforms)]
    fused, fusion, kept = kernels(_KERNELS).fused(inputs, parameters, setup, mix=mix, keep=learns)
    if learns:
        read = [each for each in (fusion, kept, *inputs) if each is not None]
        with nullcontext() if beside is None else beside.differentiating(*read):
            fusion = _Gated.apply((fusion, kept), inputs, setup, *parameters)  # type: ignore[no-untyped-call]
    return fused, fusion


def _are_constant(branches: Branches) -> bool:
    return not torch.is_grad_enabled() or not any(each is not None and each.requires_grad for each in branches[:2])


def _are_served(branches: Branches) -> bool:
    """Tell whether the kernels take the branches."""
    known = all(each is not None and each.dtype in _KERNEL_TYPES and each.numel() for each in branches[:2])
    return known and serves(branches.structure.device)


def _is_served(gate: FusionGate, branches: Branches) -> bool:
    """Tell whether the kernels take the gate and the branches."""
    single = all(each.dtype == torch.float32 and each.is_contiguous() for each in gate.parameters())
    return single and gate.of_feature.out_features <= _MOST_HIDDEN and _are_served(branches)
