"""Drawing K-node subgraphs around many anchors at once, and the edges within them (Section 4.5).

What is certain about each subgraph is known in advance (`Frontiers`); a draw from the neighbours of fewer than K nodes
remains. It costs the same whatever the size of the graph and of its hubs, has fixed shapes, and never waits for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.distinct import NONE, first_distinct, mixed, packed, without


@dataclass(frozen=True, eq=False)
class Frontiers:
    """How the subgraph of each node comes about, or of each anchor, where they are worked out for anchors alone.

    Attributes:
        sources: N×(K-1) nodes whose neighbours are drawn from, those with most neighbours first, then `NONE`.
        kept: N answers to whether the sources themselves belong to the subgraph, the anchor aside.
        drawn: N numbers of neighbours to draw.
        filled: N answers to whether the subgraph can be filled at all.
    """

    sources: Tensor
    kept: Tensor
    drawn: Tensor
    filled: Tensor


@dataclass(frozen=True, eq=False)
class DrawPlan:
    """What a draw reads of a graph.

    Attributes:
        crow: N+1 row offsets of the adjacency, on the device to draw on.
        col: E neighbours, sorted within each row.
        frontiers: how the subgraph of each node comes about; None where that is worked out for the anchors of a draw,
            so that nothing but the graph itself grows with it.
        size: K, the anchor included.
        six_hop: whether the anchor may be drawn like any other node, and is removed afterwards (the released rule).
    """

    crow: Tensor
    col: Tensor
    frontiers: Frontiers | None
    size: int
    six_hop: bool

    def __post_init__(self) -> None:
        """Look now at what waits for the device, so that no step does."""
        _ = self.edge_keys if self.has_keys else self.bisections

    @property
    def has_keys(self) -> bool:
        """Whether edges are looked up among a number for each of them, which is faster without kernels."""
        return self.frontiers is not None and not supports(self)

    @cached_property
    def degree(self) -> Tensor:
        """N numbers of neighbours."""
        return self.crow[1:] - self.crow[:-1]

    @cached_property
    def edge_keys(self) -> Tensor:
        """E numbers, one for each edge, rising."""
        rows = torch.repeat_interleave(torch.arange(len(self.degree), device=self.crow.device), self.degree)
        return rows * len(self.degree) + self.col

    @cached_property
    def places(self) -> int:
        """How many neighbours of the sources are looked at.

        Fewer than K sources either have no more neighbours than this, counted with repeats, and all are looked at; or
        so many that a random choice of this size holds enough distinct ones, but for odds below 1e-11 even where all
        sources have the same neighbours.
        """
        return 2 * self.size * self.size + 128

    @cached_property
    def bisections(self) -> int:
        """How many settle whether a node is in any list of neighbours."""
        highest = int(self.degree.max()) if len(self.degree) else 0
        return max(1, highest.bit_length())


def supports(plan: DrawPlan) -> bool:
    """Tell whether the kernels draw from this graph."""
    return len(plan.col) > 0 and triton_runs_on(plan.crow.device)


def draw_subgraphs(
    plan: DrawPlan, anchors: Tensor, seeds: Tensor, around: Frontiers | None = None
) -> tuple[Tensor, Tensor]:
    """Draw a subgraph for each anchor.

    Args:
        plan: what is known of the graph.
        anchors: S nodes.
        seeds: S×3 whole numbers from 0 to 2⁶² - 1, which decide everything random.
        around: the frontiers of these anchors, S rows, where the plan does not have those of all nodes.

    Returns:
        S×K nodes, the anchor last in its row, any nodes in a row that could not be filled; and S answers to whether it
        could.
    """
    frontiers = plan.frontiers if around is None else around
    assert frontiers is not None
    rows = anchors if around is None else torch.arange(len(anchors), device=anchors.device)
    if supports(plan):
        nodes, filled = triton("subgraphs").draw(plan, frontiers, rows, anchors, seeds)
        return nodes, filled
    sources, centre = frontiers.sources[rows], anchors[:, None]
    belongs = frontiers.kept[rows, None]
    kept = torch.where(belongs, sources, NONE)  # S×(K-1)
    # Where the sources do not belong, they are the anchor, which must not be drawn. In the released rule it may be,
    # like any other node that is not among them, and takes a place until it is removed.
    outside = torch.where(belongs, NONE, centre) if plan.six_hop else centre
    drawn = _draw(plan, sources, frontiers.drawn[rows, None], torch.cat([kept, outside], 1), seeds)
    members = torch.cat([kept, drawn], 1)
    members = members.masked_fill(members == centre, NONE)
    others, _ = first_distinct(members, seeds[:, 2:], plan.size - 1)
    filled = frontiers.filled[rows] & (others != NONE).all(1)
    return torch.cat([others.clamp_min(0), centre], 1), filled


def adjacency_blocks(plan: DrawPlan, nodes: Tensor) -> Tensor:
    """Return A[S_i; S_i] for each row S_i of `nodes` (S×K): S×K×K zeros and ones."""
    if supports(plan) and len(nodes):
        blocks: Tensor = triton("subgraphs").adjacency(plan, nodes.contiguous())
        return blocks
    return _is_edge(plan, nodes[:, :, None], nodes[:, None, :]).float()


def _draw(plan: DrawPlan, sources: Tensor, wanted: Tensor, excluded: Tensor, seeds: Tensor) -> Tensor:
    """Draw new neighbours of each anchor's sources, as many as are wanted: S×K, `NONE` after the last."""
    if len(plan.col) == 0:
        return sources.new_full((len(sources), plan.size), NONE)
    found, which, crowded = _look_around(plan, sources, seeds[:, :1])
    found = without(found, excluded)
    found, which = first_distinct(found, seeds[:, 1:2], plan.places, which)
    suitable = (found != NONE) & ~(crowded & _repeated(plan, sources, which, found, crowded, wanted))
    return packed(found, suitable & (suitable.cumsum(1) <= wanted), plan.size)


