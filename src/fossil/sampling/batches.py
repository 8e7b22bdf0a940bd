"""A graph of which a step reads the surroundings of some nodes, and what draws these nodes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from fossil.sampling.neighbourhoods import Neighbourhood, neighbourhood
from fossil.sampling.store import EdgeDirection, GraphStore
from fossil.sampling.subgraphs import draw_nodes

Moved = TypeVar("Moved")


@dataclass(frozen=True, eq=False, kw_only=True)
class PartsOfGraph:
    """Arrays that stay where they lie, and the blocks that are cut from them.

    Attributes:
        store: edges and features.
        device: where steps are computed.
        fan_out: neighbours of a node that a step reads at most; all when None.
        dtype: of what steps compute with.
    """

    store: GraphStore
    device: torch.device
    fan_out: int | None
    dtype: torch.dtype = torch.float32

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.store.num_nodes

    def random_on_store(self, random: torch.Generator) -> torch.Generator:
        """Return a generator where the edges are: the given one, or one that is seeded by it."""
        if random.device.type == self.store.device.type:
            return random
        seed = torch.randint(1 << 62, (1,), generator=random, device=random.device)
        return torch.Generator(self.store.device).manual_seed(int(seed))

    def around(self, nodes: Tensor, direction: EdgeDirection, hops: int, random: torch.Generator) -> Neighbourhood:
        """Return the block around some nodes, on the device of the steps."""
        adjacency, random = self.store.adjacency[direction], self.random_on_store(random)
        return moved(neighbourhood(adjacency, nodes.to(self.store.device), hops, self.fan_out, random), self.device)

    def block_sizes(self, targets: int, hops: int) -> list[int]:
        """Return about how many nodes the sets of a block have, |B_0| to |B_L|."""
        sizes = [min(targets, self.num_nodes)]
        neighbours = len(self.store.adjacency["out"].col) / max(1, self.num_nodes)  # of a node
        if self.fan_out is not None:
            neighbours = min(neighbours, self.fan_out)
        for _ in range(hops):
            sizes.append(min(self.num_nodes, round(sizes[-1] * (1 + neighbours))))
        return sizes


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeBatches(PartsOfGraph):
    """A graph of which a step takes the loss of nodes drawn uniformly, without replacement.

    Attributes:
        batch_nodes: B, how many.
    """

    batch_nodes: int

    def draw(self, random: torch.Generator) -> Tensor:
        """Return the nodes of a step; all in their order, and nothing drawn, where the graph has no more than B."""
        if self.batch_nodes >= self.num_nodes:
            return torch.arange(self.num_nodes, device=self.store.device)
        return draw_nodes(self.num_nodes, self.batch_nodes, self.random_on_store(random), self.store.device)


def moved(value: Moved, device: torch.device) -> Moved:
    """Return a record with all its tensors on a device; what holds none is returned as it is."""
    result: Any = value
    if isinstance(value, Tensor):
        result = value.to(device)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        result = type(value)(*(moved(part, device) for part in value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        result = dataclasses.replace(value, **{name: moved(getattr(value, name), device) for name in names})
    return result  # type: ignore[no-any-return]
