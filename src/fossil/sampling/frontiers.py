"""The part of subgraph sampling that is not random (Section 4.5).

Which hop around an anchor is the first to reach enough nodes, which nodes are then certain to belong, and whose
neighbours the rest is drawn from, depends on the graph alone. It is worked out once per graph, for every node; where
that is too much to keep, for the anchors of each draw.

The neighbourhood of a hub is never expanded: a set of fewer than K nodes reaches at least 2K others as soon as one of
them has so many neighbours, whatever the others have. So 2K neighbours of each suffice to decide.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fossil.ops.distinct import NONE, without
from fossil.ops.subgraphs import Frontiers

Reach = Literal["two_hop", "six_hop"]

_EXPANSIONS = 5  # after the first neighbours: six hops in all
_CHUNK_ELEMENTS = 1 << 23  # neighbours looked at together: 64 MiB of them


def find_frontiers(crow: Tensor, col: Tensor, size: int, reach: Reach) -> Frontiers:
    """Work out the frontiers of all nodes of a graph in CSR form for subgraphs of K nodes, the anchor included."""
    nodes = len(crow) - 1
    return FrontierSearch(crow, col, size, reach).around(torch.arange(nodes, device=crow.device))


class FrontierSearch:
    """Works frontiers out.

    Args:
        crow: N+1 row offsets of the adjacency.
        col: E neighbours.
        size: K.
        reach: which nodes may belong.
    """

    def __init__(self, crow: Tensor, col: Tensor, size: int, reach: Reach) -> None:
        self.crow, self.col, self.size, self.reach = crow, col, size, reach
        self.degree = crow[1:] - crow[:-1]
        highest = int(self.degree.max()) if len(self.degree) else 0
        self.cap = max(1, min(2 * size, highest))

    def around(self, anchors: Tensor) -> Frontiers:
        """Return the frontiers of some anchors, a row for each."""
        chunk = max(1, _CHUNK_ELEMENTS // (max(1, self.size - 1) * self.cap))
        parts = [self._around(part) for part in torch.split(anchors, chunk)]
        return Frontiers(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))

    def _around(self, anchors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        sources = torch.full((len(anchors), self.size - 1), NONE, device=anchors.device)
        sources[:, 0] = anchors
        kept = torch.zeros(len(anchors), dtype=torch.bool, device=anchors.device)
        drawn = torch.full((len(anchors),), self.size - 1, device=anchors.device)
        two_hop = self.reach == "two_hop"
        wanted = self.size - 1 if two_hop else self.size  # two hops leave out the anchor, six hops may come back to it
        near = self.distinct_neighbours(sources)
        if two_hop:
            near = without(near, anchors[:, None])
        filled = _sizes(near) >= wanted
        rows = (~filled).nonzero().squeeze(1)
        current = _packed(near[rows], self.size - 1)
        for _ in range(1 if two_hop else _EXPANSIONS):
            reached, missing = self.distinct_neighbours(current), wanted - _sizes(current)
            if two_hop:  # the second hop adds to the first; of six, each replaces the one before
                fresh = without(reached, torch.cat([current, anchors[rows, None]], 1))
                enough = _sizes(fresh) >= missing
            else:
                enough = _sizes(reached) >= wanted
            done = rows[enough]
            sources[done], drawn[done] = current[enough], missing[enough]
            kept[done] = filled[done] = True
            rows, current = rows[~enough], _packed(reached[~enough], self.size - 1)
            if len(rows) == 0:
                break
        return self.by_degree(sources), kept, drawn, filled

    def by_degree(self, nodes: Tensor) -> Tensor:
        """Return each row with the nodes of most neighbours first and `NONE` last."""
        degree = torch.where(nodes == NONE, NONE, self.degree[nodes.clamp_min(0)])
        return nodes.gather(1, degree.argsort(dim=1, descending=True, stable=True))

    def distinct_neighbours(self, nodes: Tensor) -> Tensor:
        """Return up to 2K neighbours of each node, distinct within each row and sorted, `NONE` in place of repeats."""
        places = torch.arange(self.cap, device=nodes.device)
        start, degree = self.crow[nodes.clamp_min(0)], self.degree[nodes.clamp_min(0)]
        there = (nodes != NONE)[..., None] & (places < degree[..., None])
        index = (start[..., None] + places).clamp_max(max(0, len(self.col) - 1))
        found = torch.where(there, self.col[index].long(), NONE) if len(self.col) else torch.full_like(index, NONE)
        found = found.flatten(1).sort(1).values
        found[:, 1:].masked_fill_(found[:, 1:] == found[:, :-1], NONE)
        return found


def _sizes(sets: Tensor) -> Tensor:
    return (sets != NONE).sum(1)


def _packed(sets: Tensor, width: int) -> Tensor:
    """Return the sets, none of which has more than `width` members, in that many columns."""
    packed = sets.sort(1, descending=True).values[:, :width]
    return torch.nn.functional.pad(packed, (0, width - packed.shape[1]), value=NONE)
