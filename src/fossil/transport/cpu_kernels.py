"""Spreading the CPU kernels of BAPG over threads. Numba is imported at the first problem that could use it.

Python's threads do it, since the kernels leave the interpreter's lock alone: Numba's own threads end the process when
it forks, or when two threads of a program solve at once.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fossil.transport.fused import Order, Scored
from fossil.transport.problem import FusedProblem

LARGEST = 128
"""The most nodes on a side."""

_PARTS = 4  # of the work of a thread, so that one that is held up leaves some to the others
_LEAST_WORK = 2**22  # multiplications for which a thread is worth its start


def serves(device: torch.device) -> bool:
    """Tell whether the kernels run on a device."""
    return device.type == "cpu" and _has_numba()


def solve(problem: FusedProblem, order: Order) -> Scored:
    """Solve and score, without a gradient."""
    feature_cost = _plain(problem.feature_cost)
    # Structures of no weight are not read: they are often one number, expanded, and a copy would be large.
    structured = problem.alpha != 1
    source = _plain(problem.source_structure) if structured else feature_cost
    target = _plain(problem.target_structure) if structured else feature_cost
    plan = torch.empty_like(feature_cost)
    value, errors = feature_cost.new_empty(problem.batch), feature_cost.new_empty((2, problem.batch))
    arrays = (plan, value, errors, feature_cost, source, target)
    masses = _plain(problem.source_mass), _plain(problem.target_mass)
    settings = (
        float(problem.alpha),
        math.log2(math.e) / order.step,  # the kernel's logarithms are to base 2
        order.iterations,
        order.constant_terms,
        order.symmetric,
        order.actual,
    )
    kernel = _module("_bapg_cpu").solve
    _spread(kernel, [*(tensor.numpy() for tensor in (*arrays, *masses)), *settings], plan, 4 * order.iterations)
    return plan, value, errors[0], errors[1]


def differentiate(
    value_gradient: Tensor, saved: tuple[Tensor, ...], needed: list[bool], alpha: float, order: Order
) -> list[Tensor | None]:
    """Return the gradients in the three costs, those that are needed."""
    plan, source, target, *masses = saved
    batch, n, m = plan.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m))
    found = [plan.new_empty(shape) if wanted else None for shape, wanted in zip(shapes, needed, strict=True)]
    given = [_plain(tensor) if needed[1] or needed[2] else plan for tensor in (source, target)]
    arrays = [plan if gradient is None else gradient for gradient in found]
    arrays += [_plain(value_gradient), plan, *given, *(_plain(mass) for mass in masses)]
    settings = (float(alpha), *needed, order.actual)
    kernel = _module("_envelope_cpu").differentiate
    _spread(kernel, [*(array.numpy() for array in arrays), *settings], plan, 4)
    return found


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous()


def _spread(kernel: Callable[..., None], arguments: list[Any], plan: Tensor, products: int) -> None:
    """Call a kernel for all problems, in parts, with as many threads as PyTorch may use.

    Args:
        kernel: takes the arguments, the first problem and one after the last.
        arguments: what it takes.
        plan: B×n×m.
        products: products of matrices it makes for a problem.
    """
    batch, n, m = plan.shape
    work = batch * n * m * max(n, m) * products
    threads = min(torch.get_num_threads(), batch, max(1, work // _LEAST_WORK))
    if threads == 1:
        kernel(*arguments, 0, batch)
        return
    size = -(-batch // (threads * _PARTS))
    with ThreadPoolExecutor(threads) as pool:
        parts = [pool.submit(kernel, *arguments, start, min(start + size, batch)) for start in range(0, batch, size)]
    for part in parts:
        part.result()  # raises what it raised


@cache
def _has_numba() -> bool:
    try:
        _module("_bapg_cpu")
    except ImportError:
        return False
    return True


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"fossil.transport.{name}")
