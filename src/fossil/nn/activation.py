"""A bias and the activations after it in one pass over the values on a GPU, forward and backward.

PyTorch adds the bias in one pass and applies each activation in another, and its gradient of a PReLU's slope is as
large as the values before it is summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fossil.accelerate import kernels, serves

_KERNELS = "fossil.nn._activation_kernel"
_KERNEL_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def biased_activation(values: Tensor, bias: Tensor, *activations: nn.Module) -> Tensor:
    """Return `values + bias` after one activation and then the next, N×D.

    Args:
        values: N×D.
        bias: D.
        activations: modules; several PReLUs with a single slope, ReLUs and identities are taken in one pass on a GPU.
    """
    slopes = _slopes(activations)
    if slopes is not None:
        return biased_prelu(values, bias, slopes)
    result = values + bias
    for activation in activations:
        result = activation(result)
    return result


def biased_prelu(values: Tensor, bias: Tensor, slopes: Sequence[Tensor | None]) -> Tensor:
    """Return `values + bias` after a PReLU for each slope, one after the other, N×D.

    On a GPU one or two of them are one launch; the backward pass is one launch and two small sums, and keeps nothing
    but the inputs. It can be differentiated once.

    Args:
        values: N×D.
        bias: D.
        slopes: a single number each, or None for a ReLU.
    """
    if _are_served(values, bias, slopes):
        result: Tensor = _BiasedPReLU.apply(values, bias, *_pair(slopes), _kinds(slopes), _result_type(values, slopes))  # type: ignore[no-untyped-call]
        return result
    result = values + bias
    for slope in slopes:
        result = torch.relu(result) if slope is None else nn.functional.prelu(result, slope)
    return result


class _BiasedPReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        bias: Tensor,
        first: Tensor | None,
        second: Tensor | None,
        kinds: tuple[str, str],
        kind: torch.dtype,
    ) -> Tensor:
        values = values.contiguous()
        ctx.kinds = kinds
        ctx.save_for_backward(values, bias, first, second)
        result: Tensor = kernels(_KERNELS).activate(values, bias, (first, second), kinds, kind)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        values, bias, *slopes = ctx.saved_tensors
        for_values, for_bias, for_slopes = kernels(_KERNELS).gradients(
            upstream[0].contiguous(), values, bias, tuple(slopes), ctx.kinds
        )
        first, second = (
            None if slope is None else gradient.view_as(slope)
            for slope, gradient in zip(slopes, for_slopes.split(1), strict=True)
        )
        return for_values, for_bias, first, second, None, None


def _slopes(activations: Sequence[nn.Module]) -> list[Tensor | None] | None:
    """Return the slopes of activations, None for a ReLU and nothing for an identity; None where there are others."""
    slopes: list[Tensor | None] = []
    for activation in activations:
        if isinstance(activation, nn.PReLU) and activation.num_parameters == 1:
            slopes.append(activation.weight)
        elif isinstance(activation, nn.ReLU):
            slopes.append(None)
        elif not isinstance(activation, nn.Identity):
            return None
    return slopes


def _are_served(values: Tensor, bias: Tensor, slopes: Sequence[Tensor | None]) -> bool:
    single = all(each is None or each.dtype == torch.float32 for each in (bias, *slopes))
    fits = single and values.dtype in _KERNEL_TYPES and values.dim() == 2 and values.numel() > 0
    return fits and len(slopes) in (1, 2) and serves(values.device)


def _pair(slopes: Sequence[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    return slopes[0], slopes[1] if len(slopes) == 2 else None


def _kinds(slopes: Sequence[Tensor | None]) -> tuple[str, str]:
    kinds = ["relu" if slope is None else "prelu" for slope in slopes]
    return kinds[0], kinds[1] if len(kinds) == 2 else "none"


def _result_type(values: Tensor, slopes: Sequence[Tensor | None]) -> torch.dtype:
    """Return what PyTorch's own operations give: `torch.autocast` makes a PReLU narrow, but not a ReLU."""
    device = values.device.type
    if torch.is_autocast_enabled(device) and any(slope is not None for slope in slopes):
        return torch.get_autocast_dtype(device)
    return torch.float32
