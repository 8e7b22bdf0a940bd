"""Cosine costs between and within sampled subgraphs (Section 4.6.1), all those of a training step together."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fossil.ops.autograd import Function
from fossil.ops.costs import exponential, exponential_cost, thresholded
from fossil.ops.dispatch import triton, triton_runs_on
from fossil.ops.precision import ambient_products, full_float32
from fossil.ops.rows import rows_of
from fossil.ops.unit import SHORTEST, unit_vectors

_PAIRS = 5  # of a subgraph: three between subgraphs, two of one with itself


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
    """Return exp(-cos/τ) of the nodes of paired subgraphs, lowered and cut as in `ops.costs.thresholded`.

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
    if supports(first, second, nodes, share):
        return SubgraphCosts(*_LaunchedCosts.apply(first, second, nodes, a, b, 1 / temperature, share))
    U, V = (unit_vectors(rows_of(view, nodes)) for view in (first, second))  # S×K×D
    return gathered_costs(U, V, a, b, temperature, share)


def gathered_costs(
    first: Tensor, second: Tensor, a: Tensor, b: Tensor, temperature: float, share: float
) -> SubgraphCosts:
    """Return costs as `subgraph_costs` does, of the inner products of these vectors of the subgraphs' nodes, S×K×D."""
    products: Tensor = _PairProducts.apply(first, second, a, b)
    costs = thresholded(exponential(products, temperature), share)
    count = len(first)
    return SubgraphCosts(costs[: 3 * count], costs[3 * count : 4 * count], costs[4 * count :])


def costs_between(first: Tensor, second: Tensor, a: Tensor, b: Tensor, temperature: float, share: float) -> Tensor:
    """Return the costs between subgraphs alone, of the inner products of their nodes' vectors (S×K×D): 3S×K×K."""
    partners = second, rows_of(first, a), rows_of(second, b)
    # Joined as K×K matrices, which are far smaller than the vectors.
    return thresholded(torch.cat([exponential_cost(first, each, temperature) for each in partners]), share)


def supports(first: Tensor, second: Tensor, nodes: Tensor, share: float) -> bool:
    """Tell whether the kernels take these views, subgraphs and threshold."""
    known = first.dtype == second.dtype == torch.float32 and nodes.numel() > 0 and first.numel() > 0 and share > 0
    return known and triton_runs_on(first.device) and nodes.shape[1] <= triton("tiles").LARGEST


class _PairProducts(Function):
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


class _LaunchedCosts(Function):
    """The costs by GPU kernels; the gradient of a node that many subgraphs share is added up in any order."""

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, nodes: Tensor, a: Tensor, b: Tensor, rate: float, share: float
    ) -> tuple[Tensor, ...]:
        views, rows = (first.contiguous(), second.contiguous()), (nodes.contiguous(), a.contiguous(), b.contiguous())
        ctx.settings, ctx.products = (rate, share), ambient_products(first.device)
        costs, cosines, lengths = triton("subgraph_costs").costs(*views, *rows, rate, share, SHORTEST, ctx.products)
        ctx.save_for_backward(*views, *rows, cosines, lengths)
        result: tuple[Tensor, ...] = costs
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        outer = [gradient.contiguous() for gradient in upstream]
        found = triton("subgraph_costs").gradients(outer, *ctx.saved_tensors, *ctx.settings, ctx.products)
        return *found, None, None, None, None, None
