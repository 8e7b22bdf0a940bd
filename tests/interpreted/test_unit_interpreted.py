"""The kernels of directions, of single vectors and of the two views of the node loss, against float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fossil.ops.dispatch import triton
from fossil.ops.unit import SHORTEST, unit_vectors


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def with_gaps() -> Tensor:
    """Vectors that are no neighbours in memory; one is zero."""
    vectors = draw(4, 3, 10)
    vectors[1, 1] = 0
    return vectors[:, :2]


def plain_unit(vectors: Tensor) -> Tensor:
    length = vectors.norm(dim=-1, keepdim=True)
    return vectors / torch.where(length > 1e-6, length, torch.ones_like(length))


@pytest.mark.parametrize(
    "vectors",
    [draw(5, 7), draw(17, 64), draw(3, 100), with_gaps(), draw(1, 1, 10) * 1e-8],
    ids=["5 of 7", "17 of 64", "3 of 100", "gaps", "tiny"],
)
def test_directions_and_their_gradient_are_those_of_float64(vectors: Tensor, counted: Callable[..., list[str]]) -> None:
    calls = counted("unit", "unit_vectors", "gradient")
    single, double = vectors.clone().requires_grad_(), vectors.double().requires_grad_()
    found, expected = unit_vectors(single), plain_unit(double)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(found, single, weights)
    (wanted,) = torch.autograd.grad(expected, double, weights.double())
    assert calls == ["unit_vectors", "gradient"]
    assert found.dtype == gradient.dtype == torch.float32
    assert (found - expected).abs().max() < 5e-6
    assert (gradient - wanted).abs().max() < 2e-5 * wanted.abs().max()


def test_a_zero_vector_passes_its_gradient_on(counted: Callable[..., list[str]]) -> None:
    calls = counted("unit", "unit_vectors", "gradient")
    zero = torch.zeros(1, 5, requires_grad=True)
    (gradient,) = torch.autograd.grad(unit_vectors(zero).sum(), zero)
    assert calls == ["unit_vectors", "gradient"]
    assert (gradient - 1).abs().max() < 2e-5


def test_directions_of_both_views_are_those_of_float64_and_rounded_to_the_nearest() -> None:
    first, second = draw(2, 9, 100)
    first[2], second[3] = 0, 1e-9
    wide = torch.cat([first, second]).double()
    wide[6:9] = wide[15:] = 0
    first[6:], second[6:] = torch.nan, torch.inf  # rows that take no part are not even read
    count, unit_pairs = torch.tensor(6), triton("infonce_pairs").unit_pairs
    full = unit_pairs(first, second, count, SHORTEST, None)
    narrow = unit_pairs(first, second, count, SHORTEST, triton("infonce_strips").whole_tiles(18))
    length = wide.norm(dim=1)
    unit = wide / torch.where(length > 1e-6, length, 1)[:, None]
    assert (full.unit - unit).abs().max() < 1e-6
    assert (full.length - torch.where(length > 1e-6, length, -1)).abs().max() < 1e-5
    assert (full.cosine - (unit[:9] * unit[9:]).sum(1)).abs().max() < 1e-6
    assert full.half is None and full.narrow is None
    assert torch.equal(narrow.half, full.unit.half())
    assert torch.equal(narrow.narrow[:18], full.unit.bfloat16())
    assert len(narrow.narrow) == 128 and not narrow.narrow[18:].any()
    assert all(torch.equal(getattr(narrow, name), getattr(full, name)) for name in ("unit", "length", "cosine"))
