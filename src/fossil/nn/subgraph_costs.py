"""Cosine costs between and within sampled subgraphs (Section 4.6.1), all those of a training step together."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.accelerate import kernels, power_of_two, serves
from fossil.nn.costs import exponential, exponential_cost, thresholded
from fossil.nn.precision import ambient_products
from fossil.nn.sparse import rows_of
from fossil.nn.unit import SHORTEST, unit_vectors
from fossil.transport.launches import TILES, Launch, tile_side
from fossil.transport.precision import full_float32

_KERNELS = "fossil.nn._subgraph_cost_kernel"
_PAIRS = 5  # of a subgraph: three between subgraphs, two of one with itself

# By the side of the tile that holds a pair; 16 and 32 by time on an H200, 64 by what it compiles to for sm_90. DEPTH
# columns of the embeddings are read at a time. More warps would repeat each other's work.
_COST_LAUNCHES = {
    16: {"DEPTH": 32, "num_stages": 3, **Launch(1, 128).options()},
    32: {"DEPTH": 32, "num_stages": 3, **Launch(1, 128).options()},
    64: {"DEPTH": 32, "num_stages": 2, **Launch(4, 168).options()},
}
_PULL_LAUNCHES = {16: Launch(1, 128).options(), 32: Launch(4, 128).options(), 64: Launch(8, 128).options()}
# The embeddings are no more exact than the products they come from.
_PRECISION = {"float32": "tf32x3", "tf32": "tf32", "bfloat16": "tf32"}
_GRADIENT_LAUNCHES = {
    16: {"DEPTH": 64, **Launch(2, 168).options()},
    32: {"DEPTH": 64, **Launch(4, 255).options()},
    64: {"DEPTH": 32, **Launch(4, 255).options()},
}


class SubgraphCosts(NamedTuple):
    """Cost matrices of S subgraphs.

    Attributes:
        feature: of the S pairs (H_i, Ĥ_i), then (H_i, H_a), then (H_i, Ĥ_b): 3S×K×K.
        of_first: of each H_i with itself, S×K×K.
        of_second: of each Ĥ_i with itself, S×K×K.
    """

    feature: Tensor
    of_first: Tensor
    of_second: Tensor


def subgraph_costs(
    first: Tensor, second: Tensor, nodes: Tensor, a: Tensor, b: Tensor, temperature: float, share: float
) -> SubgraphCosts:
    """Return exp(-cos/τ) of the nodes of paired subgraphs, lowered and cut as in `nn.costs.thresholded`.

    It is what `thresholded` gives for the `exponential_cost` of `unit_vectors`, on a GPU without gathering a row of
    embeddings, and can be differentiated once. Products are as exact as PyTorch's own at this moment, or more.

    Args:
        first: H, N×D embeddings of one view.
        second: Ĥ, N×D embeddings of the other.
        nodes: S×K nodes of the subgraphs.
        a: S rows of other subgraphs.
        b: S rows of other subgraphs.
        temperature: τ.
        share: of the range of a matrix, by which its entries are lowered.
    """
    if _is_fused(first, second, nodes) and share > 0:
        fused = _SubgraphCosts.apply(first, second, nodes, a, b, 1 / temperature, share)  # type: ignore[no-untyped-call]
        return SubgraphCosts(*fused)
    U, V = (unit_vectors(rows_of(view, nodes)) for view in (first, second))  # S×K×D
    return gathered_costs(U, V, a, b, temperature, share)


def gathered_costs(
    first: Tensor, second: Tensor, a: Tensor, b: Tensor, temperature: float, share: float
) -> SubgraphCosts:
    """Return costs as `subgraph_costs` does, of the inner products of these vectors of the subgraphs' nodes, S×K×D."""
    products: Tensor = _PairProducts.apply(first, second, a, b)  # type: ignore[no-untyped-call]
    costs = thresholded(exponential(products, temperature), share)
    count = len(first)
    return SubgraphCosts(costs[: 3 * count], costs[3 * count : 4 * count], costs[4 * count :])


def costs_between(first: Tensor, second: Tensor, a: Tensor, b: Tensor, temperature: float, share: float) -> Tensor:
    """Return the costs between subgraphs alone, of the inner products of their nodes' vectors (S×K×D): 3S×K×K."""
    partners = second, rows_of(first, a), rows_of(second, b)
    # Joined as K×K matrices, which are far smaller than the vectors.
    return thresholded(torch.cat([exponential_cost(first, each, temperature) for each in partners]), share)


