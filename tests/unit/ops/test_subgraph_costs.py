"""Costs of all pairs of sampled subgraphs, against loops in float64."""

import math

import pytest
import torch
from torch import Tensor

from fossil.ops.subgraph_costs import costs_between, gathered_costs, subgraph_costs

TEMPERATURE, SHARE = 0.7, 0.1


def drawn(count: int, size: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Return embeddings of 23 nodes in two views, the first of them zero, subgraphs that share it, and their others."""
    random = torch.Generator().manual_seed(seed)
    views = torch.randn(2, 23, 9, generator=random, dtype=torch.float64)
    views[:, 0] = 0
    nodes = torch.stack([torch.randperm(23, generator=random)[:size] for _ in range(count)])
    nodes[:, 0] = 0
    a, b = (torch.randint(count, (count,), generator=random) for _ in range(2))
    return views[0], views[1], nodes, a, b


def cosine_cost(x: Tensor, y: Tensor) -> float:
    lengths = [float(z.norm()) if float(z.norm()) > 1e-6 else 1.0 for z in (x, y)]
    return math.exp(-float(x @ y) / lengths[0] / lengths[1] / TEMPERATURE)


def matrix_by_loops(x: Tensor, y: Tensor) -> Tensor:
    costs = [[cosine_cost(one, other) for other in y] for one in x]
    low, high = min(map(min, costs)), max(map(max, costs))
    point = low + SHARE * (high - low)
    return torch.tensor([[max(cost - point, 0.0) for cost in row] for row in costs], dtype=torch.float64)


def test_each_cost_is_that_of_its_pair_of_nodes() -> None:
    first, second, nodes, a, b = drawn(count=4, size=5)
    found = subgraph_costs(first, second, nodes, a, b, TEMPERATURE, SHARE)
    feature = []
    for partner in ("twin", "a", "b"):
        for i, own in enumerate(nodes):
            other = {"twin": second[own], "a": first[nodes[a[i]]], "b": second[nodes[b[i]]]}[partner]
            feature.append(matrix_by_loops(first[own], other))
    torch.testing.assert_close(found.feature, torch.stack(feature))
    torch.testing.assert_close(found.of_first, torch.stack([matrix_by_loops(first[own], first[own]) for own in nodes]))
    torch.testing.assert_close(
        found.of_second, torch.stack([matrix_by_loops(second[own], second[own]) for own in nodes])
    )


def test_gradients_are_those_of_finite_differences() -> None:
    first, second, nodes, a, b = drawn(count=3, size=4)
    weights = torch.randn(15, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def total(one: Tensor, other: Tensor) -> Tensor:
        return (torch.cat(subgraph_costs(one, other, nodes, a, b, TEMPERATURE, SHARE)) * weights).sum()

    leaves = [view.clone().requires_grad_() for view in (first, second)]
    gradients = torch.autograd.grad(total(*leaves), leaves)
    random = torch.Generator().manual_seed(2)
    for _ in range(3):
        # The zero vector stays: it has no direction, and a step would give it one.
        steps = torch.randn(2, *first.shape, generator=random, dtype=torch.float64).index_fill_(1, torch.tensor(0), 0)
        ahead, behind = (total(first + h * steps[0], second + h * steps[1]) for h in (1e-6, -1e-6))
        along = sum((gradient * step).sum() for gradient, step in zip(gradients, steps, strict=True))
        torch.testing.assert_close((ahead - behind) / 2e-6, along, rtol=1e-5, atol=1e-6)


def test_a_share_of_zero_leaves_the_costs_as_they_are() -> None:
    first, second, nodes, a, b = drawn(count=3, size=4)
    costs = subgraph_costs(first, second, nodes, a, b, TEMPERATURE, 0.0)
    assert costs.of_first[1, 2, 3].item() == pytest.approx(cosine_cost(first[nodes[1, 2]], first[nodes[1, 3]]))


@pytest.mark.parametrize("share", [0.0, SHARE])
def test_costs_between_subgraphs_alone_are_the_first_of_all_and_have_their_gradients(share: float) -> None:
    first, second, nodes, a, b = drawn(count=4, size=5)
    vectors = [view[nodes].requires_grad_() for view in (first, second)]
    alone = costs_between(vectors[0], vectors[1], a, b, TEMPERATURE, share)
    every = gathered_costs(vectors[0], vectors[1], a, b, TEMPERATURE, share)
    torch.testing.assert_close(alone, every.feature, rtol=1e-12, atol=1e-12)
    upstream = torch.randn(alone.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = [torch.autograd.grad(each, vectors, upstream) for each in (alone, every.feature)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)
