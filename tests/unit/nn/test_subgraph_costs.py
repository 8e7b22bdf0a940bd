"""Costs of all pairs of sampled subgraphs against loops in float64, and the GPU kernels against the plain version."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.nn.subgraph_costs import subgraph_costs

TEMPERATURE, SHARE = 0.7, 0.1

# Costs and gradients of the kernels less those of the plain version, which float64 takes.
SCRIPT = """
import json
import torch
from fossil.nn import subgraph_costs as module

random = torch.Generator().manual_seed(0)
results = []
launched = []
wanted_kernels = module.kernels
module.kernels = lambda name: launched.append(name) or wanted_kernels(name)


def solved(first, second, rows, weights):
    leaves = [view.clone().requires_grad_() for view in (first, second)]
    costs = module.subgraph_costs(*leaves, *rows, 0.7, 0.1)
    total = sum((cost * weight).sum() for cost, weight in zip(costs, weights))
    return costs, torch.autograd.grad(total, leaves)


def compare(size, width, count=3, nodes_in_all=41, zeros=(), idle=()):
    first, second = (torch.randn(nodes_in_all, width, generator=random) for _ in range(2))
    for node in zeros:
        first[node] = second[node] = 0
    # Any two of these subgraphs have nodes in common.
    nodes = torch.stack([torch.randperm(nodes_in_all, generator=random)[:size] for _ in range(count)])
    nodes[1:, 0] = nodes[0, 0]
    a = (torch.arange(count) + 1) % count
    b = torch.full((count,), count - 1)
    weights = [torch.randn(pairs * count, size, size, generator=random) for pairs in (3, 1, 1)]
    for place in idle:
        weights[place].zero_()
    found, gradients = solved(first, second, (nodes, a, b), weights)
    expected, wanted = solved(first.double(), second.double(), (nodes, a, b), weights)
    assert all(each.dtype == torch.float32 for each in (*found, *gradients))
    assert all(one.shape == other.shape for one, other in zip(found, expected))
    results.append([
        max(float((one - other).abs().max()) for one, other in zip(found, expected)),
        max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(gradients, wanted)),
    ])


for size, width in ((5, 7), (12, 40), (17, 64), (30, 40), (12, 64)):
    compare(size, width)
compare(5, 40, zeros=range(0, 41, 3))
compare(5, 40, count=1)
compare(12, 7, idle=(1,))
compare(35, 7, count=2)
print(json.dumps([results, len(launched)]))
"""


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


def measured(script: str, **environment: str) -> Any:
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=kept | environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_interpreted_kernels_give_the_values_and_gradients_of_float64() -> None:
    results, launches = measured(SCRIPT, TRITON_INTERPRET="1")
    assert launches == 2 * len(results)  # forward and backward for float32, none for float64
    assert all(value < 5e-6 and gradient < 2e-5 for value, gradient in results), results
