"""Doing the same work again and again, on a GPU by replaying a CUDA graph of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

from fossil.errors import FossilWarning
from fossil.methods.base import Record
from fossil.ops.streams import main_stream

Result = TypeVar("Result")


class Captured(Generic[Result]):
    """Work that is captured as a CUDA graph once, and replayed from then on.

    A launch of a small kernel costs the processor more than the kernel costs the GPU, and a step has hundreds. The
    first calls do the work as it is, which also compiles kernels and fills caches; the next one captures it, and from
    then on each call is a single launch. Work that cannot be captured goes on as it is, and so does work on a CPU.

    Args:
        work: all it reads and writes stays in place. Its result is in the same place after each replay: copy it.
        device: where it runs.
        random: the generator that it draws from, if any; a replay draws what the work itself would have drawn.
        warm_up: calls before it is captured.
    """

    def __init__(
        self,
        work: Callable[[], Result],
        device: torch.device,
        random: torch.Generator | None = None,
        warm_up: int = 3,
    ) -> None:
        self.work, self.random, self.warm_up = work, random, warm_up
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream = main_stream(device) if device.type == "cuda" else None

    def __call__(self) -> Result:
        """Do the work once."""
        if self.stream is None:
            return self.work()
        self.calls += 1
        if self.calls == self.warm_up + 1:
            self._capture()
        if self.graph is None:
            return self._on_main_stream(self.stream)
        self.graph.replay()
        return self.result

    def _on_main_stream(self, stream: torch.cuda.Stream) -> Result:
        # Work that is to be captured must have run outside the default stream before.
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self.work()
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        before = None
        if self.random is not None:
            before = self.random.clone_state()
            graph.register_generator_state(self.random)
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.result = self.work()
        except RuntimeError as error:
            if self.random is not None and before is not None:
                # It would wait for the end of the capture for ever, and draw nothing outside one.
                self.random.graphsafe_set_state(before)
            warnings.warn(
                f"Work on the GPU could not be captured for replay and runs operation by operation: {error}",
                FossilWarning,
                stacklevel=2,
            )
            return
        self.graph = graph


class CapturedStep:
    """A training step as `Captured` work.

    Args:
        step: makes one training step and returns what to record of it.
        random: the generator that the step draws from.
    """

    warm_up = 3

    def __init__(self, step: Callable[[], Record], random: torch.Generator) -> None:
        self.captured = Captured(lambda: _packed(step()), random.device, random, self.warm_up)

    @property
    def is_captured(self) -> bool:
        """Whether steps are replayed by now."""
        return self.captured.graph is not None

    def __call__(self) -> Record:
        """Make one step."""
        numbers, names, values = self.captured()
        return {**numbers, **dict(zip(names, values.clone().unbind(), strict=True))}


def _packed(record: Record) -> tuple[dict[str, float], list[str], Tensor]:
    """Return the plain numbers of a record, and its tensors by name and as one."""
    tensors = {name: value for name, value in record.items() if isinstance(value, Tensor)}
    numbers = {name: value for name, value in record.items() if not isinstance(value, Tensor)}
    return numbers, list(tensors), torch.stack([value.float() for value in tensors.values()])
