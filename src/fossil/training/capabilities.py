"""What a method may be able to do beside the contract: tell what it takes and what is lighter, and make do with less.

A method has a capability by having its functions; nothing has to be declared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from fossil.errors import FossilError
from fossil.graph.graph import Graph
from fossil.methods.base import NodeVectors
from fossil.progress import StageProgress
from fossil.sampling.store import EdgeDirection, GraphStore

# What PyTorch says of a tensor that is too large for the machine, or for any machine.
_TOO_LARGE = ("can't allocate memory", "Storage size calculation overflowed", "Overflow when unpacking long")


@runtime_checkable
class EstimatesMemory(Protocol):
    """Knows before training how much memory it takes."""

    def memory(self, prepared: Any) -> float | None:
        """Return about how many bytes a step takes beside the prepared graph; None where it does not know."""


@runtime_checkable
class EstimatesTime(Protocol):
    """Knows before training how long a step takes, where that is long."""

    def seconds(self, prepared: Any) -> float | None:
        """Return about how many seconds a step takes at least; None where it is not worth knowing in advance."""


@runtime_checkable
class KnowsLighter(Protocol):
    """Knows what to use in its place where training would take too long."""

    def lighter(self) -> str | None:
        """Return what is lighter on a large graph, in a sentence; None where that is nothing."""


@runtime_checkable
class CanShrink(Protocol):
    """Can go on in less memory, more slowly, with the same result."""

    def shrink(self) -> bool:
        """Work in smaller pieces from now on; return whether that was possible."""


@runtime_checkable
class Divides(Protocol):
    """Can be trained by several processes, each of which does a part of every step."""

    def most_ranks(self, graph: Graph) -> int:
        """Return how many processes there may be."""


@runtime_checkable
class TrainsOnSamples(Protocol):
    """Can take its steps on the surroundings of sampled nodes, and embed a chunk of nodes at a time."""

    edge_directions: ClassVar[tuple[EdgeDirection, ...]]

    def check_sampled(self) -> None:
        """Raise SettingError, with what to set, where its settings need the whole graph at every step."""

    def prepare_sampled(self, store: GraphStore, device: torch.device, fan_out: int | None) -> Any:
        """Return what steps on parts of a graph read; they return `num_nodes` and stay where they lie."""

    def inference(self, prepared: Any) -> LayerwiseInference:
        """Return what embeds one chunk of nodes after the other."""


@runtime_checkable
class DrawsBatches(Protocol):
    """Takes its sampled steps on as many nodes as it is told."""

    batch_nodes: int


class LayerwiseInference(Protocol):
    """Embeds the nodes of a graph exactly, a chunk at a time: what a deeper layer sums over is kept of all nodes.

    Attributes:
        progress: is told what is computed for all nodes before the first chunk, and which share of it is done.
    """

    progress: StageProgress

    def vectors(self, first: int, last: int) -> NodeVectors:
        """Return the vectors of nodes `first` to `last`."""


def step_memory(method: Any, prepared: Any) -> float | None:
    """Return about how many bytes a step takes beside the prepared graph; None where the method does not know."""
    return method.memory(prepared) if isinstance(method, EstimatesMemory) else None


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether memory ran out, on whichever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError | TypeError) and any(text in str(error) for text in _TOO_LARGE)


@contextmanager
def lack_of_memory_as(explanation: FossilError) -> Iterator[None]:
    """Raise `explanation` in place of whatever tells inside the block that memory ran out."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise explanation from error
