"""Spreading a kernel over threads.

Python's threads do it, since the kernels leave the interpreter's lock alone: Numba's own threads end the process when
it forks, or when two threads of a program solve at once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

_PARTS = 4  # of the work of a thread, so that one that is held up leaves some to the others
_LEAST_WORK = 2**22  # multiplications for which a thread is worth its start
_MOST_WORK = 2**32  # multiplications of a part, so that Ctrl-C need not wait for more: a fraction of a second


def plain(tensor: Tensor) -> Tensor:
    """Return a tensor as kernels take it: contiguous, without a gradient."""
    return tensor.detach().contiguous()


def run_in_threads(kernel: Callable[..., None], arguments: list[Any], plan: Tensor, products: int) -> None:
    """Call a kernel for all problems, in parts, with as many threads as PyTorch may use.

    Args:
        kernel: takes the arguments, the first problem and one after the last.
        arguments: what it takes.
        plan: B×n×m.
        products: products of matrices it makes for a problem.
    """
    batch, n, m = plan.shape
    each = n * m * max(n, m) * products
    most = max(1, _MOST_WORK // each)
    threads = min(torch.get_num_threads(), batch, max(1, batch * each // _LEAST_WORK))
    if threads == 1:
        for start in range(0, batch, most):
            kernel(*arguments, start, min(start + most, batch))
        return
    size = min(most, -(-batch // (threads * _PARTS)))
    pool = ThreadPoolExecutor(threads)
    try:
        starts = range(0, batch, size)
        parts = [pool.submit(kernel, *arguments, start, min(start + size, batch)) for start in starts]
        for part in parts:
            part.result()  # raises what it raised
    finally:
        pool.shutdown(cancel_futures=True)
