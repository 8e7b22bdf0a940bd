"""Directions of vectors, as PyTorch computes them, against the written formula in float64."""

import pytest
import torch
from torch import Tensor

from fossil.ops.unit import unit_vectors


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
def test_directions_and_their_gradient_are_those_of_float64(vectors: Tensor) -> None:
    single, double = vectors.clone().requires_grad_(), vectors.double().requires_grad_()
    found, expected = unit_vectors(single), plain_unit(double)
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad(found, single, weights)
    (wanted,) = torch.autograd.grad(expected, double, weights.double())
    assert found.dtype == gradient.dtype == torch.float32
    assert (found - expected).abs().max() < 5e-6
    assert (gradient - wanted).abs().max() < 2e-5 * wanted.abs().max()


def test_a_zero_vector_passes_its_gradient_on() -> None:
    zero = torch.zeros(1, 5, requires_grad=True)
    (gradient,) = torch.autograd.grad(unit_vectors(zero).sum(), zero)
    assert torch.equal(gradient, torch.ones(1, 5))
