"""Work beside other work: CUDA streams on a GPU, plain calls elsewhere.

Most kernels of a small graph leave the larger part of a GPU idle; what stands in two streams can run at the same time,
and the gradient of work runs in the stream of the work. A method says `side(function, ...)` and nothing else; the
trainer wraps a step in `forked`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")

_URGENT, _MAIN, _LAST = -2, -1, 0  # priorities: the lowest number goes first


def side(function: Callable[..., Result], *arguments: Any, urgent: bool = True) -> Result:
    """Call a function on a second stream, so that what follows on the main stream need not wait for it.

    The stream waits for the tensors among the arguments, wherever they are in tuples, lists, mappings and records;
    without any, only for the start of the step. A result without gradients is data, for which the main stream then
    waits. A result with gradients is a loss: the backward pass waits for it, and nothing else should read it.

    Args:
        function: what to call.
        *arguments: what it reads. Objects that are no records hold constants, such as a prepared graph.
        urgent: the second stream goes before the main one, because it is for many small kernels, which a large one
            would hold up and hardly notice. False for a third one that goes after all others: for what nothing waits
            for.
    """
    device = _device_of(arguments)
    if device.type != "cuda":
        return function(*arguments)
    main, stream = torch.cuda.current_stream(device), _beside(device, urgent)
    read = list(_tensors(arguments))
    if read or _forked.get() is None:
        stream.wait_stream(main)
    with torch.cuda.stream(stream):
        result = function(*arguments)
    _keep(read, stream)
    made = list(_tensors(result))
    if not any(tensor.requires_grad for tensor in made):
        main.wait_stream(stream)
        _keep(made, main)
    return result


@contextmanager
def forked(device: torch.device) -> Iterator[Fork]:
    """Let the other streams start where the block does, and let all that follows the block wait for them."""
    fork = Fork(device)
    token = _forked.set(fork)
    try:
        yield fork
    finally:
        _forked.reset(token)
        fork.join()


class Fork:
    """The streams of one step."""

    def __init__(self, device: torch.device) -> None:
        self.others: list[torch.cuda.Stream] = []
        if device.type == "cuda":
            self.main = torch.cuda.current_stream(device)
            self.others = [_beside(device, urgent) for urgent in (True, False)]
            for stream in self.others:
                stream.wait_stream(self.main)

    def mark(self) -> None:
        """Let `afterwards` start here: when all that was asked for so far is done, and nothing else."""
        if self.others:
            urgent, last = self.others
            last.wait_stream(self.main)
            last.wait_stream(urgent)

    def afterwards(self, function: Callable[[], Result]) -> Result:
        """Call a function on the stream that goes last. What it reads must live until the streams have joined."""
        if not self.others:
            return function()
        with torch.cuda.stream(self.others[1]):
            result = function()
        _keep(_tensors(result), self.main)
        return result

    def join(self) -> None:
        """Let all that follows wait for the other streams."""
        for stream in self.others:
            self.main.wait_stream(stream)


@cache
def main_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the first stream of all captured CUDA graphs.

    One for all of them: cuBLAS keeps tens of megabytes for each stream that it has ever seen.
    """
    return torch.cuda.Stream(device, priority=_MAIN)


_forked: ContextVar[Fork | None] = ContextVar("forked", default=None)


def _beside(device: torch.device, urgent: bool) -> torch.cuda.Stream:
    return _stream(torch.cuda.current_device() if device.index is None else device.index, urgent)


@cache
def _stream(index: int, urgent: bool) -> torch.cuda.Stream:
    return torch.cuda.Stream(index, priority=_URGENT if urgent else _LAST)


def _keep(tensors: Iterable[Tensor], stream: torch.cuda.Stream) -> None:
    """Do not give the memory of tensors away while a stream may need it."""
    for tensor in tensors:
        tensor.record_stream(stream)


def _device_of(values: Iterable[Any]) -> torch.device:
    """Return where the tensors and generators among values live."""
    for value in values:
        found = value.device if isinstance(value, torch.Generator) else next((t.device for t in _tensors(value)), None)
        if found is not None:
            return torch.device(found)
    return torch.device("cpu")


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in a value, however deep in tuples, lists, mappings and records."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _tensors(part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name))
