"""Rows that are gathered, and their dot products with vectors, against sums in NumPy."""

import numpy as np
import torch
from torch import Tensor

from fossil.ops.rows import row_products, rows_of


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_rows_are_those_of_indexing_and_their_gradient_adds_up_repeated_ones() -> None:
    index = torch.tensor([[4, 0, 4], [1, 4, 0]])
    for values in (draw(6, 5), draw(6), draw(6, 2, 3)):
        leaf = values.requires_grad_()
        upstream = draw(*index.shape, *values.shape[1:], seed=1)
        found, expected = rows_of(leaf, index), leaf[index]
        assert torch.equal(found, expected)
        gradients = [torch.autograd.grad(each, leaf, upstream)[0] for each in (found, expected)]
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)
        assert not gradients[0][2].any() and gradients[0][4].all()


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
