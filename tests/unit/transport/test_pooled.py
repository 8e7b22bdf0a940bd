"""The cosine of mean embeddings against torch's own cosine and plain arithmetic."""

import doctest
import sys

import pytest
import torch
from torch import Tensor

from fossil.errors import TransportError
from fossil.transport import pooled_cosine


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_is_the_cosine_of_the_means() -> None:
    first, second = draw(6, 5, 4), draw(6, 7, 4, seed=1)
    expected = torch.nn.functional.cosine_similarity(first.mean(1), second.mean(1))
    torch.testing.assert_close(pooled_cosine(first, second), expected)


def test_masses_weigh_the_means_and_their_sum_does_not_matter() -> None:
    first, second = draw(6, 5, 4), draw(6, 7, 4, seed=1)
    mass = torch.softmax(draw(6, 5, seed=2), 1)
    means = torch.stack([sum(m * x for m, x in zip(*pair, strict=True)) for pair in zip(mass, first, strict=True)])
    expected = torch.nn.functional.cosine_similarity(means, second.mean(1))
    torch.testing.assert_close(pooled_cosine(first, second, mass), expected)
    torch.testing.assert_close(pooled_cosine(first, second, 3 * mass, torch.ones(6, 7).double()), expected)


def test_zero_mass_hides_a_node() -> None:
    first, second = draw(2, 5, 4), draw(2, 7, 4, seed=1)
    padded = torch.cat([second, 100 * draw(2, 3, 4, seed=3)], 1)
    mass = torch.tensor([1 / 7] * 7 + [0.0] * 3, dtype=torch.float64).expand(2, 10)
    torch.testing.assert_close(pooled_cosine(first, padded, None, mass), pooled_cosine(first, second))


def test_a_mean_of_zero_gives_zero_with_finite_gradients() -> None:
    first = torch.zeros(2, 3, 4, requires_grad=True)
    second = torch.ones(2, 3, 4, requires_grad=True)
    value = pooled_cosine(first, second)
    assert value.tolist() == [0, 0]
    for gradient in torch.autograd.grad(value.sum(), [first, second]):
        assert torch.equal(gradient, torch.zeros(2, 3, 4))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_float32_lengths_out_of_range_do_not_matter(scale: float) -> None:
    first, second = draw(6, 5, 4).float(), draw(6, 7, 4, seed=1).float()
    torch.testing.assert_close(pooled_cosine(first * scale, second), pooled_cosine(first, second))


def test_gradient_passes_finite_differences() -> None:
    tensors = [draw(2, 3, 4), draw(2, 2, 4, seed=1), draw(2, 3, seed=2).exp(), draw(2, 2, seed=3).exp()]
    assert torch.autograd.gradcheck(pooled_cosine, [tensor.requires_grad_() for tensor in tensors])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(3, 4), torch.zeros(1, 3, 4)), r"^first is of shape \(3, 4\)"),
        ((torch.zeros(1, 0, 4), torch.zeros(1, 3, 4)), r"^first is of shape \(1, 0, 4\)"),
        (([], torch.zeros(1, 3, 4)), "^first is a list"),
        ((torch.zeros(1, 3, 4), torch.zeros(2, 3, 4)), r"^second is of shape \(2, 3, 4\)"),
        ((torch.zeros(1, 3, 4), torch.zeros(1, 3, 5)), r"^second is of shape \(1, 3, 5\)"),
        ((torch.zeros(1, 3, 4), torch.zeros(1, 3, 4).double()), r"^second is torch\.float64"),
        ((torch.zeros(1, 3, 4).long(), torch.zeros(1, 3, 4)), r"^first is torch\.int64"),
        ((torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), torch.zeros(3)), r"^first_mass is of shape \(3,\)"),
        ((torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), None, [1.0]), "^second_mass is a list"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(arguments: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(TransportError, match=message):
        pooled_cosine(*arguments)


def test_examples_in_the_documentation_run() -> None:
    results = doctest.testmod(sys.modules["fossil.transport.pooled"])
    assert results.attempted > 0
    assert results.failed == 0
