"""The matrix behind the node loss, a tile at a time, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

import torch
from torch import Tensor

from fossil.ops.precision import Products
from fossil.ops.ranks import ALONE, Ranks

_LEAST_FOR_NARROW_COSINES = 0.5
# Half a matrix that may be kept from the forward to the backward pass: of up to 5,792 nodes on a CPU, where it is in
# float32, and of up to 8,192 on a GPU, where it is in bfloat16.
_KEPT_BYTES = 256 << 20


class Affinities:
    """The symmetric 2N×2N matrix A = exp((Z Zᵀ - 1)/τ) with a zero diagonal, a tile at a time.

    Only tiles on and above the diagonal are computed, and of several ranks each computes some of them: sums and
    products are then of its own tiles. Every exponent is lowered by 1/τ, the most it can be.
    """

    def __init__(
        self,
        unit: Tensor,
        count: Tensor | None,
        temperature: float,
        products: Products,
        tile_rows: int | None,
        kept: list[Tensor] | None = None,
        among: Ranks = ALONE,
    ) -> None:
        """Take Z and say how to multiply.

        Args:
            unit: Z, the unit vectors of both views one below the other, 2N×D; zero where a row takes no part.
            count: only so many rows of either view take part; all when None.
            temperature: τ.
            products: precision of the products.
            tile_rows: side of a tile; the device and N decide when None.
            kept: where to keep tiles, in order, and to find those that were kept; None to keep none.
            among: who else computes tiles.
        """
        self.unit, self.count, self.temperature, self.products = unit, count, temperature, products
        # Cosines go through an exponential, the sums of the gradient do not: these can take narrower numbers. On a GPU
        # they take bfloat16 even where cosines are in TF32, because it is three times as fast and the error averages
        # out. A CPU rounds the cosines themselves to bfloat16, which is too much for a small τ.
        exact = products == "bfloat16" and not unit.is_cuda and temperature < _LEAST_FOR_NARROW_COSINES
        self.operands = unit if exact else operand(unit, products)
        narrow = products == "bfloat16" or (products == "tf32" and unit.is_cuda)
        self.summands = operand(unit, "bfloat16") if narrow else self.operands
        self.side = min(tile_rows or _tile_rows(unit), _evenly(len(unit), among))
        self.kept, self.among = kept, among

    def row_sums(self) -> Tensor:
        """Return the 2N sums of the rows over all columns that take part."""
        totals = self.unit.new_zeros(len(self.unit))
        for top, left, tile in self._tiles():
            rows, columns = self._tile_sums(tile, top, left)
            totals[top] += rows
            if columns is not None:
                totals[left] += columns
        return totals

    def pull(self, share: Tensor) -> Tensor:
        """Return Σ_c A_rc (share_r + share_c) z_c for each row r, 2N×D; `share` is zero where a row takes no part."""
        undivided = self.among.world_size == 1
        result = torch.empty_like(self.unit) if undivided else torch.zeros_like(self.unit)
        for top, left, tile in self._tiles():
            weights = self._tile_weights(tile, top, left, share)
            # Tiles come row by row, so that the first row of all of them is the first to write anywhere.
            multiply(weights, self.summands[left], result[top], beta=int(left.start > 0 or not undivided))
            if top != left:
                multiply(weights.T, self.summands[top], result[left], beta=int(top.start > 0 or not undivided))
        return result

    def _tiles(self) -> Iterator[tuple[slice, slice, Tensor]]:
        """Yield rows, columns and that part of A; unless tiles are kept, the next takes the place of the last."""
        place = self.unit.new_empty(self.side, self.side if self.kept is None else 0)
        for number, (top, left) in enumerate(self._places()):
            if self.kept is not None and number < len(self.kept):
                yield top, left, self.kept[number]
                continue
            shape = top.stop - top.start, left.stop - left.start
            tile = place[: shape[0], : shape[1]] if self.kept is None else self.unit.new_empty(shape)
            multiply(self.operands[top], self.operands[left].T, tile, alpha=1 / self.temperature)
            self._complete(tile, top, left)
            if self.kept is not None:
                self.kept.append(tile)
            yield top, left, tile

    def _places(self) -> Iterator[tuple[slice, slice]]:
        """Yield rows and columns of the tiles on and above the diagonal that are this rank's."""
        total = len(self.unit)
        slices = [slice(start, min(start + self.side, total)) for start in range(0, total, self.side)]
        places = ((top, left) for index, top in enumerate(slices) for left in slices[index:])
        return islice(places, self.among.rank, None, self.among.world_size)

    def _complete(self, tile: Tensor, top: slice, left: slice) -> None:
        """Make cosines divided by τ that part of A."""
        tile.sub_(1 / self.temperature).exp_()
        if top == left:
            tile.fill_diagonal_(0)

    def _tile_sums(self, tile: Tensor, top: slice, left: slice) -> tuple[Tensor, Tensor | None]:
        """Return the sums of a tile's rows and, off the diagonal, of its columns."""
        if self.count is not None:
            active = taking_part(self.unit, self.count)
            tile = tile * (active[top, None] & active[None, left])
        return tile.sum(1), tile.sum(0) if top != left else None

    def _tile_weights(self, tile: Tensor, top: slice, left: slice, share: Tensor) -> Tensor:
        """Return A_rc (share_r + share_c), as an operand of a product."""
        weights = (share[top, None] + share[None, left]).mul_(tile)
        return operand(weights, "bfloat16" if self.summands.dtype == torch.bfloat16 else self.products)


