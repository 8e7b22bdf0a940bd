"""What makes a GPU fast: kernels written in Triton, imported late because it is optional, and a second queue."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

_OLDEST_CAPABILITY = (8, 0)  # what Triton supports
_URGENT, _FIRST, _LAST = -2, -1, 0  # of queues on a GPU: the lowest number is served first


def serves(device: torch.device) -> bool:
    """Tell whether the kernels run on a device. Never waits for it.

    Tensors on the CPU are taken where Triton was imported with `TRITON_INTERPRET=1` in the environment, which is slow
    and meant for tests.
    """
    if device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1" and _interprets()
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return _capability(device) >= _OLDEST_CAPABILITY and _has_triton()


@cache
def kernels(module: str) -> ModuleType:
    """Return a module of kernels by its full name."""
    return importlib.import_module(module)


def power_of_two(number: int) -> int:
    """Return the least power of two that is no less, and at least 16, the least side that a GPU multiplies.

    >>> power_of_two(3), power_of_two(100)
    (16, 128)
    """
    return max(16, 1 << (number - 1).bit_length())


class Beside:
    """A second queue of work on a GPU, for what the rest of a step need not wait for.

    Most kernels of a small graph leave the larger part of a GPU idle; what stands in two queues can run at the same
    time. The gradient of work done here runs here as well. The second queue is served first, because it is for many
    small kernels, which a large one would hold up and hardly notice. On a CPU there is one queue, and nothing changes.

    Args:
        device: where; the queue starts after all that has been asked of the device so far.
        urgent: False for a third queue, which is served last: for what nothing waits for.
    """

    def __init__(self, device: torch.device, *, urgent: bool = True) -> None:
        self.stream = _stream_beside(device, urgent) if device.type == "cuda" else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))

    @contextmanager
    def running(self, *read: Tensor) -> Iterator[None]:
        """Put what is asked for inside the block into the second queue.

        Args:
            read: tensors from outside that the block reads. If there are any, the queue first waits for them.
        """
        if self.stream is None:
            yield
            return
        if read:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        for tensor in read:
            tensor.record_stream(self.stream)  # their memory is not to be given away while the queue may need it
        with torch.cuda.stream(self.stream):
            yield

    @contextmanager
    def differentiating(self, *read: Tensor) -> Iterator[None]:
        """Have the gradient of what is made inside the block computed in the second queue.

        The block itself must ask nothing of the device.

        Args:
            read: tensors from outside that the gradient reads; by then the queue must have waited for them.
        """
        if self.stream is None:
            yield
            return
        for tensor in read:
            tensor.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            yield

    def join(self, *made: Tensor) -> None:
        """Let all that follows wait for the second queue.

        Args:
            made: tensors from the queue that what follows reads.
        """
        if self.stream is None:
            return
        current = torch.cuda.current_stream(self.stream.device)
        current.wait_stream(self.stream)
        for tensor in made:
            tensor.record_stream(current)


@cache
def main_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the first queue of all recordings, which goes before those that are not urgent.

    One for all of them: cuBLAS keeps tens of megabytes for each stream that it has ever seen.
    """
    return torch.cuda.Stream(device, priority=_FIRST)  # type: ignore[no-untyped-call]


@cache
def _stream_beside(device: torch.device, urgent: bool) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority=_URGENT if urgent else _LAST)  # type: ignore[no-untyped-call]


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _has_triton() -> bool:
    try:
        importlib.import_module("triton")
    except ImportError:
        return False
    return True


@cache
def _interprets() -> bool:
    """Tell whether Triton was imported to be interpreted: its own functions are then not compiled either."""
    if not _has_triton():
        return False
    triton = importlib.import_module("triton")
    return not isinstance(importlib.import_module("triton.language").sum, triton.JITFunction)
