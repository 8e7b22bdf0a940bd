"""Costs of sampled subgraphs on a GPU, against the plain version in float64 on the same device."""

import importlib.util
from types import ModuleType

import pytest
import torch
from torch import Tensor

from fossil.ops import subgraph_costs as module
from fossil.ops.dispatch import triton
from fossil.ops.subgraph_costs import SubgraphCosts, subgraph_costs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]

SHARE = 0.1
Solved = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]


class Problem:
    """Subgraphs of a graph of 2,003 nodes, some of whose embeddings are zero, and gradients in their costs."""

    def __init__(self, count: int, size: int, width: int) -> None:
        random = torch.Generator().manual_seed(size)
        views = torch.randn(2, 2003, width, generator=random)
        views[:, ::7] = 0
        self.views = tuple(views.cuda())
        nodes = torch.rand(count, 2003, generator=random).topk(size).indices
        nodes[:, 0] = 1  # one node is in all of them
        self.nodes = nodes.cuda()
        self.a, self.b = (torch.randint(count, (count,), generator=random).cuda() for _ in range(2))
        self.upstream = [torch.randn(pairs * count, size, size, generator=random).cuda() for pairs in (3, 1, 1)]
        for outer, costs in zip(self.upstream, self.costs(self.leaves(torch.float64), share=0.0), strict=True):
            # On which side of the threshold these fall is a matter of rounding.
            low, high = costs.amin((1, 2), keepdim=True), costs.amax((1, 2), keepdim=True)
            outer.masked_fill_((costs - low - SHARE * (high - low)).abs() < 1e-5, 0)

    def leaves(self, dtype: torch.dtype) -> list[Tensor]:
        return [view.detach().to(dtype).requires_grad_() for view in self.views]

    def costs(self, leaves: list[Tensor], share: float) -> SubgraphCosts:
        return subgraph_costs(leaves[0], leaves[1], self.nodes, self.a, self.b, 0.8, share)

    def solved(self, dtype: torch.dtype = torch.float32) -> Solved:
        """Return costs and gradients."""
        leaves = self.leaves(dtype)
        costs = self.costs(leaves, SHARE)
        return costs, torch.autograd.grad(costs, leaves, [outer.to(dtype) for outer in self.upstream])


@pytest.mark.parametrize("width", [7, 100, 512])
@pytest.mark.parametrize("size", [2, 12, 16, 17, 30, 32, 50, 64])
def test_costs_and_gradients_are_those_of_float64(size: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []

    def counted(name: str) -> ModuleType:
        launched.append(name)
        return triton(name)

    monkeypatch.setattr(module, "triton", counted)
    problem = Problem(count=150, size=size, width=width)
    costs, gradients = problem.solved()
    launches = ["tiles", "subgraph_costs", "subgraph_costs"]  # the first says how large a subgraph may be
    assert launched == launches
    wanted_costs, wanted = problem.solved(torch.float64)
    assert launched == launches
    for one, other in zip(costs, wanted_costs, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).abs().max() < 1e-5
    for one, other in zip(gradients, wanted, strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm()


def test_rows_without_a_gradient_get_none() -> None:
    problem = Problem(count=20, size=12, width=64)
    for outer in problem.upstream:
        outer.zero_()
    assert not any(gradient.any() for gradient in problem.solved()[1])


def test_larger_subgraphs_take_the_plain_version() -> None:
    problem = Problem(count=3, size=65, width=64)
    for one, other in zip(problem.solved()[1], problem.solved(torch.float64)[1], strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm()


def test_the_host_never_waits() -> None:
    problem = Problem(count=300, size=12, width=512)
    problem.solved()
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        problem.solved()
    finally:
        torch.cuda.set_sync_debug_mode("default")
