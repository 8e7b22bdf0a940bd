"""The kernels of the costs of sampled subgraphs, against the plain version, which float64 takes."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from fossil.ops.subgraph_costs import SubgraphCosts, subgraph_costs

TEMPERATURE, SHARE = 0.7, 0.1
NODES = 41


def solved(
    views: Sequence[Tensor], rows: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[SubgraphCosts, tuple[Tensor, ...]]:
    """Return the costs, and the gradients of both views, given those of the costs."""
    leaves = [view.clone().requires_grad_() for view in views]
    nodes, a, b = rows
    costs = subgraph_costs(leaves[0], leaves[1], nodes, a, b, TEMPERATURE, SHARE)
    return costs, torch.autograd.grad(costs, leaves, [weight.to(leaves[0].dtype) for weight in weights])


@pytest.mark.parametrize(
    ("size", "width", "count", "zeros", "idle"),
    [
        (5, 7, 3, 0, None),
        (12, 40, 3, 0, None),
        (17, 64, 3, 0, None),
        (30, 40, 3, 0, None),
        (12, 64, 3, 0, None),
        (5, 40, 3, 3, None),  # each third node has no direction
        (5, 40, 1, 0, None),  # a subgraph that is its own partner
        (12, 7, 3, 0, 1),  # no gradient in the costs within the first view
        (35, 7, 2, 0, None),
    ],
)
def test_costs_and_gradients_are_those_of_float64(
    size: int, width: int, count: int, zeros: int, idle: int | None, counted: Callable[..., list[str]]
) -> None:
    calls = counted("subgraph_costs", "costs", "gradients")
    random = torch.Generator().manual_seed(0)
    views = [torch.randn(NODES, width, generator=random) for _ in range(2)]
    if zeros:
        for view in views:
            view[::zeros] = 0
    # Any two of these subgraphs have nodes in common.
    nodes = torch.stack([torch.randperm(NODES, generator=random)[:size] for _ in range(count)])
    nodes[1:, 0] = nodes[0, 0]
    rows = nodes, (torch.arange(count) + 1) % count, torch.full((count,), count - 1)
    weights = [torch.randn(pairs * count, size, size, generator=random) for pairs in (3, 1, 1)]
    if idle is not None:
        weights[idle].zero_()
    found, gradients = solved(views, rows, weights)
    assert calls == ["costs", "gradients"]
    expected, wanted = solved([view.double() for view in views], rows, weights)
    assert calls == ["costs", "gradients"]  # float64 is left to PyTorch
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32 and one.shape == other.shape
        assert (one - other).abs().max() < 5e-6
    for one, other in zip(gradients, wanted, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).abs().max() < 2e-5 * other.abs().max()
