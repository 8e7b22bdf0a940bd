"""A graph of which a step reads the surroundings of the sampled nodes, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.graph.structure import Centrality
from fossil.methods.fossil.settings import ContrastSettings, FossilSettings
from fossil.sampling.batches import PartsOfGraph
from fossil.sampling.neighbourhoods import Scaling
from fossil.sampling.store import EdgeDirection, GraphStore
from fossil.sampling.subgraphs import SubgraphSampler


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledGraph(PartsOfGraph):
    """Parts of a graph around subgraphs.

    Attributes:
        sampler: of subgraphs; where the edges are.
    """

    sampler: SubgraphSampler

    @classmethod
    def of(
        cls,
        store: GraphStore,
        direction: EdgeDirection,
        config: ContrastSettings,
        device: torch.device,
        fan_out: int | None,
    ) -> SampledGraph:
        """Return the graph with a sampler along one kind of edges, which keeps nothing for every node."""
        sampler = SubgraphSampler(*store.adjacency[direction], config.subgraph_size, config.reach, ahead=False)
        return cls(store=store, sampler=sampler, device=device, fan_out=fan_out)

    def draw_nodes(self, count: int, random: torch.Generator) -> Tensor:
        """Return so many distinct nodes, or all, drawn uniformly."""
        return self.sampler.draw_anchors(count, self.random_on_store(random)).to(random.device)

    def centrality(self, degree: Tensor, kind: Centrality) -> Tensor | None:
        """Return the centrality of nodes of these degrees, M×1; None for `none`."""
        by = {"degree": 1, "degree_by_nodes": max(1, self.num_nodes - 1)}
        by["degree_by_sum"] = max(1, len(self.store.adjacency["out"].col))
        return None if kind == "none" else (degree.double() / by[kind]).float().to(self.dtype)[:, None]


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
