"""Subgraph sampling (Section 4.5): K-node neighbourhoods of many anchors at once, straight from CSR.

Two rules say which nodes may belong:

- `two_hop`, the paper's: breadth first within two hops of the anchor.
- `six_hop`, the released code's: neighbours, then neighbours of neighbours and so on, at most six hops out. A hop that
  reaches too few nodes replaces the set before it; the first that reaches K fills the set up with random new nodes.

What is certain about each subgraph is worked out once for a graph (`frontiers`); what is random, at every step
(`fossil.ops.subgraphs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.errors import GraphError
from fossil.ops.distinct import NONE, first_distinct, packed
from fossil.ops.subgraphs import DrawPlan, adjacency_blocks, draw_subgraphs
from fossil.sampling.frontiers import FrontierSearch, Reach, find_frontiers
from fossil.seeding import torch_generator

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

    def compact(self, *, waiting: bool = False) -> Subgraphs:
        """Return them without the rows that mean nothing; on a GPU as they are, where fixed shapes are worth more.

        Args:
            waiting: whether the step waits for the GPU anyway, so that fixed shapes are worth nothing.
        """
        if self.nodes.device.type != "cpu" and not waiting:
            return self
        return Subgraphs(self.nodes[: int(self.count)], self.count, self.isolated, self.too_small)


def draw_nodes(nodes: int, count: int, random: torch.Generator, device: torch.device) -> Tensor:
    """Return `count` distinct nodes of so many, or all of them if there are fewer, in no particular order."""
    if nodes <= max(_SMALL_GRAPH, 16 * count):
        keys = torch.rand(nodes, generator=random, device=device)
        return keys.topk(min(count, nodes), sorted=False).indices
    drawn = torch.randint(nodes, (1, 4 * count), generator=random, device=device)
    seed = torch.randint(1 << 62, (1, 1), generator=random, device=device)
    return first_distinct(drawn, seed, count)[0][0]


class SubgraphSampler:
    """Draws K-node subgraphs around anchors.

    Args:
        crow: N+1 row offsets of the adjacency, on the device to sample on.
        col: E neighbours, sorted within each row.
        size: K, the anchor included.
        reach: which nodes may belong.
        ahead: whether the frontiers of all nodes are worked out now, N×(K-1) numbers; or, where the graph is large,
            those of the anchors at each draw.
    """

    def __init__(self, crow: Tensor, col: Tensor, size: int, reach: Reach = "six_hop", *, ahead: bool = True) -> None:
        self.search = FrontierSearch(crow, col, size, reach)
        frontiers = find_frontiers(crow, col, size, reach) if ahead else None
        self.plan = DrawPlan(crow, col, frontiers, size, reach == "six_hop")
        self.degree = self.plan.degree
        self.num_nodes = len(self.degree)

    def draw_anchors(self, count: int, random: torch.Generator) -> Tensor:
        """Return `count` distinct nodes, or all of them if there are fewer, in no particular order."""
        return draw_nodes(self.num_nodes, count, random, self.degree.device)

    def sample(self, anchors: Tensor, random: torch.Generator) -> Subgraphs:
        """Return a subgraph for each anchor, those that can be filled first."""
        seeds = torch.randint(1 << 62, (len(anchors), 3), generator=random, device=random.device)
        around = self.search.around(anchors) if self.plan.frontiers is None else None
        nodes, filled = draw_subgraphs(self.plan, anchors, seeds, around)
        return _filled_first(nodes, filled, self.degree[anchors] == 0)

    def check_fillable(self, remedy: str, *, lonely_degree: int = 0) -> None:
        """Raise GraphError unless at least two anchors of a trial draw can fill a subgraph.

        Args:
            remedy: what to do where nodes have neighbours, but too few in reach.
            lonely_degree: of a node without neighbours: one, where each has a self-loop.
        """
        anchors = self.draw_anchors(2000, torch_generator(0, "trial", device=self.degree.device))
        known = self.plan.frontiers  # say the same without a draw, which takes minutes where K is large
        filled = int((self.search.around(anchors).filled if known is None else known.filled[anchors]).sum())
        if filled >= 2:
            return
        tried, alone = len(anchors), int((self.degree[anchors] == lonely_degree).sum())
        what = (
            f"subgraph_size={self.plan.size} cannot be filled around two nodes or more: of {tried} tried, {alone} have "
            f"no neighbour and {tried - filled - alone} have too few nodes in reach."
        )
        if alone == tried:
            remedy = "Add edges: a subgraph is made of neighbours."
        elif (within := self._fillable_in_two_hops(anchors)) >= 2:
            what += (
                f" {within} of these have enough within two hops; but reach=six_hop takes the nodes of one hop alone, "
                f"and none of the six hops reaches {self.plan.size} nodes."
            )
            remedy = f"Use reach=two_hop, the paper's rule. Or: {remedy}"
        raise GraphError(what, remedy=remedy)

    def _fillable_in_two_hops(self, anchors: Tensor) -> int:
        """Return around how many anchors the other rule could fill a subgraph; none, where this is that rule."""
        if not self.plan.six_hop:
            return 0
        other = FrontierSearch(self.plan.crow, self.plan.col, self.plan.size, "two_hop")
        return int(other.around(anchors).filled.sum())

    def adjacency(self, nodes: Tensor) -> Tensor:
        """Return A[S_i; S_i] for each row S_i of `nodes` (S×K): S×K×K zeros and ones."""
        return adjacency_blocks(self.plan, nodes)


def _filled_first(nodes: Tensor, filled: Tensor, isolated: Tensor) -> Subgraphs:
    before, count = filled.cumsum(0), filled.sum()
    position = torch.where(filled, before - 1, torch.arange(len(filled), device=filled.device) - before + count)
    ordered = torch.empty_like(nodes).index_copy_(0, position, nodes)
    return Subgraphs(ordered, count, isolated.sum(), (~filled & ~isolated).sum())
