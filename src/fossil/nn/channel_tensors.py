"""A graph with channels on a device: the whole of it, the block around some nodes, or one rank's share of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fossil.errors import GraphError
from fossil.graph.channels import Channel, operator, operators_of
from fossil.graph.graph import Graph
from fossil.nn.feature_scale import scale_of
from fossil.ops.features import FeatureMatrix, FeatureShare
from fossil.ops.ranks import all_gather, ranks
from fossil.ops.rows import rows_of
from fossil.ops.sparse import SparseMatrix, leading
from fossil.ops.unit import unit_vectors
from fossil.sampling.neighbourhoods import part_around


@dataclass(frozen=True, eq=False)
class ChannelTensors:
    """A graph with channels on a device.

    Attributes:
        features: X, N×F.
        operators: S by name, N×N; the identity needs none.
    """

    features: FeatureMatrix
    operators: Mapping[str, SparseMatrix]

    @classmethod
    def of(cls, graph: Graph, channels: Iterable[Channel], device: torch.device, scale: float = 0) -> ChannelTensors:
        """Move features, and the operators of these channels, to `device`.

        Args:
            graph: in memory, or on disk.
            channels: to see it along.
            device: where to.
            scale: what features are multiplied by; 0 for the `ordinary_scale` of this graph.

        Raises:
            GraphError: the graph has no features.
        """
        if graph.num_features == 0:
            raise GraphError(
                f"{graph.name} has no features.", remedy="Make some from the edges with --structural-features."
            )
        names = operators_of(channels)
        operators = {name: SparseMatrix.from_scipy(operator(graph.adjacency, name), device) for name in names}
        scale = scale or scale_of(graph)
        features = graph.features if scale == 1 else graph.features * np.float32(scale)
        return cls(FeatureMatrix.from_host(features, device), operators)

    def drop_edges(self, rate: Tensor, channels: Iterable[Channel], random: torch.Generator) -> ChannelTensors:
        """Return the graph without some edges, drawn anew for every operator of the channels.

        A node of degree d loses each edge with probability `rate` · (1 - 1/d), so that who has one alone keeps it. What
        remains is divided by the probability that it does: the expected operator is the one without dropout.
        """
        operators = {}
        for name in operators_of(channels):
            matrix = self.operators[name]
            degree = self.degree(name)[matrix.row.long()].to(matrix.values.dtype)
            dropped = rate * (1 - 1 / degree)
            kept = self.uniforms(name, random) >= dropped
            operators[name] = matrix.with_values(matrix.values * kept / (1 - dropped))
        return replace(self, operators=operators)

    def uniforms(self, operator: str, random: torch.Generator) -> Tensor:
        """Return a random number, at least 0 and below 1, for every entry of an operator."""
        return torch.rand(self.operators[operator].num_entries, generator=random, device=random.device)

    def from_all_ranks(self, rows: Tensor) -> Tensor:
        """Return what was encoded, of all nodes that the losses read."""
        return rows

    def degree(self, operator: str) -> Tensor:
        """Return how many entries each node's row of an operator has."""
        crow = self.operators[operator].crow
        return crow[1:] - crow[:-1]

    def first_product(self, features: FeatureMatrix, weight: Tensor) -> Callable[[Channel], Tensor]:
        """Return the function from a channel to S X W₁ (N×H), or X W₁ where it has no hop."""
        projected = features.project(weight)
        return lambda channel: self.propagate(channel, projected) if channel.hops else projected

    def second_product(self, channel: Channel, hidden: Tensor, weight: Tensor) -> Tensor:
        """Return S^(h-1) G W₂ (N×D), given G (N×H) of a channel of h hops; G W₂ where it has none."""
        return self.propagate(channel, hidden @ weight, max(channel.hops - 1, 0))

    def propagate(self, channel: Channel, values: Tensor, hops: int = 1) -> Tensor:
        """Return `values` (N×D) after so many hops along a channel."""
        for _ in range(hops):
            values = self.operators[channel.operator].matmul(values)
        return values


