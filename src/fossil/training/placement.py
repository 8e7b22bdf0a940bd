"""Where the arrays of a graph lie while parts of it are trained on: on the card, in the host's memory, or on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from fossil.graph.disk import DiskGraph
from fossil.graph.graph import Graph
from fossil.guard.budget import in_bytes
from fossil.ops.memory import free_memory
from fossil.ops.ranks import ALONE, Ranks
from fossil.sampling.store import EdgeDirection, GraphStore
from fossil.training.distributed import all_reduce_max

Where = Literal["the card", "pinned host memory", "memory", "disk"]

_HOST = torch.device("cpu")
_LEFT_FREE = 0.15  # of a memory, for what nobody counts


@dataclass(frozen=True)
class Placed:
    """One array, or a few that belong together.

    Attributes:
        name: such as `edges`.
        size: bytes.
        where: it lies there.
    """

    name: str
    size: int
    where: Where

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.name} ({in_bytes(self.size)}) in {self.where}".replace("in disk", "on disk").replace(
            "in the card", "on the card"
        )


def place(
    store: GraphStore, device: torch.device, step: float, *, on_disk: bool, ranks: Ranks = ALONE
) -> tuple[GraphStore, list[Placed]]:
    """Move a graph's arrays to where there is room for them beside a step, edges first; return where they are.

    Args:
        store: the arrays on the host, in memory or mapped from files.
        device: where steps are computed.
        step: bytes that a step takes there.
        on_disk: whether the arrays are mapped from files.
        ranks: the processes that train; what one of them has no room for lies on the card of none, because what is
            drawn depends on where the edges are.
    """
    sizes = {"edges": store.edge_bytes, "features": store.features.bytes}
    here: Where = "disk" if on_disk else "memory"
    if device.type == "cpu":
        return store, [Placed(name, size, here) for name, size in sizes.items()]
    free, host = free_memory(device), free_memory(_HOST)
    left = (1 - _LEFT_FREE) * (free or 0) - step
    placed: list[Placed] = []
    for name, size in sizes.items():
        if not all_reduce_max(ranks, int(size > left)):
            store, where, left = store.moved(name, device), "the card", left - size
        elif name == "features" and (host is None or _pinned(size) <= (1 - _LEFT_FREE) * host):
            store, where = store.pinned(), "pinned host memory"
        else:
            where = here
        placed.append(Placed(name, size, where))  # type: ignore[arg-type]
    return store, placed


def _pinned(size: int) -> int:
    """Return what so many bytes take in pinned memory: PyTorch rounds them up to a power of two."""
    return 1 << max(0, size - 1).bit_length()


def host_store(graph: Graph, directions: Sequence[EdgeDirection]) -> tuple[GraphStore, bool]:
    """Return a graph's arrays as they are on the host, and whether they are mapped from files."""
    return GraphStore.of(graph, directions=directions), isinstance(graph, DiskGraph)
