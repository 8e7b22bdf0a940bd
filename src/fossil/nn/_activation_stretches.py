"""Bias and one or two activations on a CPU, a stretch of rows at a time, so that all steps find it in the cache.

The functions are those of `_activation_kernel`, made of PyTorch's own operations.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fossil.nn._stretches import stretches

_Slopes = tuple[Tensor | None, Tensor | None]


def activate(values: Tensor, bias: Tensor, slopes: _Slopes, kinds: tuple[str, str], kind: torch.dtype) -> Tensor:
    """Return both activations of `values + bias`, N×D of type `kind`."""
    slope = _together(slopes, kinds).slope
    result = torch.empty_like(values, dtype=kind)
    for rows in stretches(*values.shape):
        place = result[rows]
        sums = _room(place, bias.dtype)
        torch.add(values[rows], bias, out=sums)
        torch.ops.aten.leaky_relu_(sums, slope)
        if sums is not place:
            place.copy_(sums)
    return result


def gradients(
    upstream: Tensor, values: Tensor, bias: Tensor, slopes: _Slopes, kinds: tuple[str, str]
) -> tuple[Tensor, ...]:
    """Return the gradients of the values (N×D), of the bias (D) and of the two slopes (2; zero where there is none)."""
    slope, at_zero, *shares = _together(slopes, kinds)
    gradient, for_bias, for_slope = torch.empty_like(values), torch.zeros_like(bias), bias.new_zeros(())
    for rows in stretches(*values.shape):
        place, seen, passed = gradient[rows], values[rows] + bias, upstream[rows].to(bias.dtype)
        room = _room(place, bias.dtype)
        # PyTorch's own backward passes of a PReLU and a ReLU are several times slower than this one.
        torch.ops.aten.leaky_relu_backward(passed, seen, slope, False, grad_input=room)
        if at_zero != 1:
            room.mul_(torch.where(seen == 0, at_zero, 1.0))
        for_bias += room.sum(0)
        if room is not place:
            place.copy_(room)
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


def _together(slopes: _Slopes, kinds: tuple[str, str]) -> _Together:
    """Return what two activations are together; the second is `none` where there is one alone."""
    first, second = (0.0 if slope is None else slope.item() for slope in slopes)
    learns = [float(kind == "prelu") for kind in kinds]
    if kinds[1] == "none":
        return _Together(first, 1.0, learns[0], 0.0)
    if first < 0:  # turns negative numbers round, so that the second leaves them as they are
        return _Together(first, second, learns[0], 0.0)
    # In their own type, where slopes that have diverged become infinite: PyTorch refuses a number beyond its range.
    product = 0.0 if slopes[0] is None or slopes[1] is None else (slopes[0] * slopes[1]).item()
    return _Together(product, 1.0, learns[0] * second, learns[1] * first)


def _room(place: Tensor, kind: torch.dtype) -> Tensor:
    """Return where to compute numbers of type `kind` that belong to `place`: there, if it has that type."""
    return place if place.dtype == kind else torch.empty_like(place, dtype=kind)
