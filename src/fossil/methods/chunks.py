"""The vectors of a graph, put together from those of one chunk of nodes after the other."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from fossil.methods.base import NodeVectors


def join_chunks(chunks: Iterable[NodeVectors], nodes: int) -> NodeVectors:
    """Return the vectors of so many nodes, given those of one chunk after the other.

    Each chunk is copied to where it belongs before the next one is asked for, so that no two copies of all exist.
    Channel shares are averaged over the nodes.
    """
    whole, done = None, 0
    for chunk in chunks:
        count = len(chunk.vectors)
        if count == nodes:
            return chunk
        if whole is None:
            whole = _empty_like(chunk, nodes)
        for target, rows in zip(_tensors(whole), _tensors(chunk), strict=True):
            target[done : done + count] = rows
        if whole.channel_shares is not None and chunk.channel_shares is not None:
            summed = {name: whole.channel_shares[name] + count * share for name, share in chunk.channel_shares.items()}
            whole = whole._replace(channel_shares=summed)
        done += count
    assert whole is not None and done == nodes
    if whole.channel_shares is None:
        return whole
    return whole._replace(channel_shares={name: total / nodes for name, total in whole.channel_shares.items()})


def _empty_like(chunk: NodeVectors, nodes: int) -> NodeVectors:
    """Return what holds as many rows of everything that a chunk has, with nothing in it yet."""

    def empty(rows: Tensor | None) -> Tensor | None:
        return None if rows is None else rows.new_empty(nodes, *rows.shape[1:])

    channels = chunk.channels
    if channels is not None:
        channels = {name: rows.new_empty(nodes) for name, rows in channels.items()}
    shares = None if chunk.channel_shares is None else dict.fromkeys(chunk.channel_shares, 0.0)
    vectors = chunk.vectors.new_empty(nodes, chunk.vectors.shape[1])
    return NodeVectors(vectors, empty(chunk.fusion), empty(chunk.structure_share), channels, shares)


def _tensors(of_nodes: NodeVectors) -> list[Tensor]:
    tensors = (of_nodes.vectors, of_nodes.fusion, of_nodes.structure_share, *(of_nodes.channels or {}).values())
    return [rows for rows in tensors if rows is not None]
