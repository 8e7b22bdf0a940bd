"""The gate of the fusion layer and the mixing of branches by it (Section 4.4).

On a GPU gate and mixing are one launch while the gate reads constants, and so is all of their gradient but two
products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from fossil.ops.autograd import Function
from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.precision import ambient_products

_KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_MOST_HIDDEN = 64  # wider maps would not leave room for a tile of each in shared memory


class GateInputs(NamedTuple):
    """What a gate reads.

    Attributes:
        feature: H^f, N×D.
        structure: H^s, N×D.
        centrality: N×1, where the gate was made for one.
        uniforms: numbers that decide all dropout, a column for each hidden number and, where the logit is dropped too,
            one for that: N×2h or N×(2h+1); None for no dropout.
    """

    feature: Tensor
    structure: Tensor
    centrality: Tensor | None
    uniforms: Tensor | None

    def constants(self) -> GateInputs:
        """Return the same numbers, contiguous and without gradients."""
        feature, structure = self.feature.detach().contiguous(), self.structure.detach().contiguous()
        others = (None if each is None else each.detach().contiguous() for each in (self.centrality, self.uniforms))
        return GateInputs(feature, structure, *others)


class GateWeights(NamedTuple):
    """Weight (h×D) and bias (h) of the features' map and of the structure's, and of the join (1×(2h or 2h+1), 1)."""

    feature_weight: Tensor
    feature_bias: Tensor
    structure_weight: Tensor
    structure_bias: Tensor
    join_weight: Tensor
    join_bias: Tensor


class GateRule(NamedTuple):
    """How a gate is set up.

    Attributes:
        drop: dropout; read where there are uniform numbers to decide it.
        nonlinear: whether a ReLU follows the two maps.
        drop_logit: whether the logit is dropped too.
    """

    drop: float
    nonlinear: bool
    drop_logit: bool


@dataclass(frozen=True, eq=False)
class Gate:
    """λ of all nodes: a constant, and what its gradient in the gate's weights is made of.

    Attributes:
        values: λ, N×1, a constant.
        learning: λ with its gradient, or what a kernel keeps for it; None where nothing learns.
    """

    values: Tensor
    learning: Tensor | _Kept | None

    def with_gradient(self) -> Tensor:
        """Return λ, N×1, differentiable in the gate's weights, once. Its gradient runs in the stream of this call."""
        if self.learning is None:
            return self.values
        if isinstance(self.learning, Tensor):
            return self.learning
        fusion: Tensor = _LaunchedGate.apply(self.values, self.learning, *self.learning.weights)
        return fusion


@dataclass(frozen=True, eq=False)
class _Kept:
    """What the gradient of a launched gate needs.

    Attributes:
        hidden: what the two maps made of the branches, N×2h.
        inputs: what the gate read, as constants.
        weights: of the gate.
        rule: how it is set up.
    """

    hidden: Tensor
    inputs: GateInputs
    weights: GateWeights
    rule: GateRule


def gate(inputs: GateInputs, weights: GateWeights, rule: GateRule) -> Tensor:
    """Return λ, N×1: the sigmoid of a join of two linear maps, and of the centrality.

    It is differentiable in the weights, and in the branches unless these are constants.
    """
    constant = not torch.is_grad_enabled() or not (inputs.feature.requires_grad or inputs.structure.requires_grad)
    if constant and supports(inputs, weights):
        _, launched = _launch(inputs, weights, rule, mix=False)
        return launched.with_gradient()
    return _plain_gate(inputs, weights, rule)


def gated_mixture(
    branches: Tensor, centrality: Tensor | None, uniforms: Tensor | None, weights: GateWeights, rule: GateRule
) -> tuple[Tensor, Gate]:
    """Return H = H^f + λ H^s (N×D) and λ of a gate that is trained apart.

    What the gate reads and says are constants to the encoder: H has gradients in the branches alone, λ in the gate's
    weights alone. H can be differentiated once.

    Args:
        branches: H^f above H^s, 2N×D.
        centrality: see `GateInputs`.
        uniforms: see `GateInputs`.
        weights: of the gate.
        rule: how it is set up.
    """
    feature, structure = branches.detach().chunk(2)
    inputs = GateInputs(feature, structure, centrality, uniforms)
    if supports(inputs, weights):
        mixed, fusion = _launch(inputs, weights, rule, mix=True)
        assert mixed is not None
    else:
        plain = _plain_gate(inputs, weights, rule)
        fusion = Gate(plain.detach(), plain if plain.requires_grad else None)
        mixed = mixture(feature, structure, fusion.values)
    result: Tensor = _Mixture.apply(branches, (mixed, fusion.values))
    return result, fusion


