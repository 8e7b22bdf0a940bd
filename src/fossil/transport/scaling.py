"""Giving the rows or columns of a plan their masses, with the plan kept as a logarithm."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import threshold

_FLOOR = -60.0  # entries below exp(-60) of the largest become zero: subnormal numbers are slow, and these do not count
_LOG_ZERO = -1e30  # finite stand-in for log 0: below any logarithm a solver reaches, and differences stay finite


class Scaled(NamedTuple):
    """A plan whose rows (or columns) have their masses.

    Attributes:
        log_plan: B×n×m logarithm of the plan, at least about -1e30.
        plan: B×n×m plan.
        log_factor: B×n×1 (or B×1×m) logarithms of what each row (or column) was multiplied by.
    """

    log_plan: Tensor
    plan: Tensor
    log_factor: Tensor


def rescale(log_plan: Tensor, mass: Tensor, dim: int) -> Scaled:
    """Multiply each row (dim 2) or column (dim 1) so that it sums to its mass.

    The largest entry is moved to zero before the exponential: nothing overflows, and a sum is never less than one.

    Args:
        log_plan: B×n×m logarithms.
        mass: B×n×1 masses of the rows or B×1×m masses of the columns; where it is zero, so is the plan.
        dim: the dimension to sum over.
    """
    # The shift changes nothing, so it needs no gradient.
    largest = log_plan.detach().amax(dim, keepdim=True)
    shifted = log_plan - largest
    weights = threshold(shifted, _FLOOR, -math.inf).exp_()
    total = weights.sum(dim, keepdim=True)
    log_factor = log_mass(mass) - total.log()
    return Scaled(shifted + log_factor, weights * (mass / total), log_factor - largest)


def log_mass(mass: Tensor) -> Tensor:
    """Return the logarithm, finite for a mass of zero."""
    return mass.log().clamp_min(_LOG_ZERO)


def log_support(mass: Tensor) -> Tensor:
    """Return zero for each positive mass and a finite stand-in for log 0 for the others."""
    return mass.new_zeros(()).expand_as(mass).masked_fill(mass == 0, _LOG_ZERO)
