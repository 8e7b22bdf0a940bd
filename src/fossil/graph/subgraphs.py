"""Subgraph sampling (Section 4.5): K-node neighbourhoods of many anchors at once, straight from CSR.

Two rules say which nodes may belong:

- `two_hop`, the paper's: breadth first within two hops of the anchor.
- `six_hop`, the released code's: neighbours, then neighbours of neighbours and so on, at most six hops out. A hop that
  reaches too few nodes replaces the set before it; the first that reaches K fills the set up with random new nodes.

What is certain about each subgraph is known in advance (`fossil.graph.frontiers`); a draw from the neighbours of fewer
than K nodes remains. It costs the same whatever the size of the graph and of its hubs, has fixed shapes, and never
waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.accelerate import kernels, power_of_two, serves
from fossil.graph.frontiers import Reach, find_frontiers
from fossil.graph.priorities import NONE, first_distinct, mixed, packed, without

__all__ = ["Reach", "SubgraphSampler", "Subgraphs"]

_KERNELS = "fossil.graph._subgraph_kernel"
_SMALL_GRAPH = 1 << 15  # up to so many nodes anchors are drawn by shuffling all of them


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """Sampled subgraphs, one for each anchor; those that could be filled come first.

    Attributes:
        nodes: S×K node indices; the anchor stands last in its row. Rows from `count` on mean nothing.
        count: how many could be filled, a scalar on the device.
        isolated: how many could not because the anchor has no neighbour.
        too_small: how many could not because too few nodes are in reach.
    """

    nodes: Tensor
    count: Tensor
    isolated: Tensor
    too_small: Tensor

    @classmethod
    def of(cls, nodes: Tensor) -> Subgraphs:
        """Return given subgraphs, all of them filled."""
        nothing = torch.zeros((), dtype=torch.int64, device=nodes.device)
        return cls(nodes, nothing + len(nodes), nothing, nothing)

    @property
    def filled(self) -> Tensor:
        """S answers to whether a row is a subgraph."""
        return torch.arange(len(self.nodes), device=self.nodes.device) < self.count

    @property
    def usable(self) -> Tensor:
        """S answers to whether a row is a subgraph and has another one to be told from."""
        return self.filled & (self.count >= 2)

    def others(self, random: torch.Generator) -> Tensor:
        """Draw for each subgraph the row of another one, uniformly; rows that are none get any."""
        rows = len(self.nodes)
        # In float64, because in float32 the product could be rounded up to count - 1.
        draw = torch.rand(rows, generator=random, device=random.device, dtype=torch.float64)
        following = torch.arange(1, rows + 1, device=random.device)
        return (following + (draw * (self.count - 1)).long()) % self.count.clamp_min(1)

    def distinct_nodes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pick out the nodes of all subgraphs, in fixed shapes.

        Returns:
            S·K nodes, each once in rising order, then any; how many there are, a scalar on the device; and where each
            subgraph's nodes are among them, S×K. Rows that are no subgraph get any place.
        """
        nodes = torch.where(self.filled[:, None], self.nodes, NONE).flatten().sort().values
        fresh = nodes != NONE
        fresh[1:] &= nodes[1:] != nodes[:-1]
        distinct = packed(nodes[None], fresh[None], len(nodes))[0]
        in_order = torch.where(distinct == NONE, torch.iinfo(torch.int64).max, distinct)
        places = torch.searchsorted(in_order, self.nodes).clamp_max(max(len(nodes) - 1, 0))
        return distinct.clamp_min(0), fresh.sum(), places

    def trimmed(self) -> Subgraphs:
        """Return them without the rows that mean nothing, which on a GPU waits for the device."""
        return Subgraphs(self.nodes[: int(self.count)], self.count, self.isolated, self.too_small)


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
        self._frontiers = find_frontiers(crow, col, size, reach)
        # Fewer than K sources either have no more neighbours than this, counted with repeats, and all are looked at;
        # or so many that a random choice of this size holds enough distinct ones, but for odds below 1e-11 even where
        # all sources have the same neighbours.
        self._places = 2 * size * size + 128
        highest = int(self.degree.max()) if self.num_nodes else 0
        self._bisections = max(1, highest.bit_length())

    def draw_anchors(self, count: int, random: torch.Generator) -> Tensor:
        """Return `count` distinct nodes, or all of them if there are fewer, in no particular order."""
        device = self.crow.device
        if self.num_nodes <= max(_SMALL_GRAPH, 16 * count):
            keys = torch.rand(self.num_nodes, generator=random, device=device)
            return keys.topk(min(count, self.num_nodes), sorted=False).indices
        drawn = torch.randint(self.num_nodes, (1, 4 * count), generator=random, device=device)
        seed = torch.randint(1 << 62, (1, 1), generator=random, device=device)
        return first_distinct(drawn, seed, count)[0][0]

    def sample(self, anchors: Tensor, random: torch.Generator) -> Subgraphs:
        """Return a subgraph for each anchor, those that can be filled first."""
        seeds = torch.randint(1 << 62, (len(anchors), 3), generator=random, device=random.device)
        nodes, filled = (self._sample_fused if self._is_fused() else self._sample_plainly)(anchors, seeds)
        return _filled_first(nodes, filled, self.degree[anchors] == 0)

    def adjacency(self, nodes: Tensor) -> Tensor:
        """Return A[S_i; S_i] for each row S_i of `nodes` (S×K): S×K×K zeros and ones."""
        if not (self._is_fused() and len(nodes)):
            return self._is_edge(nodes[:, :, None], nodes[:, None, :]).float()
        count, size = nodes.shape
        blocks = torch.empty(count, size, size, device=nodes.device)
        kernels(_KERNELS).adjacency_kernel[(count,)](
            blocks, nodes.contiguous(), self.crow, self.col, SIZE=size, WIDTH=power_of_two(size), STEPS=self._bisections
        )
        return blocks

    def _is_fused(self) -> bool:
        return len(self.col) > 0 and serves(self.crow.device)

    def _sample_fused(self, anchors: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Draw in one launch."""
        frontiers = self._frontiers
        nodes = torch.empty(len(anchors), self.size, dtype=torch.int64, device=anchors.device)
        filled = torch.empty(len(anchors), dtype=torch.bool, device=anchors.device)
        if len(anchors):
            kernels(_KERNELS).sample_kernel[(len(anchors),)](
                nodes,
                filled.view(torch.int8),
                anchors,
                seeds,
                frontiers.sources,
                frontiers.kept.view(torch.int8),
                frontiers.drawn,
                frontiers.filled.view(torch.int8),
                self.crow,
                self.col,
                SIX_HOP=self.reach == "six_hop",
                SIZE=self.size,
                WIDTH=power_of_two(self.size),
                PLACES=self._places,
                BLOCK=power_of_two(self._places),
                STEPS=self._bisections,
                num_warps=max(1, min(8, power_of_two(self._places) // 256)),
            )
        return nodes, filled

    def _sample_plainly(self, anchors: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Draw with tensor operations."""
        frontiers, centre = self._frontiers, anchors[:, None]
        belongs = frontiers.kept[anchors, None]
        kept = torch.where(belongs, frontiers.sources[anchors], NONE)  # S×(K-1)
        # Where the sources do not belong, they are the anchor, which must not be drawn. In the released rule it may be,
        # like any other node that is not among them, and takes a place until it is removed.
        outside = torch.where(belongs, NONE, centre) if self.reach == "six_hop" else centre
        drawn = self._draw(anchors, torch.cat([kept, outside], 1), seeds)
        members = torch.cat([kept, drawn], 1)
        members = members.masked_fill(members == centre, NONE)
        others, _ = first_distinct(members, seeds[:, 2:], self.size - 1)
        filled = frontiers.filled[anchors] & (others != NONE).all(1)
        return torch.cat([others.clamp_min(0), centre], 1), filled

    def _draw(self, anchors: Tensor, excluded: Tensor, seeds: Tensor) -> Tensor:
        """Draw new neighbours of each anchor's sources, as many as its frontier says: S×K, `NONE` after the last."""
        sources, wanted = self._frontiers.sources[anchors], self._frontiers.drawn[anchors, None]
        if len(self.col) == 0:
            return sources.new_full((len(sources), self.size), NONE)
        found, which, crowded = self._look_around(sources, seeds[:, :1])
        found = without(found, excluded)
        found, which = first_distinct(found, seeds[:, 1:2], self._places, which)
        suitable = (found != NONE) & ~(crowded & self._repeated(sources, which, found, crowded, wanted))
        return packed(found, suitable & (suitable.cumsum(1) <= wanted), self.size)

    def _look_around(self, sources: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Look at neighbours of the sources.

        Returns:
            S×M neighbours or `NONE`: all, or random ones where there are too many; S×M positions of their sources; and
            S×1 answers to whether there are too many.
        """
        degree = torch.where(sources == NONE, 0, self.degree[sources.clamp_min(0)])
        ends = degree.cumsum(1)
        total = ends[:, -1:]
        crowded = total > self._places
        place = torch.arange(self._places, device=sources.device).expand(len(sources), -1)
        place = torch.where(crowded, mixed(place, seeds) % total.clamp_min(1), place)
        which = torch.searchsorted(ends, place, right=True).clamp_max(sources.shape[1] - 1)
        start = self.crow[sources.clamp_min(0)] - (ends - degree)
        inside = place < total
        found = self.col[torch.where(inside, start.gather(1, which) + place, 0)]
        return torch.where(inside, found, NONE), which, crowded

    def _repeated(self, sources: Tensor, which: Tensor, found: Tensor, crowded: Tensor, wanted: Tensor) -> Tensor:
        """Tell which candidates of crowded rows are also neighbours of an earlier source than their own.

        A random place shows a node as often as there are sources it is a neighbour of. Counted for the first of them
        alone, all nodes are alike. On a CPU no more candidates are looked at than it takes.
        """
        if found.device.type != "cpu":
            return self._has_earlier_source(sources, which, found)
        repeated = torch.zeros_like(found, dtype=torch.bool)
        rows = crowded.squeeze(1).nonzero().squeeze(1)
        for start in range(0, found.shape[1], 2 * self.size):
            part = slice(start, start + 2 * self.size)
            repeated[rows, part] = self._has_earlier_source(sources[rows], which[rows, part], found[rows, part])
            suitable = (found[rows, : part.stop] != NONE) & ~repeated[rows, : part.stop]
            rows = rows[suitable.sum(1) < wanted[rows, 0]]
            if len(rows) == 0:
                break
        return repeated

    def _has_earlier_source(self, sources: Tensor, which: Tensor, found: Tensor) -> Tensor:
        earlier = torch.arange(sources.shape[1], device=sources.device) < which[..., None]
        candidate, source = found.clamp_min(0)[..., None], sources.clamp_min(0)[:, None, :]
        return (earlier & self._is_edge(source, candidate)).any(2)

    def _is_edge(self, source: Tensor, target: Tensor) -> Tensor:
        wanted = source * self.num_nodes + target
        if len(self._edge_keys) == 0:
            return torch.zeros_like(wanted, dtype=torch.bool)
        position = torch.searchsorted(self._edge_keys, wanted).clamp_max(len(self._edge_keys) - 1)
        return self._edge_keys[position] == wanted


def _filled_first(nodes: Tensor, filled: Tensor, isolated: Tensor) -> Subgraphs:
    before, count = filled.cumsum(0), filled.sum()
    position = torch.where(filled, before - 1, torch.arange(len(filled), device=filled.device) - before + count)
    ordered = torch.empty_like(nodes).index_copy_(0, position, nodes)
    return Subgraphs(ordered, count, isolated.sum(), (~filled & ~isolated).sum())
