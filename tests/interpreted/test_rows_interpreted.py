"""The kernels of dot products of rows with two vectors, against float64, which is left to PyTorch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fossil.ops.rows import row_products

PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "whole": lambda values: values,
    "lower half": lambda values: values[len(values) // 2 :],
    "column slice": lambda values: values[:, 1:],
}

# rows, width, type of the values, whether inside autocast, which part of the values is multiplied
CASES = [
    (1, 1, torch.float32, False, "whole"),
    (1, 130, torch.float32, False, "whole"),
    (5, 3, torch.float32, False, "whole"),
    (16, 64, torch.float32, False, "whole"),
    (130, 7, torch.float32, False, "whole"),
    (70, 200, torch.float32, False, "whole"),
    (150, 600, torch.float32, False, "whole"),  # several blocks either way, and more turns than are unrolled
    (100, 100, torch.float32, True, "whole"),
    (70, 131, torch.float32, False, "lower half"),
    (70, 131, torch.float32, False, "column slice"),
    (70, 130, torch.bfloat16, False, "whole"),
    (70, 130, torch.bfloat16, True, "lower half"),
]


def solved(values: Tensor, vectors: list[Tensor], upstream: Tensor, part: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return both products, and the gradients of the values and of both vectors, twice."""
    leaves = [each.detach().clone().requires_grad_() for each in (values, *vectors)]
    products = row_products(part(leaves[0]), leaves[1], leaves[2])
    kind = products[0].dtype
    # The first alone, with nothing for the other, and both, with gradients that are no neighbours in memory.
    alone = torch.autograd.grad(products[:1], leaves, [upstream[:, 0].to(kind)], retain_graph=True)
    every = torch.autograd.grad(products, leaves, upstream.to(kind).unbind(1))
    return [each.detach() for each in (*products, *alone, *every)]


@pytest.mark.parametrize(("rows", "width", "kind", "autocast", "name"), CASES, ids=repr)
def test_products_and_gradients_are_those_of_float64(
    rows: int, width: int, kind: torch.dtype, autocast: bool, name: str, counted: Callable[..., list[str]]
) -> None:
    calls = counted("rows", "row_products", "gradients")
    part, random = PARTS[name], torch.Generator().manual_seed(0)
    values = torch.randn(rows, width, generator=random).to(kind)
    kept = part(values)
    vectors = [torch.randn(1, kept.shape[1], generator=random) for _ in range(2)]
    upstream = torch.randn(len(kept), 2, generator=random)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = solved(values, vectors, upstream, part)
    launches = [] if name == "column slice" else ["row_products", "gradients", "gradients"]
    assert calls == launches
    wanted = solved(values.double(), [each.double() for each in vectors], upstream, part)
    assert calls == launches  # rows with gaps and float64 are left to PyTorch
    assert [each.shape for each in found] == [each.shape for each in wanted]
    assert [each.dtype for each in found] == 2 * [torch.float32] + 2 * [kind, torch.float32, torch.float32]
    errors = [((a - b).norm() / b.norm().clamp(min=1e-3)).item() for a, b in zip(found, wanted, strict=True)]
    of_values = 1e-6 if kind == torch.float32 else 4e-3  # half a unit of the last of its eight bits
    tolerances = 2 * [1e-6] + 2 * [of_values, 1e-6, 1e-6]
    assert all(error < most for error, most in zip(errors, tolerances, strict=True)), errors