def _look_around(plan: DrawPlan, sources: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Look at neighbours of the sources.

    Returns:
        S×M neighbours or `NONE`: all, or random ones where there are too many; S×M positions of their sources; and
        S×1 answers to whether there are too many.
    """
    degree = torch.where(sources == NONE, 0, plan.degree[sources.clamp_min(0)])
    ends = degree.cumsum(1)
    total = ends[:, -1:]
    crowded = total > plan.places
    place = torch.arange(plan.places, device=sources.device).expand(len(sources), -1)
    place = torch.where(crowded, mixed(place, seeds) % total.clamp_min(1), place)
    which = torch.searchsorted(ends, place, right=True).clamp_max(sources.shape[1] - 1)
    start = plan.crow[sources.clamp_min(0)] - (ends - degree)
    inside = place < total
    found = plan.col[torch.where(inside, start.gather(1, which) + place, 0)].long()
    return torch.where(inside, found, NONE), which, crowded


def _repeated(plan: DrawPlan, sources: Tensor, which: Tensor, found: Tensor, crowded: Tensor, wanted: Tensor) -> Tensor:
    """Tell which candidates of crowded rows are also neighbours of an earlier source than their own.

    A random place shows a node as often as there are sources it is a neighbour of. Counted for the first of them
    alone, all nodes are alike. On a CPU no more candidates are looked at than it takes.
    """
    if found.device.type != "cpu":
        return _has_earlier_source(plan, sources, which, found)
    repeated = torch.zeros_like(found, dtype=torch.bool)
    rows = crowded.squeeze(1).nonzero().squeeze(1)
    for start in range(0, found.shape[1], 2 * plan.size):
        part = slice(start, start + 2 * plan.size)
        repeated[rows, part] = _has_earlier_source(plan, sources[rows], which[rows, part], found[rows, part])
        suitable = (found[rows, : part.stop] != NONE) & ~repeated[rows, : part.stop]
        rows = rows[suitable.sum(1) < wanted[rows, 0]]
        if len(rows) == 0:
            break
    return repeated


def _has_earlier_source(plan: DrawPlan, sources: Tensor, which: Tensor, found: Tensor) -> Tensor:
    earlier = torch.arange(sources.shape[1], device=sources.device) < which[..., None]
    candidate, source = found.clamp_min(0)[..., None], sources.clamp_min(0)[:, None, :]
    return (earlier & _is_edge(plan, source, candidate)).any(2)


def _is_edge(plan: DrawPlan, source: Tensor, target: Tensor) -> Tensor:
    if not plan.has_keys:
        return _is_listed(plan, *torch.broadcast_tensors(source, target))
    wanted = source * len(plan.degree) + target
    if len(plan.edge_keys) == 0:
        return torch.zeros_like(wanted, dtype=torch.bool)
    position = torch.searchsorted(plan.edge_keys, wanted).clamp_max(len(plan.edge_keys) - 1)
    return plan.edge_keys[position] == wanted


def _is_listed(plan: DrawPlan, source: Tensor, target: Tensor) -> Tensor:
    """Tell by bisection whether each target is among the sorted neighbours of its source."""
    if len(plan.col) == 0:
        return torch.zeros_like(target, dtype=torch.bool)
    low, end = plan.crow[source], plan.crow[source + 1]
    high, last = end, len(plan.col) - 1
    for _ in range(plan.bisections):
        middle = (low + high) // 2
        below = plan.col[middle.clamp_max(last)] < target
        low, high = torch.where((low < high) & below, middle + 1, low), torch.where(below, high, middle)
    return (low < end) & (plan.col[low.clamp_max(last)] == target)
