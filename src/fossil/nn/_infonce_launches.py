"""The matrix behind the node loss, computed by GPU kernels. Needs Triton: imported only where it can be used."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fossil.nn._affinities import Affinities
from fossil.nn._infonce_kernel import band_sums_kernel, pull_kernel, tile_sums_kernel, tile_weights_kernel

FUSED_PULL = False
"""Whether bfloat16 gradients take one kernel, without symmetry, in place of tiles and cuBLAS. For timing both."""

BANDS = 128
"""Bands of tiles whose sums are kept apart at a time: 1 KiB for each row of Z."""

BAND_TILE = 128
TILE_PART = 64
WEIGHT_PART = (16, 128)

# Two programs of 8 warps share a multiprocessor of an H200, so that one multiplies while another exponentiates.
BAND_LAUNCH: dict[str, Any] = {"num_warps": 8, "num_stages": 3, "maxnreg": 128}
BAND_DEPTH = {torch.bfloat16: 64, torch.float32: 32}

# Rows and columns at a time, by D: rows and their sums fill the registers, columns the shared memory.
PULL_PARTS = {64: (128, 128), 128: (128, 128), 256: (128, 64), 512: (64, 64)}
PULL_LAUNCH: dict[str, Any] = {"num_warps": 8, "num_stages": 2}
PULL_PROGRAMS = 264
"""Programs that the pull of few nodes is spread over: two for each multiprocessor of an H200."""


class KernelAffinities(Affinities):
    """`Affinities` for float32 vectors: row sums in one kernel unless in full float32, tiles in one kernel each."""

    def row_sums(self) -> Tensor:
        """Return the 2N sums of the rows over all columns that take part."""
        return super().row_sums() if self.products == "float32" else self._band_sums()

    def pull(self, share: Tensor) -> Tensor:
        """Return Σ_c A_rc (share_r + share_c) z_c for each row r, 2N×D; `share` is zero where a row takes no part."""
        fused = FUSED_PULL and self.products == "bfloat16" and self.unit.shape[1] in PULL_PARTS
        return self._fused_pull(share) if fused else super().pull(share)

    def _band_sums(self) -> Tensor:
        """Sum all tiles within half the matrix to the right of the diagonal, going round at the end."""
        operands = self._operands().contiguous()
        total, width = operands.shape
        tiles = -(-total // BAND_TILE)
        bands = tiles // 2 + 1
        totals = operands.new_zeros(total, dtype=torch.float32)
        for first in range(0, bands, BANDS):
            number = min(BANDS, bands - first)
            sums = totals.new_empty(2, number, total)
            with torch.cuda.device_of(sums):  # type: ignore[no-untyped-call]
                band_sums_kernel[(number, tiles)](
                    sums,
                    operands,
                    self._count(),
                    total // 2,
                    first,
                    self._unit_of_exponents(),
                    WIDTH=width,
                    COUNTED=self.count is not None,
                    PRECISION="tf32",
                    TILE=BAND_TILE,
                    DEPTH=BAND_DEPTH[operands.dtype],
                    **BAND_LAUNCH,
                    enable_fp_fusion=True,
                )
            totals += sums.sum((0, 1))
        return totals

    def _tile_sums(self, tile: Tensor, top: slice, left: slice) -> tuple[Tensor, Tensor | None]:
        height, width = tile.shape
        grid = -(-height // TILE_PART), -(-width // TILE_PART)
        rows, columns = tile.new_empty(grid[1], height), tile.new_empty(grid[0], width)
        with torch.cuda.device_of(tile):  # type: ignore[no-untyped-call]
            tile_sums_kernel[grid](
                rows,
                columns,
                tile,
                self._count(),
                len(self.unit) // 2,
                top.start,
                left.start,
                height,
                width,
                tile.stride(0),
                self._unit_of_exponents(),
                COUNTED=self.count is not None,
                TILE=TILE_PART,
                num_warps=8,
                enable_fp_fusion=True,
            )
        return rows.sum(0), columns.sum(0) if top != left else None

    def _tile_weights(self, tile: Tensor, top: slice, left: slice, share: Tensor) -> Tensor:
        height, width = tile.shape
        narrow = self.products == "bfloat16" or self.summands.dtype == torch.bfloat16
        weights = tile
        if narrow:  # a place of their own: programs would overwrite cosines not yet read
            weights = torch.empty_strided(tile.shape, tile.stride(), dtype=torch.bfloat16, device=tile.device)
        with torch.cuda.device_of(tile):  # type: ignore[no-untyped-call]
            tile_weights_kernel[(-(-height // WEIGHT_PART[0]), -(-width // WEIGHT_PART[1]))](
                weights,
                tile,
                share,
                top.start,
                left.start,
                height,
                width,
                tile.stride(0),
                self._unit_of_exponents(),
                ROWS=WEIGHT_PART[0],
                COLUMNS=WEIGHT_PART[1],
                num_warps=4,
                enable_fp_fusion=True,
            )
        return weights.to(self.summands.dtype)

    def _fused_pull(self, share: Tensor) -> Tensor:
        operands = self._operands().contiguous()
        total, width = operands.shape
        rows, columns = PULL_PARTS[width]
        blocks = -(-total // rows)
        stretches = max(1, min(PULL_PROGRAMS // blocks, -(-total // columns)))
        stretch = -(-total // (columns * stretches)) * columns
        pulls = share.new_empty(-(-total // stretch), total, width)
        with torch.cuda.device_of(pulls):  # type: ignore[no-untyped-call]
            pull_kernel[(blocks, len(pulls))](
                pulls,
                operands,
                share,
                total,
                stretch,
                self._unit_of_exponents(),
                WIDTH=width,
                ROWS=rows,
                COLUMNS=columns,
                **PULL_LAUNCH,
                enable_fp_fusion=True,
            )
        return pulls[0] if len(pulls) == 1 else pulls.sum(0)

    def _operands(self) -> Tensor:
        """Return Z as the kernels multiply it: in bfloat16 even where tensors on a CPU are only rounded to it."""
        return self.operands.to(torch.bfloat16) if self.products == "bfloat16" else self.operands

    def _count(self) -> Tensor:
        return self.unit if self.count is None else self.count  # something to point at

    def _unit_of_exponents(self) -> float:
        return math.log2(math.e) / self.temperature  # the kernels' exponentials are to base 2
