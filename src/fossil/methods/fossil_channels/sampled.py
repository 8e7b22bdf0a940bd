"""The surroundings of some nodes along every channel, from arrays that stay where they lie."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fossil.graph.channels import Channel
from fossil.methods.fossil.sampled import SampledGraph
from fossil.nn.channels import ChannelBlock
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.neighbourhoods import Scaling
from fossil.sampling.store import EdgeDirection

OPERATORS: dict[str, tuple[EdgeDirection, Scaling, bool]] = {
    "low": ("both", "symmetric", True),
    "neighbours": ("both", "symmetric", False),
    "out": ("out", "mean", False),
    "in": ("in", "mean", False),
}
"""Whom a node sees along an operator, how entries are scaled, and whether it sees itself (see `graph/channels.py`)."""


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
    every = torch.unique(torch.cat([nodes, *(block.nodes for block in blocks.values())]))
    operators: dict[str, SparseMatrix] = {}
    rims, lengths = {}, {}
    for name in dict.fromkeys(channel.operator for channel in channels if channel.hops):
        direction, scaling, loops = OPERATORS[name]
        operators[name] = blocks[direction].operator(scaling, loops=loops, dtype=graph.dtype)
        rims[name] = torch.searchsorted(every, blocks[direction].nodes)
        lengths[name] = blocks[direction].lengths(loops=loops)
    features = graph.store.features.take(every, graph.device, graph.dtype)
    return ChannelBlock(features, operators, torch.searchsorted(every, nodes), rims, lengths)
