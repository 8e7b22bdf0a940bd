"""Bias and one or two activations on a CPU, a stretch of rows at a time, so that all steps find it in the cache.

The functions are those of `_activation_kernel`, made of PyTorch's own operations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.nn._stretches import stretches

_Slopes = tuple[Tensor | None, Tensor | None]


def activate(values: Tensor, bias: Tensor, slopes: _Slopes, kinds: tuple[str, str], kind: torch.dtype) -> Tensor:
    """Return both activations of `values + bias`, N×D of type `kind`."""
    result = torch.empty_like(values, dtype=kind)
    for rows in stretches(*values.shape):
        place = result[rows]
        sums = _room(place, bias.dtype)
        torch.add(values[rows], bias, out=sums)
        for slope, activation in zip(slopes, kinds, strict=True):
            _activate(sums, slope, activation)
        if sums is not place:
            place.copy_(sums)
    return result


def gradients(
    upstream: Tensor, values: Tensor, bias: Tensor, slopes: _Slopes, kinds: tuple[str, str]
) -> tuple[Tensor, ...]:
    """Return the gradients of the values (N×D), of the bias (D) and of the two slopes (2; zero where there is none)."""
    gradient, for_bias, for_slopes = torch.empty_like(values), torch.zeros_like(bias), bias.new_zeros(2)
    for rows in stretches(*values.shape):
        seen = [values[rows] + bias]
        if kinds[1] != "none":
            seen.append(_activate(seen[0].clone(), slopes[0], kinds[0]))
        place = gradient[rows]
        passed, room = upstream[rows].to(bias.dtype), _room(place, bias.dtype)
        for layer in reversed(range(len(seen))):
            for_slopes[layer] += _pass_back(passed, seen[layer], slopes[layer], room)
            passed = room
        for_bias += room.sum(0)
        if room is not place:
            place.copy_(room)
    return gradient, for_bias, for_slopes


def _room(place: Tensor, kind: torch.dtype) -> Tensor:
    """Return where to compute numbers of type `kind` that belong to `place`: there, if it has that type."""
    return place if place.dtype == kind else torch.empty_like(place, dtype=kind)


def _activate(values: Tensor, slope: Tensor | None, kind: str) -> Tensor:
    """Apply an activation to `values` themselves, and return them."""
    if kind == "relu":
        values.relu_()
    elif slope is not None:
        torch.ops.aten.leaky_relu_(values, slope.item())
    return values


def _pass_back(upstream: Tensor, seen: Tensor, slope: Tensor | None, out: Tensor) -> Tensor | float:
    """Write to `out` the gradient of what an activation was given, `seen`, and return that of its slope.

    A ReLU has none. PyTorch's own backward passes of a PReLU and a ReLU are several times slower than this one.
    """
    for_slope = 0.0 if slope is None else torch.dot(seen.clamp_max(0).flatten(), upstream.flatten())
    torch.ops.aten.leaky_relu_backward(upstream, seen, 0.0 if slope is None else slope.item(), False, grad_input=out)
    return for_slope
