"""Subgraph sampling (Section 4.5): k-node neighbourhoods of many anchors at once, straight from CSR.

Sets of nodes are kept as flat lists of (owner, node) pairs, one owner per anchor, so that one gather expands all
anchors together on any device.

Two rules say which nodes may belong:

- `two_hop`, the paper's: breadth first within two hops of the anchor.
- `six_hop`, the released code's: neighbours, then neighbours of neighbours and so on, at most six hops out. A hop that
  reaches too few nodes replaces the set before it; the first that reaches k fills the set up with random new nodes.

An anchor that cannot fill k nodes is skipped, and the reason is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Reach = Literal["two_hop", "six_hop"]
_EXPANSIONS = 5  # after the first neighbours: six hops in all


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """Sampled subgraphs.

    Attributes:
        nodes: S×K node indices; the anchor stands last in its row.
        isolated: how many anchors were skipped because they have no neighbour.
        too_small: how many were skipped because their neighbourhood has fewer than K nodes.
    """

    nodes: Tensor
    isolated: int
    too_small: int

    @property
    def count(self) -> int:
        """S."""
        return int(self.nodes.shape[0])


class _Pairs(NamedTuple):
    """A family of node sets, one per owner, as flat lists."""

    owner: Tensor
    node: Tensor

    def where(self, mask: Tensor) -> _Pairs:
        return _Pairs(self.owner[mask], self.node[mask])

    def sizes(self, owners: int) -> Tensor:
        return torch.bincount(self.owner, minlength=owners)


class SubgraphSampler:
    """Draws K-node subgraphs around anchors.

    Args:
        crow: N+1 row offsets of the adjacency, on the device to sample on.
        col: E neighbours, sorted within each row.
        size: K, the anchor included.
        reach: which nodes may belong.
    """

    def __init__(self, crow: Tensor, col: Tensor, size: int, reach: Reach = "six_hop") -> None:
        self.crow, self.col, self.size, self.reach = crow, col, size, reach
        self.degree = crow[1:] - crow[:-1]
        self.num_nodes = len(self.degree)
        rows = torch.repeat_interleave(torch.arange(self.num_nodes, device=crow.device), self.degree)
        self._edge_keys = rows * self.num_nodes + col

    def draw_anchors(self, count: int, random: torch.Generator) -> Tensor:
        """Return `count` distinct nodes, or all of them in random order if there are fewer."""
        order = torch.randperm(self.num_nodes, generator=random, device=self.crow.device)
        return order[:count]

    def sample(self, anchors: Tensor, random: torch.Generator) -> Subgraphs:
        """Return a subgraph for each anchor that can fill one."""
        grow = self._within_two_hops if self.reach == "two_hop" else self._within_six_hops
        others = grow(anchors, random)
        filled = others.sizes(len(anchors)) == self.size - 1
        others = others.where(filled[others.owner])
        others = others.where(torch.argsort(others.owner, stable=True))
        isolated = int((self.degree[anchors] == 0).sum())
        return Subgraphs(
            nodes=torch.cat([others.node.view(-1, self.size - 1), anchors[filled, None]], dim=1),
            isolated=isolated,
            too_small=int((~filled).sum()) - isolated,
        )

    def adjacency(self, nodes: Tensor) -> Tensor:
        """Return A[S_i; S_i] for each row S_i of `nodes` (S×K): S×K×K zeros and ones."""
        wanted = nodes[:, :, None] * self.num_nodes + nodes[:, None, :]
        if len(self._edge_keys) == 0:
            return torch.zeros(wanted.shape, device=nodes.device)
        position = torch.searchsorted(self._edge_keys, wanted).clamp_max(len(self._edge_keys) - 1)
        return (self._edge_keys[position] == wanted).float()

    def _within_two_hops(self, anchors: Tensor, random: torch.Generator) -> _Pairs:
        """Return up to K-1 others for each anchor: first neighbours first, the rest from the second hop."""
        anchor = _Pairs(torch.arange(len(anchors), device=anchors.device), anchors)
        near = self._without(self._neighbours(anchor), anchor)
        missing = (self.size - 1 - near.sizes(len(anchors))).clamp_min(0)
        # Where the first hop suffices, the second is never looked at.
        far = self._neighbours(near.where((missing > 0)[near.owner]))
        far = self._without(self._without(far, near), anchor)
        near = _choose(near, torch.full_like(missing, self.size - 1), random)
        return _joined(near, _choose(far, missing, random))

    def _within_six_hops(self, anchors: Tensor, random: torch.Generator) -> _Pairs:
        """Return up to K-1 others for each anchor, from the first hop that reaches K nodes."""
        owners = len(anchors)
        anchor = _Pairs(torch.arange(owners, device=anchors.device), anchors)
        current = self._neighbours(anchor)
        large = current.sizes(owners) >= self.size
        full = current.where(large[current.owner])
        current = current.where(~large[current.owner])
        for _ in range(_EXPANSIONS):
            if len(current.node) == 0:
                break
            reached = self._neighbours(current)
            enough = reached.sizes(owners) >= self.size
            room = torch.where(enough, self.size - current.sizes(owners), 0)
            full = _joined(full, current.where(enough[current.owner]))
            full = _joined(full, _choose(self._without(reached, current), room, random))
            current = reached.where(~enough[reached.owner])
        quota = torch.full((owners,), self.size - 1, device=anchors.device)
        return _choose(self._without(full, anchor), quota, random)

    def _neighbours(self, pairs: _Pairs) -> _Pairs:
        """Return the distinct neighbours of each owner's nodes, sorted."""
        counts = self.degree[pairs.node]
        index = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        within = torch.arange(len(index), device=counts.device) - (counts.cumsum(0) - counts)[index]
        found = self.col[self.crow[pairs.node][index] + within]
        keys = torch.unique(pairs.owner[index] * self.num_nodes + found)
        return _Pairs(keys // self.num_nodes, keys % self.num_nodes)

    def _without(self, pairs: _Pairs, excluded: _Pairs) -> _Pairs:
        keys = pairs.owner * self.num_nodes + pairs.node
        return pairs.where(~torch.isin(keys, excluded.owner * self.num_nodes + excluded.node))


def _choose(pairs: _Pairs, quota: Tensor, random: torch.Generator) -> _Pairs:
    """Return at most `quota[o]` random nodes of each owner o."""
    draw = torch.rand(len(pairs.owner), generator=random, device=quota.device, dtype=torch.float64)
    shuffled = pairs.where(torch.argsort(pairs.owner + draw))
    sizes = shuffled.sizes(len(quota))
    rank = torch.arange(len(draw), device=quota.device) - (sizes.cumsum(0) - sizes)[shuffled.owner]
    return shuffled.where(rank < quota[shuffled.owner])


def _joined(first: _Pairs, second: _Pairs) -> _Pairs:
    return _Pairs(torch.cat([first.owner, second.owner]), torch.cat([first.node, second.node]))
