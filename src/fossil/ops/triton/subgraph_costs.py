"""Costs between and within sampled subgraphs, from the embeddings of all nodes, by GPU kernels. Needs Triton.

Their programs, and how pairs of subgraphs are numbered, are in `subgraph_costs_kernels`.
"""

from __future__ import annotations

from torch import Tensor

from fossil.ops.precision import Products
from fossil.ops.triton.jit import block_size, ceil_div, launch
from fossil.ops.triton.subgraph_costs_kernels import (
    embedding_gradient_kernel,
    length_kernel,
    pull_kernel,
    subgraph_cost_kernel,
)
from fossil.ops.triton.tiles import Launch, tile_side

PAIRS = 5

# By the side of the tile that holds a pair; 16 and 32 by time on an H200, 64 by what it compiles to for sm_90. DEPTH
# columns of the embeddings are read at a time. More warps would repeat each other's work.
COST_LAUNCHES = {
    16: {"DEPTH": 32, "num_stages": 3, **Launch(1, 128).options()},
    32: {"DEPTH": 32, "num_stages": 3, **Launch(1, 128).options()},
    64: {"DEPTH": 32, "num_stages": 2, **Launch(4, 168).options()},
}
PULL_LAUNCHES = {16: Launch(1, 128).options(), 32: Launch(4, 128).options(), 64: Launch(8, 128).options()}
# The embeddings are no more exact than the products they come from.
PRECISIONS: dict[Products, str] = {"float32": "tf32x3", "tf32": "tf32", "bfloat16": "tf32"}
GRADIENT_LAUNCHES = {
    16: {"DEPTH": 64, **Launch(2, 168).options()},
    32: {"DEPTH": 64, **Launch(4, 255).options()},
    64: {"DEPTH": 32, **Launch(4, 255).options()},
}


def costs(
    first: Tensor,
    second: Tensor,
    nodes: Tensor,
    a: Tensor,
    b: Tensor,
    rate: float,
    share: float,
    shortest: float,
    products: Products,
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor, Tensor]:
    """Return the costs of `ops.subgraph_costs`, and the cosines (5×S×K×K) and lengths (2×S×K) that gradients need."""
    (count, size), width = nodes.shape, first.shape[1]
    tile = tile_side(size, size)
    feature, of_first, of_second = (first.new_empty(pairs * count, size, size) for pairs in (3, 1, 1))
    cosines, lengths = first.new_empty(PAIRS, count, size, size), first.new_empty(2, count, size)
    constants = {"WIDTH": width, "BLOCK": block_size(width), "num_warps": 1}
    launch(length_kernel, (count * size, 2), lengths, first, second, nodes, shortest, **constants)
    launch(
        subgraph_cost_kernel, (count, PAIRS),
        feature, of_first, of_second, cosines, lengths, first, second, nodes, a, b, rate, share, count, size,
        WIDTH=width, PRECISION=PRECISIONS[products], TILE=tile, **COST_LAUNCHES[tile],
    )  # fmt: skip
    return (feature, of_first, of_second), cosines, lengths


def gradients(
    upstream: list[Tensor],
    first: Tensor,
    second: Tensor,
    nodes: Tensor,
    a: Tensor,
    b: Tensor,
    cosines: Tensor,
    lengths: Tensor,
    rate: float,
    share: float,
    products: Products,
) -> Tensor:
    """Return the gradients of both views (2×N×D), given those of the costs."""
    (count, size), width = nodes.shape, first.shape[1]
    tile = tile_side(size, size)
    pulls, drags = cosines.new_empty(cosines.shape), first.new_empty(2, PAIRS, count, size)
    found = first.new_zeros(2, *first.shape)
    launch(
        pull_kernel, (count, PAIRS),
        pulls, drags, cosines, lengths, *upstream, a, b, rate, share, count, size,
        TILE=tile, **PULL_LAUNCHES[tile],
    )  # fmt: skip
    options = GRADIENT_LAUNCHES[tile]
    launch(
        embedding_gradient_kernel, (count, ceil_div(width, options["DEPTH"])),
        *found, pulls, drags, first, second, nodes, a, b, count, size,
        WIDTH=width, PRECISION=PRECISIONS[products], TILE=tile, **options,
    )  # fmt: skip
    return found
