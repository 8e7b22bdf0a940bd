"""How the GPU kernels are compiled: chosen for an H200 by what they issue and occupy, see `benchmarks/`."""

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


# 16: the registers of one warp allow eight programs on a multiprocessor, and seven hold 900 on an H200 at once.
# 32, ieee: eight warps would leave room for one program on a multiprocessor, four leave room for two.
# 32, tensor cores: warps beyond two would repeat each other's work; 144 registers leave room for seven programs.
# 64, tensor cores: four warps are what one product instruction takes.
SOLVER_LAUNCHES: dict[tuple[int, Precision], Launch] = {
    (16, "ieee"): Launch(1, 255),
    (16, "tf32x3"): Launch(1, 255),
    (16, "tf32"): Launch(1, 255),
    (32, "ieee"): Launch(4, 255),
    (32, "tf32x3"): Launch(2, 144),
    (32, "tf32"): Launch(2, 144),
    (64, "ieee"): Launch(8, 255),
    (64, "tf32x3"): Launch(4, 255),
    (64, "tf32"): Launch(4, 255),
}
"""Launches of the solver by the side of the tile and the precision of its iterations."""

GRADIENT_LAUNCHES: dict[tuple[int, Precision], Launch] = {
    (16, "ieee"): Launch(2, 255),
    (16, "tf32x3"): Launch(1, 255),
    (32, "ieee"): Launch(8, 128),
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
