"""Which channels can be trusted, without labels: those whose idea of who is like whom the other channels share.

A channel that tells something about the nodes is confirmed by channels that read the graph in other ways; noise is
confirmed by nobody. Measured node by node, and for the graph as the mean over nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fossil.graph.channels import Channel
from fossil.ops.unit import SHORTEST, unit_vectors

LANDMARKS = 1024
"""Nodes, evenly spaced, that every node is compared with."""

FLOOR = 0.1
"""Least agreement of the identity: where the channels of a graph confirm nothing, the node's own features remain."""

_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 26}  # similarities at a time


def landmarks_of(nodes: int, device: torch.device) -> Tensor:
    """Return the numbers of the nodes that all are compared with, evenly spaced."""
    return torch.arange(0, nodes, max(1, -(-nodes // LANDMARKS)), device=device)


def agreement(rows: Tensor, channels: Sequence[Channel], landmarks: Tensor, nodes: Tensor | None = None) -> Tensor:
    """Return for each node and channel how far other channels agree about whom the node is like, N×C from -1 to 1.

    Along each channel a node has a profile: its similarities to the landmarks, itself left out. The agreement is the
    correlation of two profiles, averaged over the channels of other operators; those of the same operator do not
    count, because one hop and two hops are alike whatever they see.

    Args:
        rows: unit vectors of all nodes, N×C×D.
        channels: C of them.
        landmarks: M nodes.
        nodes: the nodes that it is about; all when None.
    """
    centred = rows - rows.mean(0)
    landmark_rows = centred[landmarks]
    if nodes is None:
        nodes = torch.arange(len(rows), device=rows.device)
    else:
        centred = centred[nodes]
    return agreement_with(landmark_rows, centred, channels, landmarks, nodes)


def agreement_with(
    landmark_rows: Tensor, centred: Tensor, channels: Sequence[Channel], landmarks: Tensor, nodes: Tensor
) -> Tensor:
    """Return the `agreement` about some nodes, given the rows of the landmarks: N×C.

    Args:
        landmark_rows: rows of the landmarks less the mean over all nodes, M×C×D.
        centred: those of the nodes, N×C×D.
        channels: C of them.
        landmarks: M nodes.
        nodes: N nodes; a landmark is not compared with itself.
    """
    directions = landmark_rows.permute(1, 2, 0)  # C×D×M
    operators = [channel.operator for channel in channels]
    other = [[a != b for b in operators] for a in operators]
    weights = torch.tensor(other, dtype=centred.dtype, device=centred.device)  # C×C
    weights = weights / weights.sum(1, keepdim=True).clamp_min(1)
    agreed = []
    size = max(1, _CHUNK[centred.device.type] // (len(channels) * len(landmarks)))
    for chunk, rows in zip(nodes.split(size), centred.split(size), strict=True):
        mask = (chunk[:, None] != landmarks).to(rows.dtype)  # n×M, without the node itself
        similarities = rows.transpose(0, 1) @ directions  # C×n×M
        mean = (similarities * mask).sum(2, keepdim=True) / mask.sum(1).clamp_min(1)[:, None]
        profiles = unit_vectors((similarities - mean) * mask)
        agreed.append(torch.einsum("anm,bnm,ab->na", profiles, profiles, weights))
    return torch.cat(agreed)


def channel_weights(agreed: Tensor, channels: Sequence[Channel], sharpness: float) -> Tensor:
    """Return the weight of each channel, from how far others agree with it: rows of length one, …×C.

    The identity has at least `FLOOR`. Where no channel has any agreement and there is no identity, all weigh alike.

    Args:
        agreed: agreement, …×C.
        channels: C of them.
        sharpness: exponent; zero weighs all alike.
    """
    floor = torch.tensor([0.0 if channel.hops else FLOOR for channel in channels], device=agreed.device)
    floored = torch.maximum(agreed, floor)
    greatest, powers = floored.amax(-1, keepdim=True), floored**sharpness
    # Powers of little agreement are too short for a direction, or zero; those of shares of the greatest are not.
    short = torch.linalg.vector_norm(powers, dim=-1, keepdim=True) <= SHORTEST
    powers = torch.where(short, (floored / greatest) ** sharpness, powers)
    return unit_vectors(torch.where(greatest == 0, torch.ones_like(powers), powers))