def mixture(feature: Tensor, structure: Tensor, fusion: Tensor) -> Tensor:
    """Return H = H^f + λ H^s, N×D, in float32 at least."""
    mixed = feature + fusion * structure
    return mixed.to(torch.promote_types(mixed.dtype, torch.float32))


def supports(inputs: GateInputs, weights: GateWeights) -> bool:
    """Tell whether the kernels take a gate and its branches."""
    branches = inputs.feature, inputs.structure
    known = all(each.dtype in _KERNEL_DTYPES and each.numel() for each in branches)
    single = all(each.dtype == torch.float32 and each.is_contiguous() for each in weights)
    return known and single and len(weights.feature_bias) <= _MOST_HIDDEN and triton_runs_on(inputs.structure.device)


def _plain_gate(inputs: GateInputs, weights: GateWeights, rule: GateRule) -> Tensor:
    parts = [
        linear(inputs.feature, weights.feature_weight, weights.feature_bias),
        linear(inputs.structure, weights.structure_weight, weights.structure_bias),
    ]
    uniforms = inputs.uniforms
    if rule.nonlinear:
        parts = [torch.relu(part) for part in parts]
    if uniforms is not None:
        hidden = len(weights.feature_bias)
        split = torch.split(uniforms, hidden, dim=1)
        parts = [_dropped(part, drawn, rule.drop) for part, drawn in zip(parts, split, strict=False)]
    if inputs.centrality is not None:
        parts.append(inputs.centrality)
    logit = linear(torch.cat(parts, dim=1), weights.join_weight, weights.join_bias)
    if uniforms is not None and rule.drop_logit:
        logit = _dropped(logit, uniforms[:, -1:], rule.drop)
    return torch.sigmoid(logit)


def _dropped(values: Tensor, uniforms: Tensor, share: float) -> Tensor:
    return torch.where(uniforms >= share, values / (1 - share), 0)


def _launch(inputs: GateInputs, weights: GateWeights, rule: GateRule, *, mix: bool) -> tuple[Tensor | None, Gate]:
    """Return H, a constant, if `mix`, and λ, by the kernels."""
    learns = torch.is_grad_enabled() and any(each.requires_grad for each in weights)
    precision = "ieee" if ambient_products(inputs.structure.device) == "float32" else "tf32"
    constants = inputs.constants()
    mixed, values, hidden = triton("fusion_gate").gate(constants, weights, rule, precision, mix=mix, keep=learns)
    return mixed, Gate(values, None if hidden is None else _Kept(hidden, constants, weights, rule))


class _Mixture(Function):
    """H = H^f + λ H^s as a function of the branches alone, whose value is known: a tuple hides it from autograd."""

    @staticmethod
    def forward(ctx: Any, branches: Tensor, known: tuple[Tensor, Tensor]) -> Tensor:
        mixed, fusion = known
        ctx.dtype = branches.dtype
        ctx.save_for_backward(fusion)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (fusion,) = ctx.saved_tensors
        count, width = upstream[0].shape
        if upstream[0].dtype == torch.float32 and upstream[0].numel() and triton_runs_on(fusion.device):
            mixing_gradient = triton("fusion_gate").mixing_gradient
            return mixing_gradient(upstream[0].contiguous(), fusion.contiguous(), ctx.dtype), None
        result = upstream[0].new_empty(2 * count, width)
        result[:count] = upstream[0]
        torch.mul(upstream[0], fusion, out=result[count:])
        return result.to(ctx.dtype), None


class _LaunchedGate(Function):
    """λ that a kernel made, as a function of the gate's weights alone."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, kept: _Kept, *weights: Tensor) -> Tensor:
        ctx.rule = kept.rule
        ctx.save_for_backward(values, kept.hidden, kept.weights.join_weight, *kept.inputs)
        return values.view_as(values)  # a tensor of its own: the constant stays one

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        fusion, hidden, join_weight, *inputs = ctx.saved_tensors
        gradients = triton("fusion_gate").gradients
        of_weights = gradients(upstream[0].contiguous(), fusion, hidden, GateInputs(*inputs), join_weight, ctx.rule)
        return None, None, *of_weights