def _is_fused(first: Tensor, second: Tensor, nodes: Tensor) -> bool:
    floats = first.dtype == second.dtype == torch.float32
    return floats and nodes.numel() > 0 and first.numel() > 0 and nodes.shape[1] <= TILES[-1] and serves(first.device)


class _PairProducts(torch.autograd.Function):
    """Inner products of the pairs (X, Y), (X, X_a), (X, Y_b), (X, X) and (Y, Y) of subgraphs, 5S×K×K.

    The gradient of each subgraph is added up where it is, without one S×K×D tensor a product.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, a: Tensor, b: Tensor) -> Tensor:
        X, Y = first.contiguous(), second.contiguous()
        X_a, Y_b = X.index_select(0, a), Y.index_select(0, b)
        ctx.save_for_backward(X, Y, X_a, Y_b, a, b)
        products = X.new_empty(_PAIRS, *X.shape[:2], X.shape[1])
        with full_float32():
            for out, (one, other) in zip(products, ((X, Y), (X, X_a), (X, Y_b), (X, X), (Y, Y)), strict=True):
                torch.bmm(one, other.mT, out=out)
        return products.flatten(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        X, Y, X_a, Y_b, a, b = ctx.saved_tensors
        XY, XX_a, XY_b, XX, YY = upstream[0].chunk(_PAIRS)
        with full_float32():
            for_X = torch.bmm(XY, Y).baddbmm_(XX_a, X_a).baddbmm_(XY_b, Y_b).baddbmm_(XX + XX.mT, X)
            for_X.index_add_(0, a, torch.bmm(XX_a.mT, X))
            for_Y = torch.bmm(XY.mT, X).baddbmm_(YY + YY.mT, Y)
            for_Y.index_add_(0, b, torch.bmm(XY_b.mT, X))
        return for_X, for_Y, None, None


class _SubgraphCosts(torch.autograd.Function):
    """The costs by GPU kernels; the gradient of a node that many subgraphs share is added up in any order."""

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, nodes: Tensor, a: Tensor, b: Tensor, rate: float, share: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        views = first.contiguous(), second.contiguous()
        rows = nodes.contiguous(), a.contiguous(), b.contiguous()
        count, size = nodes.shape
        tile, precision = tile_side(size, size), _PRECISION[ambient_products(first.device)]
        feature, of_first, of_second = (first.new_empty(pairs * count, size, size) for pairs in (3, 1, 1))
        cosines, lengths = first.new_empty(_PAIRS, count, size, size), first.new_empty(2, count, size)
        width, programs = first.shape[1], kernels(_KERNELS)
        with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
            programs.length_kernel[(count * size, 2)](
                lengths, *views, rows[0], SHORTEST, WIDTH=width, BLOCK=power_of_two(width), num_warps=1
            )
            programs.subgraph_cost_kernel[(count, _PAIRS)](
                feature, of_first, of_second, cosines, lengths, *views, *rows, rate, share, count, size,
                WIDTH=width, PRECISION=precision, TILE=tile, **_COST_LAUNCHES[tile],
            )  # fmt: skip
        ctx.save_for_backward(*views, *rows, cosines, lengths)
        ctx.settings, ctx.precision = (rate, share), precision
        return feature, of_first, of_second

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        first, second, nodes, a, b, cosines, lengths = ctx.saved_tensors
        (count, size), width = nodes.shape, first.shape[1]
        tile = tile_side(size, size)
        pulls, drags = torch.empty_like(cosines), first.new_empty(2, _PAIRS, count, size)
        gradients = first.new_zeros(2, *first.shape)
        outer = [gradient.contiguous() for gradient in upstream]
        launch, programs = _GRADIENT_LAUNCHES[tile], kernels(_KERNELS)
        with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
            programs.pull_kernel[(count, _PAIRS)](
                pulls, drags, cosines, lengths, *outer, a, b, *ctx.settings, count, size,
                TILE=tile, **_PULL_LAUNCHES[tile],
            )  # fmt: skip
            programs.embedding_gradient_kernel[(count, -(-width // launch["DEPTH"]))](
                *gradients, pulls, drags, first, second, nodes, a, b, count, size,
                WIDTH=width, PRECISION=ctx.precision, TILE=tile, **launch,
            )  # fmt: skip
        return *gradients, None, None, None, None, None
