"""The node loss by GPU kernels. Needs Triton: imported only where it can be used."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.accelerate import power_of_two
from fossil.nn._affinities import Affinities
from fossil.nn._infonce_kernel import pair_losses_kernel, tile_sums_kernel, tile_weights_kernel, unit_of_exponents
from fossil.nn._infonce_strips import StripAffinities, whole_tiles
from fossil.nn._row_kernel import pair_gradient_kernel, unit_pairs_kernel
from fossil.nn.precision import Products, products_in
from fossil.nn.unit import SHORTEST

TILE_PART = 64
WEIGHT_PART = (16, 128)
LOSSES = 1024
"""Nodes whose losses one program adds."""


class KernelInfoNCE(torch.autograd.Function):
    """Mean over the rows r of Z = [U; V] of log Σ_{c≠r} exp(z_r·z_c/τ) - z_r·z_pair(r)/τ, from the vectors of U, V."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        count: Tensor | None,
        temperature: float,
        products: Products,
        tile_rows: int | None,
    ) -> Tensor:
        ctx.settings = temperature, products, tile_rows
        ctx.kind = torch.promote_types(first.dtype, second.dtype)
        with torch.cuda.device_of(first), products_in(products, first.device):  # type: ignore[no-untyped-call]
            pairs = unit_pairs(first, second, count, products)
            matrix = _matrix(pairs.unit, pairs.half, pairs.narrow, count, *ctx.settings)
            totals = matrix.row_sums(keep=any(ctx.needs_input_grad[:2]))
            ctx.kept = matrix.kept
            loss, share = _mean_loss(totals, pairs.cosine, count, temperature)
        ctx.save_for_backward(pairs.unit, pairs.half, pairs.narrow, pairs.length, share, count)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        unit, half, narrow, length, share, count = ctx.saved_tensors
        temperature, products, _ = ctx.settings
        total, width = unit.shape
        with (
            torch.cuda.device_of(unit),  # type: ignore[no-untyped-call]
            torch.autocast(unit.device.type, enabled=False),
            products_in(products, unit.device),
        ):
            matrix = _matrix(unit, half, narrow, count, *ctx.settings)
            # Weights take its place, so that another backward pass has to compute it again.
            matrix.kept, ctx.kept = ctx.kept, None
            pull = matrix.pull(share)
            result = pull if ctx.kind == pull.dtype else torch.empty_like(pull, dtype=ctx.kind)
            pair_gradient_kernel[(total // 2,)](
                result,
                pull,
                unit,
                length,
                gradients[0],
                unit if count is None else count,
                total // 2,
                1 / (2 * temperature),
                WIDTH=width,
                COUNTED=count is not None,
                **row_launch(width),
            )
        return result[: total // 2], result[total // 2 :], None, None, None, None


class UnitPairs(NamedTuple):
    """The directions of both views.

    Attributes:
        unit: Z, the unit vectors of both views one below the other, 2N×D; zero where a row takes no part.
        half: Z in float16, for cosines; None for `float32` products. Of numbers up to one it holds as many digits as
            TF32, and is multiplied twice as fast.
        narrow: Z in bfloat16, for sums with weights of any size, with rows of zeros to the end of the last tile; None
            for `float32` products.
        length: lengths, -1 for vectors that are too short, 2N.
        cosine: of the two vectors of each node, N.
    """

    unit: Tensor
    half: Tensor | None
    narrow: Tensor | None
    length: Tensor
    cosine: Tensor


def unit_pairs(first: Tensor, second: Tensor, count: Tensor | None, products: Products) -> UnitPairs:
    """Return the directions of two views, N×D each, as the products take them."""
    nodes, width = first.shape
    unit = torch.empty(2 * nodes, width, device=first.device)
    half = narrow = None
    if products != "float32":
        half = torch.empty_like(unit, dtype=torch.float16)
        narrow = unit.new_empty(whole_tiles(2 * nodes), width, dtype=torch.bfloat16)
        narrow[2 * nodes :].zero_()
    length, cosine = unit.new_empty(2 * nodes), unit.new_empty(nodes)
    unit_pairs_kernel[(nodes,)](
        unit,
        unit if half is None else half,
        unit if narrow is None else narrow,
        length,
        cosine,
        first.contiguous(),
        second.contiguous(),
        unit if count is None else count,
        nodes,
        SHORTEST,
        WIDTH=width,
        COUNTED=count is not None,
        NARROW=narrow is not None,
        **row_launch(width),
    )
    return UnitPairs(unit, half, narrow, length, cosine)


def row_launch(width: int) -> dict[str, int]:
    """Return the block and the warps of kernels with a program for each row: a thread reads 16 bytes."""
    block = power_of_two(width)
    return {"BLOCK": block, "num_warps": min(max(block // 128, 1), 8)}


def _mean_loss(totals: Tensor, cosine: Tensor, count: Tensor | None, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the loss and the reciprocals of the row sums, zero where a row takes no part."""
    nodes = len(cosine)
    share, losses = torch.empty_like(totals), totals.new_empty(-(-nodes // LOSSES))
    pair_losses_kernel[(len(losses),)](
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
    unit: Tensor,
    half: Tensor | None,
    narrow: Tensor | None,
    count: Tensor | None,
    temperature: float,
    products: Products,
    tile_rows: int | None,
) -> TileAffinities | StripAffinities:
    """Return the matrix of all pairs, computed as the precision allows."""
    if half is None or narrow is None:
        return TileAffinities(unit, count, temperature, products, tile_rows)
    return StripAffinities(half, narrow, count, temperature, tile_rows)


class TileAffinities(Affinities):
    """`Affinities` in full float32: products by cuBLAS, and one kernel for what is done with a tile of them."""

    def row_sums(self, *, keep: bool = False) -> Tensor:
        """Return the 2N sums of the rows over all columns that take part; nothing is kept."""
        return super().row_sums()

    def _complete(self, tile: Tensor, top: slice, left: slice) -> None:
        """Leave the exponentials to the kernels."""

    def _tile_sums(self, tile: Tensor, top: slice, left: slice) -> tuple[Tensor, Tensor | None]:
        height, width = tile.shape
        grid = -(-height // TILE_PART), -(-width // TILE_PART)
        rows, columns = tile.new_empty(grid[1], height), tile.new_empty(grid[0], width)
        tile_sums_kernel[grid](
            rows,
            columns,
            tile,
            self.unit if self.count is None else self.count,
            len(self.unit) // 2,
            top.start,
            left.start,
            height,
            width,
            tile.stride(0),
            unit_of_exponents(self.temperature),
            COUNTED=self.count is not None,
            TILE=TILE_PART,
            num_warps=8,
            enable_fp_fusion=True,
        )
        return rows.sum(0), columns.sum(0) if top != left else None

    def _tile_weights(self, tile: Tensor, top: slice, left: slice, share: Tensor) -> Tensor:
        height, width = tile.shape
        tile_weights_kernel[(-(-height // WEIGHT_PART[0]), -(-width // WEIGHT_PART[1]))](
            tile,
            share,
            top.start,
            left.start,
            height,
            width,
            tile.stride(0),
            unit_of_exponents(self.temperature),
            ROWS=WEIGHT_PART[0],
            COLUMNS=WEIGHT_PART[1],
            num_warps=4,
            enable_fp_fusion=True,
        )
        return tile
