"""How kernels are declared and launched; the only file that calls Triton's compiler by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

INTERPRETED = not isinstance(tl.sum, triton.JITFunction)
"""Whether Triton was imported to be interpreted, which is the only way it treats tensors on the CPU."""


def jit(function: Function) -> Function:
    """Declare a function that kernels call."""
    return cast(Function, triton.jit(function))


def kernel(*varying: str) -> Callable[[Function], Function]:
    """Declare a kernel.

    Args:
        varying: whole numbers that change from call to call, for whose values no program of its own is compiled.
    """
    return cast(Callable[[Function], Function], triton.jit(do_not_specialize=list(varying)))


def launch(program: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Run a kernel on the GPU of its first argument.

    Args:
        program: what `kernel` declared.
        grid: how many programs, in up to three directions.
        *arguments: tensors and numbers, the first a tensor; None where the kernel knows what to do without one.
        **constants: what is compiled into the program, and Triton's options, such as `num_warps`.
    """
    with torch.cuda.device_of(cast(Tensor, arguments[0])):
        program[grid](*arguments, enable_fp_fusion=True, **constants)


def ceil_div(number: int, size: int) -> int:
    """Return how many pieces of a size hold so many."""
    return -(-number // size)


def block_size(number: int) -> int:
    """Return the least power of two that is no less, and at least 16, the least side that a GPU multiplies.

    >>> block_size(3), block_size(100)
    (16, 128)
    """
    return max(16, 1 << (number - 1).bit_length())
