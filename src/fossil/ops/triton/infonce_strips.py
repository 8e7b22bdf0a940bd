"""The matrix behind the node loss in strips of rows, by GPU kernels. Needs Triton."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from fossil.ops.affinities import can_be_kept, multiply
from fossil.ops.triton.infonce_kernels import (
    band_sums_kernel,
    kept_weights_kernel,
    strip_weights_kernel,
    unit_of_exponents,
)
from fossil.ops.triton.jit import ceil_div, launch

BANDS = 128
"""Bands of tiles whose sums are kept apart at a time: 1 KiB for each row of Z."""

BAND_TILE = 128

# Two programs share a multiprocessor of an H200, so that one multiplies while another exponentiates. With 8 warps each
# took 12 % longer, and 16 % where strips are kept.
BAND_LAUNCH: dict[str, Any] = {"num_warps": 4, "num_stages": 3}
BAND_DEPTH = 64

KEPT_TILE, KEPT_WARPS = 64, 4
"""Of the pass over kept strips, which does nothing but read and write."""

MOST_STRIP_ROWS = 4096
"""With D = 512 their sums are 128 blocks of 128×128, for the 132 multiprocessors of an H200."""
FEWEST_STRIPS, UNDIVIDED_ROWS = 3, 3000
"""Symmetry halves the products of all but the diagonal blocks, which is not worth it for so few rows of Z."""


class StripAffinities:
    """The matrix of `Affinities` for narrower products: row sums in one kernel, the gradient a strip at a time.

    A strip has some rows from its diagonal block on, rounded to bfloat16. What is to the right of the block also stands
    for what, mirrored, is below it. From 1,501 to 8,192 nodes the strips can be kept from the row sums to the gradient;
    others are computed again.
    """

    def __init__(
        self, half: Tensor, narrow: Tensor, count: Tensor | None, temperature: float, tile_rows: int | None
    ) -> None:
        """Take Z.

        Args:
            half: Z in float16, 2N×D, of which cosines are made.
            narrow: Z in bfloat16, of which the sums of the gradient are made, with rows of zeros to the end of the last
                tile.
            count: only so many rows of either view take part; all when None.
            temperature: τ.
            tile_rows: most rows of a strip; as many as a GPU needs to be busy when None.
        """
        self.half, self.count, self.temperature = half, count, temperature
        # A CPU would round each product to bfloat16: it takes the same numbers as float32.
        self.vectors = narrow if narrow.is_cuda else narrow.float()
        self.height = strip_rows(len(half), tile_rows)
        # Kept numbers are rounded twice, and the errors of few do not average out.
        self.keepable = count is None and len(half) > UNDIVIDED_ROWS and can_be_kept(half, tile_rows)
        self.kept: Tensor | None = None

    def row_sums(self, *, keep: bool = False) -> Tensor:
        """Return the 2N sums of the rows over all columns that take part; `keep` the strips if they are small."""
        if keep and self.keepable:
            total = len(self.vectors)
            entries = sum((bottom - top) * (total - top) for top, bottom in self._strips())
            self.kept = self.vectors.new_empty(entries)
        bands = ceil_div(len(self.half), BAND_TILE) // 2 + 1
        parts = (self._band_sums(first, min(BANDS, bands - first)) for first in range(0, bands, BANDS))
        return functools.reduce(torch.add, parts)

    def pull(self, share: Tensor) -> Tensor:
        """Return Σ_c A_rc (share_r + share_c) z_c for each row r, 2N×D; `share` is zero where a row takes no part.

        Kept strips are used up. The first strip meets all rows and has no sums to add to.
        """
        result = torch.empty_like(self.vectors, dtype=torch.float32)
        strips = self._computed_strips(share) if self.kept is None else self._kept_strips(self.kept, share)
        for (top, bottom), weights in zip(self._strips(), strips, strict=True):
            beta = min(top, 1)
            multiply(weights, self.vectors[top:], result[top:bottom], beta=beta)
            if bottom < len(result):
                multiply(weights[:, bottom - top :].T, self.vectors[top:bottom], result[bottom:], beta=beta)
        self.kept = None
        return result[: len(self.half)]

    def _strips(self) -> list[tuple[int, int]]:
        """Return the rows of the strips: whole tiles, as a GPU has faster products for sizes that 8 divides."""
        total = len(self.vectors)
        return [(top, min(top + self.height, total)) for top in range(0, total, self.height)]

    def _band_sums(self, first: int, bands: int) -> Tensor:
        """Sum some bands of tiles, each at one distance to the right of the diagonal, going round at the end."""
        total, width = self.half.shape
        sums = torch.empty(2, bands, total, device=self.half.device)
        launch(
            band_sums_kernel,
            (bands, len(self.vectors) // BAND_TILE),
            sums,
            sums if self.kept is None else self.kept,
            described(self.half),
            self.half if self.count is None else self.count,
            total // 2,
            first,
            len(self.vectors),
            self.height,
            unit_of_exponents(self.temperature),
            WIDTH=width,
            DESCRIBED=can_be_described(self.half),
            COUNTED=self.count is not None,
            KEPT=self.kept is not None,
            TILE=BAND_TILE,
            DEPTH=BAND_DEPTH,
            **BAND_LAUNCH,
        )
        return sums.sum((0, 1))

    def _kept_strips(self, kept: Tensor, share: Tensor) -> Iterator[Tensor]:
        """Yield A_rc (share_r + share_c) for the rows r of each strip and the columns c from its first row on."""
        total, tiles = len(self.vectors), len(self.vectors) // KEPT_TILE
        grid, constants = (tiles // 2 + 1, tiles), {"TILE": KEPT_TILE, "num_warps": KEPT_WARPS}
        launch(kept_weights_kernel, grid, kept, share, len(share), total, self.height, **constants)
        for top, bottom in self._strips():
            entries = (bottom - top) * (total - top)
            yield kept[:entries].view(bottom - top, total - top)
            kept = kept[entries:]

    def _computed_strips(self, share: Tensor) -> Iterator[Tensor]:
        """Yield the same, computed again; the next takes the place of the last."""
        total, width = self.vectors.shape
        place = self.vectors.new_empty(self.height * total)
        for top, bottom in self._strips():
            weights = place[: (bottom - top) * (total - top)].view(bottom - top, total - top)
            launch(
                strip_weights_kernel,
                ((bottom - top) // BAND_TILE, (total - top) // BAND_TILE),
                weights,
                described(self.half),
                share,
                len(share),
                top,
                unit_of_exponents(self.temperature),
                WIDTH=width,
                DESCRIBED=can_be_described(self.half),
                TILE=BAND_TILE,
                DEPTH=BAND_DEPTH,
                **BAND_LAUNCH,
            )
            yield weights


def can_be_described(half: Tensor) -> bool:
    """Tell whether the hardware can fetch blocks of Z: an H100 or later, and rows of whole 16 bytes."""
    return half.shape[1] % 8 == 0 and (not half.is_cuda or torch.cuda.get_device_capability(half.device) >= (9, 0))


def described(half: Tensor) -> Tensor | TensorDescriptor:
    """Return what the kernels need to know of Z to have its blocks fetched, or Z where they do that themselves.

    Threads that work out no addresses have registers for more: row sums took 9 % less time.
    """
    return TensorDescriptor.from_tensor(half, [BAND_TILE, BAND_DEPTH]) if can_be_described(half) else half


def strip_rows(total: int, tile_rows: int | None) -> int:
    """Return the rows of equal strips of whole tiles."""
    most = max(min(tile_rows or MOST_STRIP_ROWS, MOST_STRIP_ROWS) // BAND_TILE, 1) * BAND_TILE
    strips = max(ceil_div(total, most), 1 if total <= UNDIVIDED_ROWS else FEWEST_STRIPS)
    return whole_tiles(ceil_div(total, strips))


def whole_tiles(length: int) -> int:
    """Return a length rounded up to whole tiles."""
    return ceil_div(length, BAND_TILE) * BAND_TILE
