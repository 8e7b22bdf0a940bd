"""How the GPU kernels are compiled: chosen on an H200."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

Precision: TypeAlias = Literal["ieee", "tf32x3", "tf32"]

TILES = (16, 32, 64)
"""Sides of the square tiles. A larger problem does not fit on chip."""


class Launch(NamedTuple):
    """The shape of a program.

    Attributes:
        warps: warps that share a problem.
        registers: the most a thread may use.
    """

    warps: int
    registers: int

    def options(self) -> dict[str, Any]:
        """Return it by the names of Triton."""
        # Without a limit on registers the assembler may settle for 32, and keep nearly all of a large tile in memory.
        return {"num_warps": self.warps, "maxnreg": self.registers, "enable_fp_fusion": True}


# Measured on an H200 with 900 problems and 20 iterations: `tf32x3` took 39 µs for 12 nodes and 181 µs for 30, `ieee`
# 75 µs and 470 µs. On the tensor cores one warp a problem was best up to a tile of 32; a tile of 64 wants four, which
# is what one product instruction takes.
SOLVER_LAUNCHES: dict[tuple[int, Precision], Launch] = {
    (16, "ieee"): Launch(1, 255),
    (16, "tf32x3"): Launch(1, 255),
    (16, "tf32"): Launch(1, 255),
    (32, "ieee"): Launch(4, 255),
    (32, "tf32x3"): Launch(1, 255),
    (32, "tf32"): Launch(1, 255),
    (64, "ieee"): Launch(8, 255),
    (64, "tf32x3"): Launch(4, 255),
    (64, "tf32"): Launch(4, 255),
}
"""Launches of the solver by the side of the tile and the precision of its iterations."""

# Up to a tile of 32 measured in the same way; at 64 chosen by what they compile to, see `benchmarks/`.
GRADIENT_LAUNCHES: dict[tuple[int, Precision], Launch] = {
    (16, "ieee"): Launch(1, 255),
    (16, "tf32x3"): Launch(1, 255),
    (32, "ieee"): Launch(2, 255),
    (32, "tf32x3"): Launch(2, 255),
    (64, "ieee"): Launch(8, 255),
    (64, "tf32x3"): Launch(4, 255),
}
"""Launches of the gradient by the side of the tile and the precision of its products, which are never plain TF32."""


def tile_side(n: int, m: int) -> int:
    """Return the smallest tile that holds n×m entries.

    >>> tile_side(12, 17)
    32
    """
    return next(side for side in TILES if max(n, m) <= side)


def scoring_precision(precision: Precision) -> Precision:
    """Return the precision of values and gradients: that of the iterations, but never plain TF32."""
    return "ieee" if precision == "ieee" else "tf32x3"
