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
    store: GraphStore, device: torch.device, step: float, *, mapped: int | None, ranks: Ranks = ALONE
) -> tuple[GraphStore, list[Placed]]:
    """Move a graph's arrays to where there is room for them beside a step, edges first; return where they are.

    Args:
        store: the arrays on the host, in memory or mapped from files.
        device: where steps are computed.
        step: bytes that a step takes there.
        mapped: bytes of the edges that are mapped from files, as features are too; None where nothing is.
        ranks: the processes that train; what one of them has no room for lies on the card of none, because what is
            drawn depends on where the edges are.
    """
    sizes = {"edges": store.edge_bytes, "features": store.features.bytes}
    if device.type == "cpu":
        return store, [each for name, size in sizes.items() for each in _on_host(name, size, mapped)]
    free, host = free_memory(device), free_memory(_HOST)
    left = (1 - _LEFT_FREE) * (free or 0) - step
    placed: list[Placed] = []
    for name, size in sizes.items():
        if not all_reduce_max(ranks, int(size > left)):
            store, left = store.moved(name, device), left - size
            placed.append(Placed(name, size, "the card"))
        elif name == "features" and (host is None or _pinned(size) <= (1 - _LEFT_FREE) * host):
            store = store.pinned()
            placed.append(Placed(name, size, "pinned host memory"))
        else:
            placed += _on_host(name, size, mapped)
    return store, placed


def _on_host(name: str, size: int, mapped: int | None) -> list[Placed]:
    """Return where an array lies that stays on the host; what is made of mapped edges takes memory of its own."""
    if mapped is None:
        return [Placed(name, size, "memory")]
    if name == "edges" and mapped < size:
        return [Placed(name, mapped, "disk"), Placed("what is made of them", size - mapped, "memory")]
    return [Placed(name, size, "disk")]


def _pinned(size: int) -> int:
    """Return what so many bytes take in pinned memory: PyTorch rounds them up to a power of two."""
    return 1 << max(0, size - 1).bit_length()


def host_store(graph: Graph, directions: Sequence[EdgeDirection]) -> tuple[GraphStore, int | None]:
    """Return a graph's arrays as they are on the host, and how many bytes of its edges are mapped from files.

    The latter is None for a graph in memory. Offsets of 32 bits and the union of both directions are made in memory.
    """
    store = GraphStore.of(graph, directions=directions)
    if not isinstance(graph, DiskGraph):
        return store, None
    files = {each.ctypes.data for each in (graph.out_indptr, graph.out_indices, graph.in_indptr, graph.in_indices)}
    parts = {part.data_ptr(): part.nbytes for edges in store.adjacency.values() for part in edges}
    return store, sum(size for address, size in parts.items() if address in files)
