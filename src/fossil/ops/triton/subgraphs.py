"""Subgraph sampling as one GPU program per anchor, and adjacency blocks as one per subgraph. Needs Triton.

The same draw as in `fossil.ops.subgraphs`, from the same seeds; only the order of the nodes in a row differs.
"""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from fossil.ops.subgraphs import DrawPlan, Frontiers
from fossil.ops.triton.jit import block_size, jit, kernel, launch

_WORST = tl.constexpr(0x7FFFFFFFFFFFFFFF)
_LOW = tl.constexpr(0xFFFFFFFF)


def draw(plan: DrawPlan, frontiers: Frontiers, rows: Tensor, anchors: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `ops.subgraphs.draw_subgraphs` does, in one launch; `rows` are those of S anchors in `frontiers`."""
    size, block = plan.size, block_size(plan.places)
    nodes = torch.empty(len(anchors), size, dtype=torch.int64, device=anchors.device)
    filled = torch.empty(len(anchors), dtype=torch.bool, device=anchors.device)
    if len(anchors):
        launch(
            sample_kernel,
            (len(anchors),),
            nodes,
            filled.view(torch.int8),
            anchors,
            rows,
            seeds,
            frontiers.sources,
            frontiers.kept.view(torch.int8),
            frontiers.drawn,
            frontiers.filled.view(torch.int8),
            plan.crow,
            plan.col,
            SIX_HOP=plan.six_hop,
            SIZE=size,
            WIDTH=block_size(size),
            PLACES=plan.places,
            BLOCK=block,
            STEPS=plan.bisections,
            num_warps=max(1, min(8, block // 256)),
        )
    return nodes, filled


def adjacency(plan: DrawPlan, nodes: Tensor) -> Tensor:
    """Return the adjacency blocks of subgraphs (S×K nodes): S×K×K float32."""
    count, size = nodes.shape
    blocks = torch.empty(count, size, size, device=nodes.device)
    constants = {"SIZE": size, "WIDTH": block_size(size), "STEPS": plan.bisections}
    launch(adjacency_kernel, (count,), blocks, nodes, plan.crow, plan.col, **constants)
    return blocks


@jit
def _mixed(numbers: tl.tensor, seed: tl.tensor) -> tl.tensor:
    """Return 63 pseudo-random bits, see `fossil.ops.distinct.mixed`."""
    word = numbers * -0x61C8864680B583EB + seed
    word = (word ^ ((word >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    word = (word ^ ((word >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return ((word ^ ((word >> 31) & 0x1FFFFFFFF)) >> 1) & _WORST


@jit
def _keys(numbers: tl.tensor, seed: tl.tensor) -> tl.tensor:
    return (((_mixed(numbers, seed) >> 40) << 32) | numbers) << 8


@jit
def _is_neighbour(
    col_pointer: tl.tensor, start: tl.tensor, degree: tl.tensor, node: tl.tensor, asked: tl.tensor, STEPS: tl.constexpr
) -> tl.tensor:
    """Tell whether `node` is among the sorted neighbours from `start` on, by bisection, where it is asked."""
    low = start + node * 0
    high = low + degree
    end = high
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ = asked & (low < high)
        below = tl.load(col_pointer + middle, mask=open_, other=0) < node
        high = tl.where(open_ & (below == 0), middle, high)
        low = tl.where(open_ & below, middle + 1, low)
    there = asked & (low < end)
    return there & (tl.load(col_pointer + low, mask=there, other=-1) == node)


@kernel()
def sample_kernel(
    nodes_pointer: tl.tensor,
    filled_pointer: tl.tensor,
    anchor_pointer: tl.tensor,
    frontier_pointer: tl.tensor,
    seed_pointer: tl.tensor,
    source_pointer: tl.tensor,
    kept_pointer: tl.tensor,
    drawn_pointer: tl.tensor,
    fillable_pointer: tl.tensor,
    crow_pointer: tl.tensor,
    col_pointer: tl.tensor,
    SIX_HOP: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
    STEPS: tl.constexpr,
) -> None:
    """Draw the subgraph of anchor number `program_id(0)`.

    Args:
        nodes_pointer: S×K nodes to write.
        filled_pointer: S answers to write.
        anchor_pointer: S anchors.
        frontier_pointer: S rows of the anchors in the frontiers.
        seed_pointer: S×3 seeds.
        source_pointer: N×(K-1), and the next three, N each: the frontiers.
        kept_pointer: whether the sources belong.
        drawn_pointer: how many to draw.
        fillable_pointer: whether the subgraph can be filled.
        crow_pointer: N+1 offsets.
        col_pointer: E neighbours.
        SIX_HOP: whether the rule is the released one.
        SIZE: K.
        WIDTH: a power of two, at least K.
        PLACES: how many neighbours of the sources are looked at.
        BLOCK: a power of two, at least PLACES.
        STEPS: bisections that settle any list of neighbours.
    """
    row = tl.program_id(0)
    anchor = tl.load(anchor_pointer + row)
    frontier = tl.load(frontier_pointer + row)
    lanes = tl.arange(0, WIDTH)
    sources = tl.load(source_pointer + frontier * (SIZE - 1) + lanes, mask=lanes < SIZE - 1, other=-1)
    there = sources >= 0
    start = tl.load(crow_pointer + sources, mask=there, other=0)
    degree = tl.load(crow_pointer + sources + 1, mask=there, other=0) - start
    ends = tl.cumsum(degree, 0)
    total = tl.sum(degree, 0)
    belongs = tl.load(kept_pointer + frontier) != 0
    crowded = total > PLACES

    place = tl.arange(0, BLOCK).to(tl.int64)
    inside = place < PLACES
    if crowded:
        place = _mixed(place, tl.load(seed_pointer + 3 * row)) % total
    inside = inside & (place < total)
    address = place * 0
    which = place * 0
    for w in range(SIZE - 1):
        end = tl.sum(tl.where(lanes == w, ends, 0), 0)
        begin = end - tl.sum(tl.where(lanes == w, degree, 0), 0)
        mine = (place >= begin) & (place < end)
        which = tl.where(mine, w, which)
        address = tl.where(mine, tl.sum(tl.where(lanes == w, start, 0), 0) + place - begin, address)
    found = tl.load(col_pointer + address, mask=inside, other=-1).to(tl.int64)
    if belongs:
        for w in range(SIZE - 1):
            found = tl.where(found == tl.sum(tl.where(lanes == w, sources, 0), 0), -1, found)
    # In the released rule the anchor may be drawn from a later hop, and takes a place until it is removed.
    if (not SIX_HOP) | (belongs == 0):
        found = tl.where(found == anchor, -1, found)
    keys = tl.where(found < 0, _WORST, _keys(found, tl.load(seed_pointer + 3 * row + 1)) | which)

    wanted = tl.load(drawn_pointer + frontier)
    drawn = tl.full((WIDTH,), -1, tl.int64)
    number = wanted * 0
    best = tl.min(keys, 0)
    while (number < wanted) & (best != _WORST):
        node = (best >> 8) & _LOW
        fresh = best >= 0
        if crowded:
            # A random place shows a node once for each of its sources; it counts for the first of them alone.
            asked = lanes < (best & 255)
            fresh = tl.max(_is_neighbour(col_pointer, start, degree, node, asked, STEPS).to(tl.int32), 0) == 0
        drawn = tl.where(fresh & (lanes == number), node, drawn)
        number += fresh.to(tl.int64)
        best = tl.min(tl.where((keys >> 8) > (best >> 8), keys, _WORST), 0)

    last_seed = tl.load(seed_pointer + 3 * row + 2)
    first = belongs & there & (sources != anchor)
    second = (drawn >= 0) & (drawn != anchor)
    first_keys = tl.where(first, _keys(sources, last_seed), -1)
    second_keys = tl.where(second, _keys(drawn, last_seed), -1)
    if tl.sum(first.to(tl.int32), 0) + tl.sum(second.to(tl.int32), 0) == SIZE:
        # The anchor is not among them: one has to go.
        worst = tl.maximum(tl.max(first_keys, 0), tl.max(second_keys, 0))
        first = first & (first_keys != worst)
        second = second & (second_keys != worst)
    known = tl.sum(first.to(tl.int32), 0)
    complete = known + tl.sum(second.to(tl.int32), 0) == SIZE - 1
    filled = tl.where(complete, tl.load(fillable_pointer + frontier), 0)
    out = nodes_pointer + row * SIZE
    # A row that is not filled means nothing, but must name nodes that there are.
    limit = tl.where(filled == 0, 0, SIZE - 1)
    tl.store(out + lanes, tl.zeros_like(sources) + anchor, mask=(lanes < SIZE) & (lanes >= limit))
    first_place = tl.where(first, tl.cumsum(first.to(tl.int32), 0) - 1, SIZE)
    second_place = tl.where(second, known + tl.cumsum(second.to(tl.int32), 0) - 1, SIZE)
    tl.store(out + first_place, sources, mask=first_place < limit)
    tl.store(out + second_place, drawn, mask=second_place < limit)
    tl.store(filled_pointer + row, filled)


@kernel()
def adjacency_kernel(
    block_pointer: tl.tensor,
    nodes_pointer: tl.tensor,
    crow_pointer: tl.tensor,
    col_pointer: tl.tensor,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
) -> None:
    """Write the K×K adjacency block of subgraph number `program_id(0)`, zeros and ones in float32.

    Args:
        block_pointer: S×K×K blocks to write.
        nodes_pointer: S×K nodes.
        crow_pointer: N+1 offsets.
        col_pointer: E neighbours.
        SIZE: K.
        WIDTH: a power of two, at least K.
        STEPS: bisections that settle any list of neighbours.
    """
    row = tl.program_id(0)
    lanes = tl.arange(0, WIDTH)
    nodes = tl.load(nodes_pointer + row * SIZE + lanes, mask=lanes < SIZE, other=0)
    start = tl.load(crow_pointer + nodes)
    degree = tl.load(crow_pointer + nodes + 1) - start
    inside = (lanes < SIZE)[:, None] & (lanes < SIZE)[None, :]
    found = _is_neighbour(col_pointer, start[:, None], degree[:, None], nodes[None, :], inside, STEPS)
    places = row * SIZE * SIZE + lanes[:, None] * SIZE + lanes[None, :]
    tl.store(block_pointer + places, found.to(tl.float32), mask=inside)
