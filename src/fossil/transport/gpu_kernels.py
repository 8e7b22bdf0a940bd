"""Launching the GPU kernels of BAPG. Triton is imported at the first problem that could use it, if it is installed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fossil.accelerate import kernels, serves
from fossil.transport.fused import Arithmetic, Order, Scored
from fossil.transport.launches import (
    GRADIENT_LAUNCHES,
    SOLVER_LAUNCHES,
    TILES,
    Precision,
    scoring_precision,
    tile_side,
)
from fossil.transport.problem import FusedProblem

__all__ = ["LARGEST", "differentiate", "serves", "solve"]

LARGEST = TILES[-1]
"""The most nodes on a side."""

_PRECISIONS: dict[Arithmetic, Precision] = {"float32": "tf32x3", "ieee": "ieee", "tf32": "tf32"}


def solve(problem: FusedProblem, order: Order) -> Scored:
    """Launch the solver; each number of iterations is compiled once, at its first use."""
    precision = _PRECISIONS[order.arithmetic]
    # Structures of no weight are not read: they are often one number, expanded, and a copy would be large.
    structured = problem.alpha != 1
    feature_cost = problem.feature_cost.detach().contiguous()
    source = problem.source_structure.detach().contiguous() if structured else feature_cost
    target = problem.target_structure.detach().contiguous() if structured else feature_cost
    batch, n, m = feature_cost.shape
    plan = torch.empty_like(feature_cost)
    value, errors = feature_cost.new_empty(batch), feature_cost.new_empty((2, batch))
    tile = tile_side(n, m)
    kernel = kernels("fossil.transport._bapg_kernel").bapg_kernel
    with torch.cuda.device_of(plan):  # type: ignore[no-untyped-call]
        kernel[(batch,)](
            plan,
            value,
            errors,
            feature_cost,
            source,
            target,
            problem.source_mass.detach().contiguous(),
            problem.target_mass.detach().contiguous(),
            batch,
            n,
            m,
            float(problem.alpha),
            math.log2(math.e) / order.step,  # the kernel's logarithms are to base 2
            ITERATIONS=order.iterations,
            STRUCTURED=structured,
            CONSTANT_TERMS=order.constant_terms,
            ACTUAL=order.actual,
            PRECISION=precision,
            SCORE_PRECISION=scoring_precision(precision),
            TILE=tile,
            **SOLVER_LAUNCHES[tile, precision].options(),
        )
    return plan, value, errors[0], errors[1]


def differentiate(
    value_gradient: Tensor, saved: tuple[Tensor, ...], needed: list[bool], alpha: float, order: Order
) -> list[Tensor | None]:
    """Launch the gradient kernel for those of the three costs that are needed."""
    precision = scoring_precision(_PRECISIONS[order.arithmetic])
    plan = saved[0]
    structured = needed[1] or needed[2]
    source, target, *masses = (tensor.contiguous() if structured else plan for tensor in saved[1:])
    batch, n, m = plan.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m))
    found = [plan.new_empty(shape) if wanted else None for shape, wanted in zip(shapes, needed, strict=True)]
    tile = tile_side(n, m)
    kernel = kernels("fossil.transport._envelope_kernel").envelope_kernel
    with torch.cuda.device_of(plan):  # type: ignore[no-untyped-call]
        kernel[(batch,)](
            *(plan if gradient is None else gradient for gradient in found),
            value_gradient,
            plan,
            source,
            target,
            *masses,
            value_gradient.stride(0),  # zero after a sum: a copy would be another launch
            n,
            m,
            float(alpha),
            FEATURE=needed[0],
            SOURCE=needed[1],
            TARGET=needed[2],
            ACTUAL=order.actual,
            PRECISION=precision,
            TILE=tile,
            **GRADIENT_LAUNCHES[tile, precision].options(),
        )
    return found
