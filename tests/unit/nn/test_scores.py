"""Dot products of rows with vectors against sums in NumPy; the GPU kernels interpreted on the CPU, against float64."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.nn.scores import row_products


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_each_vector_is_multiplied_with_each_row() -> None:
    values, vectors = draw(6, 5), [draw(1, 5, seed=seed) for seed in (1, 2)]
    for one, vector in zip(row_products(values, vectors[0], vectors[1]), vectors, strict=True):
        expected = [sum(x * a for x, a in zip(row, vector[0].tolist(), strict=True)) for row in values.tolist()]
        np.testing.assert_allclose(one.numpy(), expected, rtol=1e-12)


def test_values_and_vectors_pass_finite_differences() -> None:
    inputs = [draw(6, 5).requires_grad_(), *(draw(1, 5, seed=seed).requires_grad_() for seed in (1, 2))]
    assert torch.autograd.gradcheck(row_products, inputs)


def test_inside_autocast_the_products_on_a_cpu_are_narrow_as_pytorchs_are() -> None:
    values, vectors = draw(6, 5).float(), [draw(1, 5, seed=seed).float() for seed in (1, 2)]
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = row_products(values, vectors[0], vectors[1]), values @ torch.cat(vectors).T
    for one, other in zip(found, expected.unbind(1), strict=True):
        assert one.dtype == torch.bfloat16
        assert torch.equal(one, other)


# Triton decides at its import whether it interprets, so the kernels run in a process of their own.
INTERPRETED = """
import json
import sys
import torch
from fossil.nn import _score_kernel as kernel
from fossil.nn.scores import row_products

torch.set_num_threads(1)
calls = []
for name in ("row_products", "gradients"):
    def counted(*given, name=name, original=getattr(kernel, name)):
        calls.append(name)
        return original(*given)
    setattr(kernel, name, counted)

def solved(values, vectors, upstream, part):
    leaves = [each.detach().clone().requires_grad_() for each in (values, *vectors)]
    products = row_products(part(leaves[0]), *leaves[1:])
    kind = products[0].dtype
    # The first alone, with nothing for the other, and both, with gradients that are no neighbours in memory.
    alone = torch.autograd.grad(products[:1], leaves, [upstream[:, 0].to(kind)], retain_graph=True)
    every = torch.autograd.grad(products, leaves, upstream.to(kind).unbind(1))
    return [each.detach() for each in (*products, *alone, *every)]

PARTS = {
    "whole": lambda values: values,
    "lower half": lambda values: values[len(values) // 2 :],
    "column slice": lambda values: values[:, 1:],
}
found = []
for rows, width, kind, autocast, name in json.loads(sys.argv[1]):
    part = PARTS[name]
    random = torch.Generator().manual_seed(0)
    values = torch.randn(rows, width, generator=random).to(getattr(torch, kind))
    kept = part(values)
    vectors = [torch.randn(1, kept.shape[1], generator=random) for _ in range(2)]
    upstream = torch.randn(len(kept), 2, generator=random)
    calls.clear()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        numbers = solved(values, vectors, upstream, part)
    taken = list(calls)
    wanted = solved(values.double(), [each.double() for each in vectors], upstream, part)
    found.append({
        "calls": taken,
        "again": len(calls) - len(taken),
        "types": [str(each.dtype) for each in numbers],
        "shapes": [list(each.shape) == list(other.shape) for each, other in zip(numbers, wanted)],
        "errors": [((a - b).norm() / b.norm().clamp(min=1e-3)).item() for a, b in zip(numbers, wanted, strict=True)],
    })
print(json.dumps(found))
"""

# rows, width, type of the values, whether inside autocast, which part of the values is multiplied
CASES: list[tuple[int, int, str, bool, str]] = [
    (1, 1, "float32", False, "whole"),
    (1, 130, "float32", False, "whole"),
    (5, 3, "float32", False, "whole"),
    (16, 64, "float32", False, "whole"),
    (130, 7, "float32", False, "whole"),
    (70, 200, "float32", False, "whole"),
    (150, 600, "float32", False, "whole"),  # several blocks either way, and more turns than are unrolled
    (100, 100, "float32", True, "whole"),
    (70, 131, "float32", False, "lower half"),
    (70, 131, "float32", False, "column slice"),
    (70, 130, "bfloat16", False, "whole"),
    (70, 130, "bfloat16", True, "lower half"),
]


@pytest.fixture(scope="module")
def interpreted(interpret: Callable[[str, Any], Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = interpret(INTERPRETED, CASES)
    return found


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("index", range(len(CASES)), ids=[repr(case) for case in CASES])
def test_interpreted_kernels_give_the_float64_products_and_gradients(
    interpreted: list[dict[str, Any]], index: int
) -> None:
    _, _, kind, _, part = CASES[index]
    found = interpreted[index]
    # Rows with gaps and float64 are left to PyTorch.
    assert found["calls"] == ([] if part == "column slice" else ["row_products", "gradients", "gradients"])
    assert found["again"] == 0
    assert all(found["shapes"])
    gradients = [f"torch.{kind}"] + 2 * ["torch.float32"]
    assert found["types"] == 2 * ["torch.float32"] + 2 * gradients
    of_values = 1e-6 if kind == "float32" else 4e-3  # half a unit of the last of its eight bits
    tolerances = 2 * [1e-6] + 2 * [of_values, 1e-6, 1e-6]
    assert all(error < most for error, most in zip(found["errors"], tolerances, strict=True)), found["errors"]
