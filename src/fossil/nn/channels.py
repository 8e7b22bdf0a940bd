"""Channels on a device: what a node sees along each of them, with nothing trained and through an encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.channels import Channel, operator
from fossil.graph.graph import Graph
from fossil.ops.activation import biased_activation
from fossil.ops.features import FeatureMatrix, FeatureShare
from fossil.ops.ranks import all_gather, ranks
from fossil.ops.rows import rows_of
from fossil.ops.sparse import SparseMatrix, leading
from fossil.ops.svd import HasGram, right_singular_vectors
from fossil.ops.unit import unit_vectors
from fossil.sampling.neighbourhoods import part_around

_ORDINARY = (2.0**-10, 2.0**20)  # largest features whose squares, and lengths of rows, float32 holds with ease
_LARGEST_EXPONENT = 126  # of a power of two that float32 holds, and one by it


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
        names = dict.fromkeys(channel.operator for channel in channels if channel.hops)
        operators = {name: SparseMatrix.from_scipy(operator(graph.adjacency, name), device) for name in names}
        scale = scale or scale_of(graph)
        features = graph.features if scale == 1 else graph.features * np.float32(scale)
        return cls(FeatureMatrix.from_host(features, device), operators)

    def thinned(self, share: Tensor, channels: Iterable[Channel], random: torch.Generator) -> ChannelTensors:
        """Return the graph without some edges, drawn anew along every operator of the channels.

        A node that sees d nodes loses each with probability `share` · (1 - 1/d), which spares those who see one alone.
        What remains is divided by the probability that it does, so that each node sees the same on average.
        """
        operators = {}
        for name in dict.fromkeys(channel.operator for channel in channels if channel.hops):
            matrix = self.operators[name]
            seen = self.seen(name)[matrix.row.long()].to(matrix.values.dtype)
            dropped = share * (1 - 1 / seen)
            kept = self.drawn(name, random) >= dropped
            operators[name] = matrix.with_values(matrix.values * kept / (1 - dropped))
        return replace(self, operators=operators)

    def drawn(self, operator: str, random: torch.Generator) -> Tensor:
        """Return a random number, at least 0 and below 1, for every entry of an operator."""
        return torch.rand(self.operators[operator].num_entries, generator=random, device=random.device)

    def joined(self, rows: Tensor) -> Tensor:
        """Return what was encoded, of all nodes that the losses read."""
        return rows

    def seen(self, operator: str) -> Tensor:
        """Return how many nodes each node sees along an operator."""
        crow = self.operators[operator].crow
        return crow[1:] - crow[:-1]

    def first_layer(self, features: FeatureMatrix, weight: Tensor) -> Callable[[Channel], Tensor]:
        """Return what tells for a channel S X W, the product with at most one hop (N×H)."""
        projected = features.project(weight)
        return lambda channel: self.hop(channel, projected) if channel.hops else projected

    def second_layer(self, channel: Channel, hidden: Tensor, weight: Tensor) -> Tensor:
        """Return what each node sees of G W (N×D) along the hops of a channel that are left."""
        return self.hop(channel, hidden @ weight, max(channel.hops - 1, 0))

    def hop(self, channel: Channel, values: Tensor, times: int = 1) -> Tensor:
        """Return what each node sees of `values` (N×D) so many hops along a channel."""
        for _ in range(times):
            values = self.operators[channel.operator].matmul(values)
        return values


@dataclass(frozen=True, eq=False)
class ChannelBlock(ChannelTensors):
    """The surroundings of some nodes along every channel. Features are those of all nodes that any channel reads.

    Attributes:
        targets: rows of the nodes themselves among the features.
        rims: rows of the nodes that the outermost hop of each operator reads, by its name.
        lengths: how many nodes those of each operator's rows see in the whole graph.
    """

    targets: Tensor
    rims: Mapping[str, Tensor]
    lengths: Mapping[str, Tensor]

    def seen(self, operator: str) -> Tensor:
        """Return how many nodes each node sees along an operator in the whole graph."""
        return self.lengths[operator]

    def first_layer(self, features: FeatureMatrix, weight: Tensor) -> Callable[[Channel], Tensor]:
        """Return what tells for a channel S X W; where the features are narrow and dense, S X comes first."""
        data = features.data
        narrow = isinstance(data, Tensor) and data.shape[1] < weight.shape[1]
        start = data if isinstance(data, Tensor) and narrow else features.project(weight)

        def along(channel: Channel) -> Tensor:
            rows = rows_of(start, self.rims[channel.operator] if channel.hops else self.targets)
            found = self.operators[channel.operator].matmul(rows) if channel.hops else rows
            return found @ weight if narrow else found

        return along

    def second_layer(self, channel: Channel, hidden: Tensor, weight: Tensor) -> Tensor:
        """Return what each target sees of G W along the hops of a channel that are left."""
        if channel.hops < 2:
            return leading(hidden, len(self.targets)) @ weight
        values, matrix = hidden @ weight, self.operators[channel.operator]
        for _ in range(channel.hops - 1):
            matrix = matrix.next
            values = matrix.matmul(values)
        return values

    def divided(self) -> ChannelBlock:
        """Return the rank's share of the block; the block itself where one process works alone."""
        among, count = ranks(), len(self.targets)
        if among.world_size == 1:
            return self
        places = torch.arange(count, device=self.targets.device)[among.share(count)]
        parts = {name: part_around(operator, places) for name, operator in self.operators.items()}
        own = self.targets[places]
        rims = {name: self.rims[name][part.nodes] for name, part in parts.items()}
        read = torch.unique(torch.cat([own, *rims.values()]))
        return ChannelShare(
            features=FeatureShare(self.features, read),
            operators={name: part.matrix for name, part in parts.items()},
            targets=torch.searchsorted(read, own),
            rims={name: torch.searchsorted(read, rim) for name, rim in rims.items()},
            lengths={name: self.lengths[name][part.nodes[: part.matrix.shape[0]]] for name, part in parts.items()},
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

    def drawn(self, operator: str, random: torch.Generator) -> Tensor:
        """Return the numbers that these entries have among all of the block's."""
        return self.whole.drawn(operator, random)[self.entries[operator]]

    def joined(self, rows: Tensor) -> Tensor:
        """Return what all ranks encoded."""
        return all_gather(rows, len(self.whole.targets))


def seen_along(start: Tensor, channels: Sequence[Channel], graph: ChannelTensors) -> Tensor:
    """Return what each node sees of `start` (N×D) along every channel, in rows of length one: N×C×D."""
    rows = start.new_empty(len(start), len(channels), start.shape[1])
    for name in dict.fromkeys(channel.operator for channel in channels):
        places = {channel.hops: place for place, channel in enumerate(channels) if channel.operator == name}
        seen = start
        for hop in range(max(places) + 1):
            seen = graph.operators[name].matmul(seen) if hop else seen
            if hop in places:
                rows[:, places[hop]] = unit_vectors(seen)
    return rows


class Reduction(nn.Module):
    """Z = X V: all features, or, where there are more than `width`, their leading right singular directions.

    Args:
        in_features: F.
        width: how many are kept.
        oversampling: directions that the singular value decomposition follows beyond them.
        iterations: multiplications by Xᵀ X in it.
    """

    def __init__(self, in_features: int, width: int, oversampling: int = 10, iterations: int = 4) -> None:
        super().__init__()
        self.width = min(width, in_features)
        self.options = {"oversampling": oversampling, "iterations": iterations}
        self.directions: Tensor | None  # V, F×D; there is none where all features are kept
        self.register_buffer("directions", torch.zeros(in_features, width) if in_features > width else None)

    def fit(self, features: HasGram, random: torch.Generator) -> None:
        """Find V."""
        if self.directions is not None:
            self.directions.copy_(right_singular_vectors(features, self.width, random, **self.options))

    def forward(self, features: FeatureMatrix) -> Tensor:
        """Return Z, N×D."""
        if self.directions is not None:
            return features.project(self.directions)
        data = features.data
        return data if isinstance(data, Tensor) else features.project(torch.eye(self.width, device=data.col.device))


class ChannelEncoder(nn.Module):
    """Two layers along every channel: the first takes one hop and shares its weights, the second takes the others.

    Args:
        in_features: F.
        channels: C of them.
        hidden: width of the first layer.
        width: D, width of the second along each channel.
        drop: dropout of the features in training mode.
    """

    def __init__(self, in_features: int, channels: Sequence[Channel], hidden: int, width: int, drop: float) -> None:
        super().__init__()
        self.channels = tuple(channels)
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(in_features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.first_prelu = nn.PReLU()
        weights = [nn.init.xavier_uniform_(torch.empty(hidden, width)) for _ in self.channels]
        self.second = nn.ParameterList([nn.Parameter(weight) for weight in weights])
        self.second_bias = nn.Parameter(torch.zeros(len(self.channels) * width))
        self.second_prelu = nn.PReLU()
        self.drop = drop

    def forward(self, graph: ChannelTensors, random: torch.Generator | None = None) -> Tensor:
        """Return a vector of length one for each node and channel, N×C×D; with `random` in training mode."""
        along = graph.first_layer(graph.features.dropout(self.drop, random), self.first)
        hidden: dict[str, Tensor] = {}
        rows = []
        for channel, weight in zip(self.channels, self.second, strict=True):
            if channel.operator not in hidden:
                hidden[channel.operator] = self.activated(along(channel))
            rows.append(graph.second_layer(channel, hidden[channel.operator], weight))
        return self.finish(rows)

    def activated(self, spread: Tensor) -> Tensor:
        """Return G, given S X W."""
        return biased_activation(spread, self.first_bias, self.first_prelu)

    def finish(self, rows: list[Tensor]) -> Tensor:
        """Return the vectors (N×C×D), given what each node sees of G W along each channel (N×D each)."""
        joined = biased_activation(torch.cat(rows, 1), self.second_bias, self.second_prelu)
        return unit_vectors(joined.view(len(joined), len(self.channels), -1))


def ordinary_scale(largest: float) -> float:
    """Return one, or a power of two, by which features of this largest magnitude are multiplied.

    Very large or small numbers get into the range of ordinary ones; directions stay as they are.
    """
    if largest == 0 or _ORDINARY[0] <= largest <= _ORDINARY[1]:
        return 1.0
    exponent = int(np.frexp(np.float32(largest))[1])
    return 2.0 ** max(-_LARGEST_EXPONENT, min(-exponent, _LARGEST_EXPONENT))


def scale_of(graph: Graph) -> float:
    """Return the `ordinary_scale` of a graph's features."""
    return ordinary_scale(float(abs(graph.features).max()))
