"""The fused GPU version of BAPG: all iterations of a problem in one program, in full float32.

It computes what `fossil.transport.bapg` does, up to rounding, and nothing more: problems it cannot treat stay with the
batched version. Triton is imported at the first problem that could use it, and need not be installed.
"""

from __future__ import annotations

import importlib
import math
import os
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fossil.transport.problem import FusedProblem

LARGEST_TILE = 64
"""Most nodes of one side; a larger problem does not fit on chip."""

WARPS = {16: 1, 32: 4, 64: 8}
"""Warps of a program by the side of its tile: few enough to share little, enough to hold the tiles in registers."""

# Without the limit the assembler settles for 32 registers at the largest tile and keeps nearly all of it in memory.
OPTIONS: dict[str, Any] = {"maxnreg": 255, "enable_fp_fusion": True}
"""How the kernel is compiled."""

_OLDEST_CAPABILITY = (8, 0)  # what Triton supports


def fits(problem: FusedProblem, tolerance: float | None, symmetric: bool) -> bool:
    """Tell whether the kernel can treat a problem. Never waits for the device.

    It takes float32 problems of at most 64 nodes a side on a GPU, with symmetric structures, a fixed number of
    iterations and no gradient through them. Tensors on the CPU are taken where Triton was imported with
    `TRITON_INTERPRET=1` in the environment, which is slow and meant for tests.

    Args:
        problem: B problems.
        tolerance: what `bapg` was asked for.
        symmetric: whether `C1 P C2ᵀ` is used as it is.
    """
    if tolerance is not None or not symmetric or problem.costs_require_grad():
        return False
    return _is_small_float32(problem) and _device_is_served(problem.feature_cost.device)


def bapg_plan(problem: FusedProblem, step: float, iterations: int, constant_terms: bool) -> Tensor:
    """Run BAPG in one launch and return the B×n×m plans (P), without a gradient.

    Each number of iterations is compiled once, at its first use.

    Args:
        problem: B problems that `fits` accepts.
        step: beta.
        iterations: T, all of which are made.
        constant_terms: keep the squared costs in the gradient.
    """
    kernel = _kernel_module()
    if kernel is None:  # `fits` says so first
        raise ImportError("bapg_plan needs Triton.")
    tensors = {
        name: tensor.detach().contiguous() for name, tensor in problem.tensors().items() if _is_read(name, problem)
    }
    feature_cost = tensors["feature_cost"]
    batch, n, m = feature_cost.shape
    plan = torch.empty_like(feature_cost)
    tile = _tile(n, m)
    unit = math.log2(math.e) / step  # the kernel's logarithms are to base 2
    with torch.cuda.device_of(plan):  # type: ignore[no-untyped-call]
        kernel.bapg_kernel[(batch,)](
            plan,
            feature_cost,
            tensors.get("source_structure", feature_cost),
            tensors.get("target_structure", feature_cost),
            tensors["source_mass"],
            tensors["target_mass"],
            n,
            m,
            -problem.alpha * unit,
            -2 * (1 - problem.alpha) * unit,
            4 * (1 - problem.alpha) * unit,
            ITERATIONS=iterations,
            STRUCTURED=problem.alpha != 1,
            CONSTANT_TERMS=constant_terms,
            TILE=tile,
            num_warps=WARPS[tile],
            **OPTIONS,
        )
    return plan


def _is_read(name: str, problem: FusedProblem) -> bool:
    """Leave out structures of no weight: they are often one number, expanded, and a copy would be large."""
    return problem.alpha != 1 or not name.endswith("structure")


def _tile(n: int, m: int) -> int:
    return next(side for side in WARPS if max(n, m) <= side)


def _is_small_float32(problem: FusedProblem) -> bool:
    """Check all that the kernel's addresses rely on, for problems that nobody checked."""
    cost = problem.feature_cost
    if cost.dim() != 3 or 0 in cost.shape or max(cost.shape[1:]) > LARGEST_TILE:
        return False
    batch, n, m = cost.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m), (batch, n), (batch, m))
    return all(
        tensor.shape == shape and tensor.dtype == torch.float32 and tensor.device == cost.device
        for tensor, shape in zip(problem.tensors().values(), shapes, strict=True)
    )


def _device_is_served(device: torch.device) -> bool:
    if device.type == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":
            return False
        kernel = _kernel_module()
        return kernel is not None and bool(kernel.INTERPRETED)
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return _capability(device) >= _OLDEST_CAPABILITY and _kernel_module() is not None


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _kernel_module() -> ModuleType | None:
    try:
        return importlib.import_module("fossil.transport._bapg_kernel")
    except ImportError:
        return None
