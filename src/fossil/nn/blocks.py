"""A block of a graph as graph convolutions with self-loops read it, whole or with edges dropped.

The view of a graph that drops edges is scaled by the degrees that are left. A block does not show every edge: of its
rim none, and with a fan-out only some of a hub's. Each edge is dropped on its own, so that how many of the others are
left is a binomial number, whatever happens to those that are shown; it is drawn as such. A view of a block then has the
distribution that the same rows have in a view of the whole graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.batches import PartsOfGraph
from fossil.sampling.neighbourhoods import Neighbourhood


@dataclass(frozen=True, eq=False)
class LoopedBlock:
    """Features and rows of A + I around some nodes.

    Attributes:
        features: X of all nodes of the block.
        adjacency: rows of A, one matrix inside the other, hop by hop; ones.
        looped: rows of A + I likewise, columns sorted within each row; d/f in place of one where a node shows f of its
            d neighbours.
        unseen: how many neighbours of each node the block does not show.
        num_nodes: how many nodes it is around.
    """

    features: FeatureMatrix
    adjacency: SparseMatrix
    looped: SparseMatrix
    unseen: Tensor
    num_nodes: int

    @classmethod
    def around(cls, graph: PartsOfGraph, nodes: Tensor, hops: int, random: torch.Generator) -> LoopedBlock:
        """Return what so many convolutions read to encode some distinct nodes."""
        block = graph.around(nodes, "out", hops, random)
        shown = torch.zeros_like(block.degree)
        shown[: len(block.crow) - 1] = block.crow.diff()
        features = graph.store.features.take(block.nodes, graph.device, graph.dtype)
        plain = block.operator("sum", dtype=graph.dtype)
        looped = _sorted(block.operator("sum", loops=True, dtype=graph.dtype), block)
        return cls(features, plain, looped, block.degree - shown, len(nodes))

    @property
    def innermost(self) -> SparseMatrix:
        """The rows of A that the block is around, the columns those and their neighbours."""
        matrix = self.adjacency
        while matrix.inner is not None:
            matrix = matrix.inner
        return matrix

    def propagation(self) -> SparseMatrix:
        """Return D^-1/2 (A + I) D^-1/2 with the degrees of the whole graph."""
        return self._scaled(self.looped.values, torch.ones_like(self.looped.values), self.unseen)

    def dropped(self, probability: float, random: torch.Generator) -> SparseMatrix:
        """Return the same after each edge of the graph was dropped with `probability`, self-loops never.

        See `nn.augment.drop_edges`, which it is where the block is the whole graph.
        """
        if probability == 0:
            return self.propagation()
        looped, unseen = self.looped, self.unseen
        drawn = torch.rand(looped.num_entries, generator=random, device=random.device)
        kept = (drawn >= probability) | (looped.row == looped.col)
        if bool((unseen > 0).any()):
            share = torch.full_like(unseen, 1 - probability, dtype=torch.float32)
            unseen = torch.binomial(unseen.float(), share, generator=random)
        counted = kept.to(looped.values.dtype)
        return self._scaled(looped.values * counted, counted, unseen)

    def _scaled(self, values: Tensor, counted: Tensor, unseen: Tensor) -> SparseMatrix:
        """Return the values over the roots of both degrees: the entries of a row that count, and what is not shown."""
        looped = self.looped
        degree = unseen.to(values.dtype).index_add(0, looped.row, counted)
        degree[looped.shape[0] :] += 1  # a node of the rim has no row here, and is its own neighbour all the same
        scale = degree.rsqrt()
        return looped.with_values(scale[looped.row] * values * scale[looped.col])


def _sorted(looped: SparseMatrix, block: Neighbourhood) -> SparseMatrix:
    """Return the same with columns sorted within each row, so that draws for entries are those of the whole graph."""
    order = torch.argsort(looped.row * block.sizes[-1] + looped.col)
    col, values = looped.col[order], looped.values[order]

    def nested(matrix: SparseMatrix) -> SparseMatrix:
        inner = None if matrix.inner is None else nested(matrix.inner)
        entries = matrix.num_entries
        return SparseMatrix(matrix.crow, col[:entries], values[:entries], matrix.shape, inner)

    return nested(looped)
