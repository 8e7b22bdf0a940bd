"""A bias and the activations after it in one pass over the values, forward and backward.

PyTorch adds the bias in one pass and applies each activation in another, and its gradient of a PReLU's slope is as
large as the values before it is summed. On a GPU the pass is a kernel; on a CPU it takes a chunk of rows at a time, so
that all its steps find the chunk in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fossil.ops.autograd import Function
from fossil.ops.chunks import row_chunks
from fossil.ops.dispatch import triton, triton_runs_on

_KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_Slopes = tuple[Tensor | None, Tensor | None]
_Kinds = tuple[str, str]


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
    if supports(values, bias, slopes):
        result: Tensor = _BiasedPReLU.apply(values, bias, *_pair(slopes), _kinds(slopes), _result_dtype(values, slopes))
        return result
    result = values + bias
    for slope in slopes:
        result = torch.relu(result) if slope is None else nn.functional.prelu(result, slope)
    return result


def supports(values: Tensor, bias: Tensor, slopes: Sequence[Tensor | None]) -> bool:
    """Tell whether one pass takes them: on a GPU the kernels, on a CPU also numbers as wide as the parameters."""
    parameters = {each.dtype for each in (bias, *slopes) if each is not None}
    on_cpu = values.device.type == "cpu" and parameters == {values.dtype}
    fits = on_cpu or (parameters == {torch.float32} and values.dtype in _KERNEL_DTYPES)
    here = values.device.type == "cpu" or triton_runs_on(values.device)
    return fits and here and values.dim() == 2 and values.numel() > 0 and len(slopes) in (1, 2)


class _BiasedPReLU(Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        bias: Tensor,
        first: Tensor | None,
        second: Tensor | None,
        kinds: _Kinds,
        dtype: torch.dtype,
    ) -> Tensor:
        values = values.contiguous()
        ctx.kinds, ctx.launched = kinds, values.dtype in _KERNEL_DTYPES and triton_runs_on(values.device)
        ctx.save_for_backward(values, bias, first, second)
        activate = triton("activation").activate if ctx.launched else _activate_chunks
        with torch.autocast(values.device.type, enabled=False):
            result: Tensor = activate(values, bias, (first, second), kinds, dtype)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        values, bias, *slopes = ctx.saved_tensors
        differentiate = triton("activation").gradients if ctx.launched else _chunk_gradients
        with torch.autocast(values.device.type, enabled=False):
            for_values, for_bias, for_slopes = differentiate(
                upstream[0].contiguous(), values, bias, tuple(slopes), ctx.kinds
            )
        first, second = (
            None if slope is None else gradient.view_as(slope)
            for slope, gradient in zip(slopes, for_slopes.split(1), strict=True)
        )
        return for_values, for_bias, first, second, None, None


def _activate_chunks(values: Tensor, bias: Tensor, slopes: _Slopes, kinds: _Kinds, dtype: torch.dtype) -> Tensor:
    """Return both activations of `values + bias`, N×D of a dtype."""
    slope = _together(slopes, kinds).slope
    result = torch.empty_like(values, dtype=dtype)
    for rows in row_chunks(*values.shape):
        place = result[rows]
        sums = _buffer(place, bias.dtype)
        torch.add(values[rows], bias, out=sums)
        torch.ops.aten.leaky_relu_(sums, slope)
        if sums is not place:
            place.copy_(sums)
    return result


def _chunk_gradients(
    upstream: Tensor, values: Tensor, bias: Tensor, slopes: _Slopes, kinds: _Kinds
) -> tuple[Tensor, ...]:
    """Return the gradients of the values (N×D), of the bias (D) and of the two slopes (2; zero where there is none)."""
    slope, at_zero, *shares = _together(slopes, kinds)
    gradient, for_bias, for_slope = torch.empty_like(values), torch.zeros_like(bias), bias.new_zeros(())
    for rows in row_chunks(*values.shape):
        place, seen, passed = gradient[rows], values[rows] + bias, upstream[rows].to(bias.dtype)
        buffer = _buffer(place, bias.dtype)
        # PyTorch's own backward passes of a PReLU and a ReLU are several times slower than this one.
        torch.ops.aten.leaky_relu_backward(passed, seen, slope, False, grad_input=buffer)
        if at_zero != 1:
            buffer.mul_(torch.where(seen == 0, at_zero, 1.0))
        for_bias += buffer.sum(0)
        if buffer is not place:
            place.copy_(buffer)
        if any(shares):
            for_slope += torch.dot(seen.clamp_max_(0).flatten(), passed.flatten())
    return gradient, for_bias, for_slope * for_slope.new_tensor(shares)


class _Together(NamedTuple):
    """Two activations as one: `values` above zero stay, those below are multiplied by a slope.

    Attributes:
        slope: that slope.
        at_zero: what the slope is multiplied by for the gradient at zero, where PyTorch takes both for negative.
        of_first: derivative of the slope in the first activation's own.
        of_second: likewise in the second's.
    """

    slope: float
    at_zero: float
    of_first: float
    of_second: float


def _together(slopes: _Slopes, kinds: _Kinds) -> _Together:
    """Return what two activations are together; the second is `none` where there is one alone."""
    first, second = (0.0 if slope is None else slope.item() for slope in slopes)
    learns = [float(kind == "prelu") for kind in kinds]
    if kinds[1] == "none":
        return _Together(first, 1.0, learns[0], 0.0)
    if first < 0:  # turns negative numbers round, so that the second leaves them as they are
        return _Together(first, second, learns[0], 0.0)
    # In their own dtype, where slopes that have diverged become infinite: PyTorch refuses a number beyond its range.
    product = 0.0 if slopes[0] is None or slopes[1] is None else (slopes[0] * slopes[1]).item()
    return _Together(product, 1.0, learns[0] * second, learns[1] * first)


def _buffer(place: Tensor, dtype: torch.dtype) -> Tensor:
    """Return where to compute numbers of a dtype that belong to `place`: there, if it has that dtype."""
    return place if place.dtype == dtype else torch.empty_like(place, dtype=dtype)


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


def _pair(slopes: Sequence[Tensor | None]) -> _Slopes:
    return slopes[0], slopes[1] if len(slopes) == 2 else None


def _kinds(slopes: Sequence[Tensor | None]) -> _Kinds:
    kinds = ["relu" if slope is None else "prelu" for slope in slopes]
    return kinds[0], kinds[1] if len(kinds) == 2 else "none"


def _result_dtype(values: Tensor, slopes: Sequence[Tensor | None]) -> torch.dtype:
    """Return what PyTorch's own operations give: `torch.autocast` makes a PReLU narrow, but not a ReLU."""
    device = values.device.type
    if torch.is_autocast_enabled(device) and any(slope is not None for slope in slopes):
        return torch.get_autocast_dtype(device)
    return torch.promote_types(values.dtype, torch.float32)
