"""A graph of which a step reads the surroundings of the sampled nodes, and nothing else."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.graph.structure import Centrality
from fossil.methods.fossil.settings import ContrastSettings, FossilSettings
from fossil.sampling.neighbourhoods import Neighbourhood, Scaling, neighbourhood
from fossil.sampling.store import GraphStore, Sight
from fossil.sampling.subgraphs import SubgraphSampler

Moved = TypeVar("Moved")


@dataclass(frozen=True, eq=False)
class SampledGraph:
    """Arrays that stay where they lie, and what draws from them.

    Attributes:
        store: edges and features.
        sampler: of subgraphs; where the edges are.
        device: where steps are computed.
        fan_out: neighbours of a node that a step reads at most; all when None.
        dtype: of what steps compute with.
    """

    store: GraphStore
    sampler: SubgraphSampler
    device: torch.device
    fan_out: int | None
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(
        cls, store: GraphStore, sight: Sight, config: ContrastSettings, device: torch.device, fan_out: int | None
    ) -> SampledGraph:
        """Return the graph with a sampler along one kind of edges, which keeps nothing for every node."""
        pattern = store.patterns[sight]
        sampler = SubgraphSampler(*pattern, config.subgraph_size, config.reach, ahead=False)
        return cls(store, sampler, device, fan_out)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.store.num_nodes

    def random_beside(self, random: torch.Generator) -> torch.Generator:
        """Return a generator where the edges are: the given one, or one that is seeded by it."""
        if random.device.type == self.store.device.type:
            return random
        seed = torch.randint(1 << 62, (1,), generator=random, device=random.device)
        return torch.Generator(self.store.device).manual_seed(int(seed))

    def draw_nodes(self, count: int, random: torch.Generator) -> Tensor:
        """Return so many distinct nodes, or all, drawn uniformly."""
        return self.sampler.draw_anchors(count, self.random_beside(random)).to(random.device)

    def around(self, nodes: Tensor, sight: Sight, hops: int, random: torch.Generator) -> Neighbourhood:
        """Return the block around some nodes, on the device of the steps."""
        pattern, near = self.store.patterns[sight], self.random_beside(random)
        return moved(neighbourhood(pattern, nodes.to(self.store.device), hops, self.fan_out, near), self.device)

    def centrality(self, degree: Tensor, kind: Centrality) -> Tensor | None:
        """Return the centrality of nodes of these degrees, M×1; None for `none`."""
        by = {"degree": 1, "degree_by_nodes": max(1, self.num_nodes - 1)}
        by["degree_by_sum"] = max(1, len(self.store.patterns["out"].col))
        return None if kind == "none" else (degree.double() / by[kind]).float().to(self.dtype)[:, None]

    def block_sizes(self, targets: int, hops: int) -> list[int]:
        """Return about how many nodes the sets of a block have, from the targets to the rim."""
        pattern, sizes = self.store.patterns["out"], [min(targets, self.num_nodes)]
        mean = len(pattern.col) / max(1, self.num_nodes)
        shown = mean if self.fan_out is None else min(mean, self.fan_out)
        for _ in range(hops):
            sizes.append(min(self.num_nodes, round(sizes[-1] * (1 + shown))))
        return sizes


def propagation_rule(config: FossilSettings) -> tuple[Scaling, bool]:
    """Return how the encoder's sums over neighbours are scaled, and whether a node is its own neighbour."""
    if config.encoder != "decoupled":
        return "symmetric", True
    return ("symmetric" if config.aggregation == "symmetric" else "sum"), False


def refuse_whole(config: FossilSettings) -> None:
    """Raise SettingError where a setting needs the whole graph at every step."""
    whole = {
        "node_contrast": (("all_nodes",), "subgraph_nodes (method fossil_v2)"),
        "encoder": (("gcnii",), "decoupled or gcn"),
        "generator": (("random_edges",), "gat_embeddings"),
        "centrality": (("pagerank", "eigenvector"), "degree"),
    }
    for name, (refused, remedy) in whole.items():
        if (value := getattr(config, name)) in refused:
            raise SettingError(
                f"{name}={value} needs the whole graph at every step, and cannot be trained on samples.",
                remedy=f"Use {name}={remedy}, or train on the whole graph.",
            )


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
