"""The surroundings of some nodes along every channel, from arrays that stay where they lie."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fossil.graph.channels import Channel, operators_of
from fossil.methods.fossil.sampled import SampledGraph
from fossil.nn.channel_tensors import ChannelBlock
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.neighbourhoods import Scaling
from fossil.sampling.store import EdgeDirection

OPERATORS: dict[str, tuple[EdgeDirection, Scaling, bool]] = {
    "low": ("both", "symmetric", True),
    "neighbours": ("both", "symmetric", False),
    "out": ("out", "mean", False),
    "in": ("in", "mean", False),
}
"""Neighbours of a node along an operator, how entries are scaled, and whether there are self-loops."""


def channel_block(
    graph: SampledGraph, nodes: Tensor, channels: Iterable[Channel], random: torch.Generator
) -> ChannelBlock:
    """Return what the encoder reads to encode some distinct nodes along the channels."""
    hops: dict[EdgeDirection, int] = {}
    for channel in channels:
        if channel.hops:
            direction = OPERATORS[channel.operator][0]
            hops[direction] = max(hops.get(direction, 0), channel.hops)
    blocks = {direction: graph.around(nodes, direction, count, random) for direction, count in hops.items()}
    read = torch.unique(torch.cat([nodes, *(block.nodes for block in blocks.values())]))
    operators: dict[str, SparseMatrix] = {}
    columns, degrees = {}, {}
    for name in operators_of(channels):
        direction, scaling, loops = OPERATORS[name]
        block = blocks[direction]
        operators[name] = block.operator(scaling, loops=loops, dtype=graph.dtype)
        columns[name] = torch.searchsorted(read, block.nodes)
        degrees[name] = block.row_degree(loops=loops)
    features = graph.store.features.take(read, graph.device, graph.dtype)
    return ChannelBlock(features, operators, torch.searchsorted(read, nodes), columns, degrees)
