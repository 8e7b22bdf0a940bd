"""What a few nodes need of a graph: their neighbours, hop by hop, and the rows of the adjacency that join them.

A block of L hops holds the nodes B_0, the targets, within B_1, these and their neighbours, and so on to B_L. Its one
matrix has a row for each node of B_L-1 and a column for each of B_L. Nodes are numbered hop by hop, so that what the
next layer multiplies with, rows B_L-2 and columns B_L-1, is the upper left corner: its entries are the first ones.

Where a fan-out f is given, f neighbours are sampled of a node that has d > f: the list is cut into f equal parts and
one neighbour is drawn from each. Every neighbour is then expected f/d times, and its entries are weighed by d/f, so
that sums over neighbours are right on average. Where f does not divide d, a neighbour that two parts share may be
drawn from both, and has two entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from fossil.ops.sparse import SparseMatrix, entries_of

Scaling = Literal["sum", "mean", "symmetric"]
"""What an entry of an operator is: one, one by the degree of its row, or one by the root of both degrees."""


class Adjacency(NamedTuple):
    """A graph's edges in CSR form, without values, wherever they lie.

    Attributes:
        crow: N+1 row offsets, int64.
        col: E neighbours, sorted within each row, int32 or int64.
    """

    crow: Tensor
    col: Tensor

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.crow) - 1

    def degree(self, nodes: Tensor) -> Tensor:
        """Return how many neighbours each node has."""
        return self.crow[nodes + 1] - self.crow[nodes]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """A block: targets, their neighbours hop by hop, and the edges that lead from each hop to the next.

    Attributes:
        nodes: B_L in the graph's numbers, the targets first, then what each hop adds.
        sizes: |B_0|, ..., |B_L|.
        crow: |B_L-1|+1 row offsets of the entries.
        col: place of each entry's neighbour among `nodes`.
        weight: d/f of each entry's row, where only some neighbours were sampled; None where all are here.
        degree: d of each of `nodes` in the whole graph.
    """

    nodes: Tensor
    sizes: tuple[int, ...]
    crow: Tensor
    col: Tensor
    weight: Tensor | None
    degree: Tensor

    @cached_property
    def row(self) -> Tensor:
        """Place of each entry's own node among `nodes`."""
        rows = torch.arange(len(self.crow) - 1, device=self.crow.device)
        return torch.repeat_interleave(rows, self.crow.diff(), output_size=len(self.col))

    def operator(self, scaling: Scaling, *, loops: bool = False, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        """Return the operator's rows of B_L-1, |B_L-1|×|B_L|, and in it those of the next layers (`SparseMatrix.next`).

        Args:
            scaling: what its entries are.
            loops: whether each node is its own neighbour too, which counts in degrees.
            dtype: of the values, which are float32 numbers in any case.
        """
        crow, col, row, weight = self.crow, self.col, self.row, self.weight
        if loops:
            crow, col, row, weight = self._with_self_loops()
        inverse = (self.degree + int(loops)).double()
        inverse = torch.where(inverse > 0, 1 / (inverse.sqrt() if scaling == "symmetric" else inverse), 0)
        values = torch.ones(len(col), dtype=torch.float64, device=col.device)
        if scaling != "sum":
            values = inverse[row]
        if scaling == "symmetric":
            values = values * inverse[col]
        values = values.float() if weight is None else (values * weight).float()
        return _nested(SparseMatrix(crow, col, values.to(dtype), (self.sizes[-2], self.sizes[-1])), self.sizes)

    def row_degree(self, *, loops: bool = False) -> Tensor:
        """Return how many entries each row of an operator has in the whole graph (|B_L-1|)."""
        return self.degree[: self.sizes[-2]] + int(loops)

    def _with_self_loops(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return offsets, columns, rows and weights with an entry of each node with itself at the head of its row."""
        rows = torch.arange(len(self.crow) - 1, device=self.crow.device)
        loops, edges = self.crow[:-1] + rows, torch.arange(len(self.col), device=self.col.device) + self.row + 1
        total = len(self.col) + len(rows)

        def merged(of_loops: Tensor, of_edges: Tensor) -> Tensor:
            return of_edges.new_empty(total).index_copy_(0, loops, of_loops).index_copy_(0, edges, of_edges)

        crow = self.crow + torch.arange(len(self.crow), device=self.crow.device)
        weight = None if self.weight is None else merged(torch.ones_like(rows, dtype=self.weight.dtype), self.weight)
        return crow, merged(rows, self.col), merged(rows, self.row), weight


class Part(NamedTuple):
    """What some of a block's targets need of an operator.

    Attributes:
        matrix: the operator's rows, and in it those of the next layers.
        nodes: places of its columns among those of the whole, the targets first.
        entries: places of its entries among those of the whole.
    """

    matrix: SparseMatrix
    nodes: Tensor
    entries: Tensor


def part_around(operator: SparseMatrix, targets: Tensor) -> Part:
    """Return what some targets, by their places, need of a block's operator."""
    hops, inner = 1, operator.inner
    while inner is not None:
        hops, inner = hops + 1, inner.inner
    rows, columns = operator.shape
    no_entries = operator.crow[-1:].expand(columns - rows)  # of the last nodes, whose neighbours are not in the block
    adjacency = Adjacency(torch.cat([operator.crow, no_entries]), operator.col)
    block = neighbourhood(adjacency, targets, hops, None, None)
    entries, _ = entries_of(operator.crow, block.nodes[: block.sizes[-2]])
    matrix = SparseMatrix(block.crow, block.col, operator.values[entries], (block.sizes[-2], block.sizes[-1]))
    return Part(_nested(matrix, block.sizes), block.nodes, entries)


def neighbourhood(
    adjacency: Adjacency, targets: Tensor, hops: int, fan_out: int | None, random: torch.Generator | None
) -> Neighbourhood:
    """Return the block around some nodes, where the adjacency lies.

    Args:
        adjacency: the edges; row i lists the neighbours of i.
        targets: distinct nodes.
        hops: L, at least one.
        fan_out: f, neighbours of a node at most; all when None.
        random: what neighbours are sampled with; None where there is no fan-out.
    """
    nodes, sizes = targets, [len(targets)]
    counts, neighbours, weights = [], [], []
    frontier = targets
    for _ in range(hops):
        count, neighbour, weight = _sampled_neighbours(adjacency, frontier, fan_out, random)
        counts.append(count)
        neighbours.append(neighbour)
        weights.append(weight)
        reached = torch.unique(neighbour)
        frontier = reached[~torch.isin(reached, nodes, assume_unique=True)]
        nodes = torch.cat([nodes, frontier])
        sizes.append(len(nodes))
    in_order, order = nodes.sort()
    of_all_hops = torch.cat(neighbours)
    col = order[torch.searchsorted(in_order, of_all_hops)]
    crow = torch.cat([of_all_hops.new_zeros(1), torch.cat(counts).cumsum(0)])
    sampled = None if fan_out is None else torch.cat(weights)
    return Neighbourhood(nodes, tuple(sizes), crow, col, sampled, adjacency.degree(nodes))


def _sampled_neighbours(
    adjacency: Adjacency, nodes: Tensor, fan_out: int | None, random: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many neighbours of each node are sampled, these one node after the other, and their weights d/f."""
    start, degree = adjacency.crow[nodes], adjacency.degree(nodes)
    count = degree if fan_out is None else degree.clamp_max(fan_out)
    ends = count.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    owner = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), count, output_size=total)
    place = torch.arange(total, device=nodes.device) - (ends - count)[owner]
    weight = (degree.double() / count.clamp_min(1))[owner]
    if fan_out is not None:
        # In float64, because float32 does not tell the neighbours of a large hub apart.
        jitter = torch.rand(total, generator=random, device=nodes.device, dtype=torch.float64)
        drawn = ((place + jitter) * weight).long()
        place = torch.where((degree > count)[owner], torch.minimum(drawn, degree[owner] - 1), place)
    return count, adjacency.col[start[owner] + place].long(), weight


def _nested(matrix: SparseMatrix, sizes: tuple[int, ...]) -> SparseMatrix:
    """Return the matrix of the outermost hop with those of the inner ones within it."""
    inner = None
    for rows, columns in pairwise(sizes[:-1]):
        corner = matrix.leading(rows, columns)
        inner = SparseMatrix(corner.crow, corner.col, corner.values, corner.shape, inner)
    return SparseMatrix(matrix.crow, matrix.col, matrix.values, matrix.shape, inner)
