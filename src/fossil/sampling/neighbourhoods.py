"""What a few nodes need of a graph: their neighbours, hop by hop, and the rows of the adjacency that join them.

A block holds B_0, the targets, within B_1, these and their neighbours, and so on to B_L, the rim. Numbered in that
order, the first rows of one CSR pattern are all that an inner hop reads, and their entries are in the first columns.

Where a fan-out f is given, a node with d > f neighbours shows f of them: the list is cut into f equal chunks and
one neighbour is drawn from each. Every neighbour is then expected f/d times, and its entries are weighed by d/f, so
that sums over neighbours are right on average. Where f does not divide d, a neighbour that two chunks share may be
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


class Pattern(NamedTuple):
    """A graph's edges in CSR form, wherever they lie.

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
    """Targets, their neighbours hop by hop, and the edges that lead from each hop to the next.

    Attributes:
        nodes: B_L in the graph's numbers, the targets first, then what each hop adds.
        sizes: |B_0|, ..., |B_L|.
        crow: |B_L-1|+1 row offsets of the entries.
        col: place of each entry's neighbour among `nodes`.
        weight: d/f of each entry's row, where only some neighbours were drawn; None where all are here.
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
        """Return the rows of an operator of the whole graph that the block holds, one matrix inside the other.

        Args:
            scaling: what its entries are.
            loops: whether each node is its own neighbour too, which counts in degrees.
            dtype: of the values, which are float32 numbers in any case.
        """
        crow, col, row, weight = self.crow, self.col, self.row, self.weight
        if loops:
            crow, col, row, weight = self._looped()
        inverse = (self.degree + int(loops)).double()
        inverse = torch.where(inverse > 0, 1 / (inverse.sqrt() if scaling == "symmetric" else inverse), 0)
        values = torch.ones(len(col), dtype=torch.float64, device=col.device)
        if scaling != "sum":
            values = inverse[row]
        if scaling == "symmetric":
            values = values * inverse[col]
        values = values.float() if weight is None else (values * weight).float()
        return _nested(SparseMatrix(crow, col, values.to(dtype), (self.sizes[-2], self.sizes[-1])), self.sizes)

    def lengths(self, *, loops: bool = False) -> Tensor:
        """Return how many entries each row has in the whole graph (|B_L-1|)."""
        return self.degree[: self.sizes[-2]] + int(loops)

    def _looped(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return offsets, columns, rows and weights with an entry of each node with itself at the head of its row."""
        rows = torch.arange(len(self.crow) - 1, device=self.crow.device)
        heads, place = self.crow[:-1] + rows, torch.arange(len(self.col), device=self.col.device) + self.row + 1
        total = len(self.col) + len(rows)

        def joined(own: Tensor, others: Tensor) -> Tensor:
            return others.new_empty(total).index_copy_(0, heads, own).index_copy_(0, place, others)

        crow = self.crow + torch.arange(len(self.crow), device=self.crow.device)
        weight = None if self.weight is None else joined(torch.ones_like(rows, dtype=self.weight.dtype), self.weight)
        return crow, joined(rows, self.col), joined(rows, self.row), weight


class Part(NamedTuple):
    """What some targets need of an operator that a block holds.

    Attributes:
        matrix: the operator, one matrix inside the other.
        nodes: places of its columns among those of the whole, the targets first.
        entries: places of its entries among those of the whole.
    """

    matrix: SparseMatrix
    nodes: Tensor
    entries: Tensor


def part_around(operator: SparseMatrix, targets: Tensor) -> Part:
    """Return what some targets, by their places, need of an operator that a block holds for all of its targets."""
    hops, inner = 1, operator.inner
    while inner is not None:
        hops, inner = hops + 1, inner.inner
    rows, columns = operator.shape
    rim = operator.crow[-1:].expand(columns - rows)  # whose neighbours are not in the block
    block = neighbourhood(Pattern(torch.cat([operator.crow, rim]), operator.col), targets, hops, None, None)
    entries, _ = entries_of(operator.crow, block.nodes[: block.sizes[-2]])
    found = SparseMatrix(block.crow, block.col, operator.values[entries], (block.sizes[-2], block.sizes[-1]))
    return Part(_nested(found, block.sizes), block.nodes, entries)


def neighbourhood(
    pattern: Pattern, targets: Tensor, hops: int, fan_out: int | None, random: torch.Generator | None
) -> Neighbourhood:
    """Return the block around some nodes, where the pattern lies.

    Args:
        pattern: the edges; row i lists whom i sees.
        targets: distinct nodes.
        hops: L, at least one.
        fan_out: f, neighbours of a node at most; all when None.
        random: what is drawn is drawn from it; None where there is no fan-out.
    """
    nodes, sizes = targets, [len(targets)]
    counts, columns, weights = [], [], []
    fresh = targets
    for _ in range(hops):
        shown, found, factors = _neighbours(pattern, fresh, fan_out, random)
        counts.append(shown)
        columns.append(found)
        weights.append(factors)
        near = torch.unique(found)
        fresh = near[~torch.isin(near, nodes, assume_unique=True)]
        nodes = torch.cat([nodes, fresh])
        sizes.append(len(nodes))
    in_order, order = nodes.sort()
    every = torch.cat(columns)
    col = order[torch.searchsorted(in_order, every)]
    crow = torch.cat([every.new_zeros(1), torch.cat(counts).cumsum(0)])
    weight = None if fan_out is None else torch.cat(weights)
    return Neighbourhood(nodes, tuple(sizes), crow, col, weight, pattern.degree(nodes))


def _neighbours(
    pattern: Pattern, nodes: Tensor, fan_out: int | None, random: torch.Generator | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many neighbours of each node are shown, these neighbours one node after the other, and their d/f."""
    start, degree = pattern.crow[nodes], pattern.degree(nodes)
    shown = degree if fan_out is None else degree.clamp_max(fan_out)
    ends = shown.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    owner = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), shown, output_size=total)
    place = torch.arange(total, device=nodes.device) - (ends - shown)[owner]
    weight = (degree.double() / shown.clamp_min(1))[owner]
    if fan_out is not None:
        # In float64, because float32 does not tell the neighbours of a large hub apart.
        jitter = torch.rand(total, generator=random, device=nodes.device, dtype=torch.float64)
        drawn = ((place + jitter) * weight).long()
        place = torch.where((degree > shown)[owner], torch.minimum(drawn, degree[owner] - 1), place)
    return shown, pattern.col[start[owner] + place].long(), weight


def _nested(matrix: SparseMatrix, sizes: tuple[int, ...]) -> SparseMatrix:
    """Return the matrix of the outermost hop with those of the inner ones within it."""
    inner = None
    for rows, columns in pairwise(sizes[:-1]):
        found = matrix.leading(rows, columns)
        inner = SparseMatrix(found.crow, found.col, found.values, found.shape, inner)
    return SparseMatrix(matrix.crow, matrix.col, matrix.values, matrix.shape, inner)
