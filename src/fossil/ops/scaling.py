"""Giving the rows or columns of a plan their masses, with the plan kept as a logarithm."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import threshold

_FLOOR = -60.0  # entries below exp(-60) of the largest become zero: subnormal numbers are slow, and these do not count
_LOG_ZERO = -1e30  # finite stand-in for log 0: below any logarithm a solver reaches, and differences stay finite
_BITS = math.log2(math.e)


class Scaled(NamedTuple):
    """A plan whose rows (or columns) have their masses.

    Attributes:
        log_plan: B×n×m logarithm of the plan, at least about -1e30.
        plan: B×n×m plan.
        largest: B×n×1 (or B×1×m) largest logarithm of each row (or column) before.
        shift: the logarithm of what each was multiplied by after its largest entry was moved to one.
    """

    log_plan: Tensor
    plan: Tensor
    largest: Tensor
    shift: Tensor

    @property
    def log_factor(self) -> Tensor:
        """The logarithm of what each row (or column) was multiplied by in all."""
        return self.shift - self.largest


def rescale(log_plan: Tensor, mass: Tensor, log_of_mass: Tensor, dim: int) -> Scaled:
    """Multiply each row (dim 2) or column (dim 1) so that it sums to its mass.

    The largest entry is moved to zero before the exponential: nothing overflows, and a sum is never less than one.

    Args:
        log_plan: B×n×m logarithms.
        mass: B×n×1 masses of the rows or B×1×m masses of the columns; where it is zero, so is the plan.
        log_of_mass: `log_mass(mass)`, which does not change over the iterations.
        dim: the dimension to sum over.
    """
    # The shift changes nothing, so it needs no gradient.
    largest = _largest(log_plan.detach(), dim)
    shifted = log_plan - largest
    # Powers of two cost a third of powers of e on many processors.
    weights = threshold(shifted, _FLOOR, -math.inf).mul_(_BITS).exp2_()
    total = weights.sum(dim, keepdim=True)
    shift, scale = log_of_mass - total.log(), mass / total
    if weights.requires_grad:
        return Scaled(shifted + shift, weights * scale, largest, shift)
    return Scaled(shifted.add_(shift), weights.mul_(scale), largest, shift)


def log_mass(mass: Tensor) -> Tensor:
    """Return the logarithm, finite for a mass of zero."""
    return mass.log().clamp_min(_LOG_ZERO)


def log_support(mass: Tensor) -> Tensor:
    """Return zero for each positive mass and a finite stand-in for log 0 for the others."""
    return mass.new_zeros(()).expand_as(mass).masked_fill(mass == 0, _LOG_ZERO)


def _largest(values: Tensor, dim: int) -> Tensor:
    """Return `values.amax(dim, keepdim=True)`, on the CPU several times sooner."""
    # torch compares the entries of short rows one by one, but two halves with vector instructions.
    while values.device.type == "cpu" and 8 < (size := values.shape[dim]) < 64:
        half = (size + 1) // 2
        values = torch.maximum(values.narrow(dim, 0, half), values.narrow(dim, size - half, half))
    return values.amax(dim, keepdim=True)
