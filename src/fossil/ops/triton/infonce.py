"""The node loss by GPU kernels: how its parts follow each other. Needs Triton."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.ops.affinities import Affinities
from fossil.ops.precision import Products, products_in
from fossil.ops.triton.infonce_kernels import (
    pair_losses_kernel,
    tile_sums_kernel,
    tile_weights_kernel,
    unit_of_exponents,
)
from fossil.ops.triton.infonce_pairs import UnitPairs, pair_gradient, unit_pairs
from fossil.ops.triton.infonce_strips import StripAffinities, whole_tiles
from fossil.ops.triton.jit import ceil_div, launch

TILE_PART = 64
WEIGHT_PART = (16, 128)
LOSSES = 1024
"""Nodes whose losses one program adds."""


@dataclass(frozen=True, eq=False)
class State:
    """What the gradient needs of the forward pass.

    Attributes:
        pairs: the directions of both views.
        share: reciprocals of the row sums, 2N; zero where a row takes no part.
        count: how many rows of either view take part; all when None.
        kept: the matrix itself where it is small; its weights take its place, so that it serves once.
    """

    pairs: UnitPairs
    share: Tensor
    count: Tensor | None
    kept: Tensor | None


def node_contrast(
    views: tuple[Tensor, Tensor],
    count: Tensor | None,
    temperature: float,
    products: Products,
    tile_rows: int | None,
    shortest: float,
    *,
    keep: bool,
) -> tuple[Tensor, State]:
    """Return the loss of two views (N×D each), and what its gradient needs; `keep` the matrix for it if it is small."""
    first, second = views
    with products_in(products, first.device):
        padded_rows = None if products == "float32" else whole_tiles(2 * len(first))
        pairs = unit_pairs(first, second, count, shortest, padded_rows)
        matrix = _matrix(pairs, count, temperature, products, tile_rows)
        totals = matrix.row_sums(keep=keep)
        loss, share = _mean_loss(totals, pairs.cosine, count, temperature)
    return loss, State(pairs, share, count, matrix.kept if isinstance(matrix, StripAffinities) else None)


def gradients(
    upstream: Tensor, state: State, temperature: float, products: Products, tile_rows: int | None, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the gradients of both views (N×D of dtype `kind`), given that of the loss."""
    pairs, count = state.pairs, state.count
    nodes, device = len(pairs.cosine), pairs.unit.device
    with torch.autocast(device.type, enabled=False), products_in(products, device):
        matrix = _matrix(pairs, count, temperature, products, tile_rows)
        if isinstance(matrix, StripAffinities):
            matrix.kept = state.kept
        result = pair_gradient(matrix.pull(state.share), pairs, upstream, count, temperature, kind)
    return result[:nodes], result[nodes:]


def _mean_loss(totals: Tensor, cosine: Tensor, count: Tensor | None, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the loss and the reciprocals of the row sums, zero where a row takes no part."""
    nodes = len(cosine)
    share, losses = torch.empty_like(totals), totals.new_empty(ceil_div(nodes, LOSSES))
    launch(
        pair_losses_kernel,
        (len(losses),),
        losses,
        share,
        totals,
        cosine,
        totals if count is None else count,
        nodes,
        1 / temperature,
        COUNTED=count is not None,
        BLOCK=LOSSES,
    )
    return losses.sum(), share


def _matrix(
    pairs: UnitPairs, count: Tensor | None, temperature: float, products: Products, tile_rows: int | None
) -> TileAffinities | StripAffinities:
    """Return the matrix of all pairs, computed as the precision allows."""
    if pairs.half is None or pairs.narrow is None:
        return TileAffinities(pairs.unit, count, temperature, products, tile_rows)
    return StripAffinities(pairs.half, pairs.narrow, count, temperature, tile_rows)


class TileAffinities(Affinities):
    """`Affinities` in full float32: products by cuBLAS, and one kernel for what is done with a tile of them."""

    def row_sums(self, *, keep: bool = False) -> Tensor:
        """Return the 2N sums of the rows over all columns that take part; nothing is kept."""
        return super().row_sums()

    def _complete(self, tile: Tensor, top: slice, left: slice) -> None:
        """Leave the exponentials to the kernels."""

    def _tile_sums(self, tile: Tensor, top: slice, left: slice) -> tuple[Tensor, Tensor | None]:
        height, width = tile.shape
        grid = ceil_div(height, TILE_PART), ceil_div(width, TILE_PART)
        rows, columns = tile.new_empty(grid[1], height), tile.new_empty(grid[0], width)
        launch(
            tile_sums_kernel,
            grid,
            rows,
            columns,
            tile,
            self.unit if self.count is None else self.count,
            len(self.unit) // 2,
            *self._place(tile, top, left),
            COUNTED=self.count is not None,
            TILE=TILE_PART,
            num_warps=8,
        )
        return rows.sum(0), columns.sum(0) if top != left else None

    def _tile_weights(self, tile: Tensor, top: slice, left: slice, share: Tensor) -> Tensor:
        grid = ceil_div(tile.shape[0], WEIGHT_PART[0]), ceil_div(tile.shape[1], WEIGHT_PART[1])
        constants = {"ROWS": WEIGHT_PART[0], "COLUMNS": WEIGHT_PART[1], "num_warps": 4}
        launch(tile_weights_kernel, grid, tile, share, *self._place(tile, top, left), **constants)
        return tile

    def _place(self, tile: Tensor, top: slice, left: slice) -> tuple[float, ...]:
        """Return where a tile starts, its sides and its stride, and the unit of exponents."""
        return top.start, left.start, *tile.shape, tile.stride(0), unit_of_exponents(self.temperature)
