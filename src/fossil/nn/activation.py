"""A bias and the activations after it in one pass over the values, forward and backward.

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
from fossil.nn import _activation_stretches

_KERNELS = "fossil.nn._activation_kernel"
_KERNEL_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def biased_activation(values: Tensor, bias: Tensor, *activations: nn.Module) -> Tensor:
    """Return `values + bias` after one activation and then the next, N×D.

    Args:
        values: N×D.
        bias: D.
        activations: modules; one or two PReLUs with a single slope and ReLUs are taken in one pass.
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

    One or two of them are one launch on a GPU and one pass over the memory on a CPU. The backward pass is another, with
    two small sums, and keeps nothing but the inputs. It can be differentiated once.

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
        with torch.autocast(values.device.type, enabled=False):
            result: Tensor = _pass_of(values).activate(values, bias, (first, second), kinds, kind)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        values, bias, *slopes = ctx.saved_tensors
        with torch.autocast(values.device.type, enabled=False):
            for_values, for_bias, for_slopes = _pass_of(values).gradients(
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


def _pass_of(values: Tensor) -> Any:
    """Return the module whose functions treat values of a device and type."""
    fits = values.dtype in _KERNEL_TYPES and serves(values.device)
    return kernels(_KERNELS) if fits else _activation_stretches


def _are_served(values: Tensor, bias: Tensor, slopes: Sequence[Tensor | None]) -> bool:
    """Tell whether one pass treats them: on a GPU the kernels, on a CPU also numbers as wide as the parameters."""
    parameters = {each.dtype for each in (bias, *slopes) if each is not None}
    on_cpu = values.device.type == "cpu" and parameters == {values.dtype}
    fits = on_cpu or (parameters == {torch.float32} and values.dtype in _KERNEL_TYPES)
    here = values.device.type == "cpu" or serves(values.device)
    return fits and here and values.dim() == 2 and values.numel() > 0 and len(slopes) in (1, 2)


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
    return torch.promote_types(values.dtype, torch.float32)