@dataclass(frozen=True, eq=False)
class ChannelBlock(ChannelTensors):
    """What some target nodes need of a graph: the rows of each operator that lead to them, hop by hop.

    Attributes:
        features: X of the nodes that any channel reads.
        operators: S by name: a row for each node that a hop is taken to, a column for each that it is taken from.
        targets: places of the target nodes among the features.
        columns: places of the nodes of an operator's columns among the features, by its name.
        degrees: entries that each row of an operator has in the whole graph, where a fan-out leaves fewer here.
    """

    targets: Tensor
    columns: Mapping[str, Tensor]
    degrees: Mapping[str, Tensor]

    def degree(self, operator: str) -> Tensor:
        """Return how many entries each node's row of an operator has in the whole graph."""
        return self.degrees[operator]

    def first_product(self, features: FeatureMatrix, weight: Tensor) -> Callable[[Channel], Tensor]:
        """Return the function from a channel to S X W₁; where the features are narrow and dense, as (S X) W₁."""
        data = features.data
        if isinstance(data, Tensor) and data.shape[1] < weight.shape[1]:
            return lambda channel: self._first_hop(channel, data) @ weight
        projected = features.project(weight)
        return lambda channel: self._first_hop(channel, projected)

    def _first_hop(self, channel: Channel, values: Tensor) -> Tensor:
        """Return S Y, given Y of all nodes that are read; Y of the targets for a channel without a hop."""
        if not channel.hops:
            return rows_of(values, self.targets)
        return self.operators[channel.operator].matmul(rows_of(values, self.columns[channel.operator]))

    def second_product(self, channel: Channel, hidden: Tensor, weight: Tensor) -> Tensor:
        """Return S^(h-1) G W₂ of the targets; the first rows of G are theirs."""
        if channel.hops < 2:
            return leading(hidden, len(self.targets)) @ weight
        values, matrix = hidden @ weight, self.operators[channel.operator]
        for _ in range(channel.hops - 1):
            matrix = matrix.next
            values = matrix.matmul(values)
        return values

    def divided(self) -> ChannelBlock:
        """Return this rank's share of the block; the block itself where one process works alone."""
        group, num_targets = ranks(), len(self.targets)
        if group.world_size == 1:
            return self
        own = torch.arange(num_targets, device=self.targets.device)[group.share(num_targets)]
        parts = {name: part_around(operator, own) for name, operator in self.operators.items()}
        targets = self.targets[own]
        columns = {name: self.columns[name][part.nodes] for name, part in parts.items()}
        read = torch.unique(torch.cat([targets, *columns.values()]))
        return ChannelShare(
            features=FeatureShare(self.features, read),
            operators={name: part.matrix for name, part in parts.items()},
            targets=torch.searchsorted(read, targets),
            columns={name: torch.searchsorted(read, nodes) for name, nodes in columns.items()},
            degrees={name: self.degrees[name][part.nodes[: part.matrix.shape[0]]] for name, part in parts.items()},
            whole=self,
            entries={name: part.entries for name, part in parts.items()},
        )


@dataclass(frozen=True, eq=False)
class ChannelShare(ChannelBlock):
    """The share of a block that one of several ranks encodes; what is drawn at random is drawn for the whole block.

    Attributes:
        whole: the block.
        entries: places of the entries of each operator among those of the block's.
    """

    whole: ChannelBlock
    entries: Mapping[str, Tensor]

    def uniforms(self, operator: str, random: torch.Generator) -> Tensor:
        """Return the numbers that these entries have among all of the block's."""
        return self.whole.uniforms(operator, random)[self.entries[operator]]

    def from_all_ranks(self, rows: Tensor) -> Tensor:
        """Return what all ranks encoded."""
        return all_gather(rows, len(self.whole.targets))


def untrained_rows(reduced: Tensor, channels: Sequence[Channel], graph: ChannelTensors) -> Tensor:
    """Return unit(S^h Z) of all nodes along every channel of h hops, N×C×D, given Z (N×D)."""
    rows = reduced.new_empty(len(reduced), len(channels), reduced.shape[1])
    for name in dict.fromkeys(channel.operator for channel in channels):
        places = {channel.hops: place for place, channel in enumerate(channels) if channel.operator == name}
        propagated = reduced
        for hop in range(max(places) + 1):
            propagated = graph.operators[name].matmul(propagated) if hop else propagated
            if hop in places:
                rows[:, places[hop]] = unit_vectors(propagated)
    return rows