def can_be_kept(unit: Tensor, tile_rows: int | None) -> bool:
    """Tell whether half the matrix is small enough to be kept; it is not where somebody asks for small tiles."""
    entry = 2 if unit.is_cuda else max(unit.element_size(), 4)
    return tile_rows is None and len(unit) ** 2 * entry <= 2 * _KEPT_BYTES


def kept_bytes(rows: int, device: torch.device) -> int:
    """Return about what the half of the matrix of so many rows of Z takes where it is kept, else nothing."""
    half = rows**2 * (2 if device.type == "cuda" else 4) // 2
    return half * 4 // 3 if half <= _KEPT_BYTES else 0  # blocks or tiles on the diagonal are stored whole


def taking_part(unit: Tensor, count: Tensor) -> Tensor:
    """Tell which of the 2N rows are among the first `count` of their view."""
    return (torch.arange(len(unit) // 2, device=unit.device) < count).repeat(2)


def operand(matrix: Tensor, products: Products) -> Tensor:
    """Return a matrix as products of that precision take it, rounded to the nearest."""
    if products == "bfloat16":
        narrow = matrix.to(torch.bfloat16)
        # A processor without instructions for bfloat16 multiplies it far slower than float32.
        return narrow if matrix.is_cuda or _multiplies_narrow_numbers() else narrow.to(matrix.dtype)
    if products == "tf32" and matrix.is_cuda:  # the tensor cores would cut off the last 13 bits
        return (matrix.view(torch.int32) + 0x1000).bitwise_and_(-0x2000).view(torch.float32)
    return matrix


def multiply(left: Tensor, right: Tensor, out: Tensor, *, alpha: float = 1, beta: float = 0) -> None:
    """Make `out` be beta out + alpha left right, summed in the type of `out`; where beta is 0 it may hold anything."""
    if left.dtype == out.dtype:
        torch.addmm(out, left, right, beta=beta, alpha=alpha, out=out)
    elif not out.is_cuda:  # the product itself is rounded to bfloat16, its sum with others is not
        product = torch.mm(left, right)
        out.add_(product, alpha=alpha) if beta else out.copy_(product).mul_(alpha)
    elif _adds_narrow_products(out.device):
        torch.addmm(out, left, right, out.dtype, beta=beta, alpha=alpha, out=out)
    else:
        product = torch.mm(left, right, out_dtype=out.dtype)
        torch.add(out * beta, product, alpha=alpha, out=out) if beta else torch.mul(product, alpha, out=out)


@cache
def _adds_narrow_products(device: torch.device) -> bool:
    """Tell whether bfloat16 products can be added to a float32 matrix in one call, which not every PyTorch can."""
    narrow = torch.zeros(16, 16, dtype=torch.bfloat16, device=device)
    try:
        torch.addmm(narrow.float(), narrow, narrow, torch.float32)
    except (RuntimeError, TypeError):
        return False
    return True


@cache
def _multiplies_narrow_numbers() -> bool:
    """Tell whether this processor has instructions for bfloat16."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _evenly(total: int, among: Ranks) -> int:
    """Return the largest side at which tiles are enough to be divided: ten or more for two ranks, 36 for four."""
    return total if among.world_size == 1 else max(1, -(-total // (2 * among.world_size)))


def _tile_rows(unit: Tensor) -> int:
    """Return the side of equal tiles: 4 MiB on a CPU; what the cache of a large GPU holds, until tiles are too many."""
    total = len(unit)
    most = 1024 if unit.device.type == "cpu" else 2048 if total <= 40_960 else 8192
    tiles = -(-total // most)
    return -(-total // (16 * tiles)) * 16  # rows of a tile start where a GPU reads them best
