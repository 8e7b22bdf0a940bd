import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.ops import chunks
from fossil.ops.costs import exponential_cost, thresholded
from fossil.ops.unit import cosine, unit_vectors


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_cost_of_each_pair_is_the_written_formula(temperature: float) -> None:
    first, second = draw(3, 4, 5, seed=1), draw(3, 4, 5, seed=2)
    raw = exponential_cost(first, second, temperature)
    of_cosines = exponential_cost(unit_vectors(first), unit_vectors(second), temperature)
    assert raw.shape == of_cosines.shape == (3, 4, 4)
    for b, i, j in np.ndindex(3, 4, 4):
        x, y = first[b, i].numpy(), second[b, j].numpy()
        alike = x @ y / (np.linalg.norm(x) * np.linalg.norm(y))
        assert raw[b, i, j].item() == pytest.approx(math.exp(-(x @ y) / temperature), rel=1e-12)
        assert of_cosines[b, i, j].item() == pytest.approx(math.exp(-alike / temperature), rel=1e-12)


def test_zero_vectors_cost_one_and_keep_the_gradient_small() -> None:
    first = draw(1, 3, 4)
    first[0, 1] = 0
    first.requires_grad_()
    unit = unit_vectors(first)
    found = exponential_cost(unit, unit, 0.5)
    torch.testing.assert_close(found[0, 1].detach(), torch.ones(3, dtype=torch.float64))
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert first.grad is not None and first.grad.abs().max() < 100


def test_cosine_is_that_of_pytorch() -> None:
    first, second = draw(6, 5, seed=1), draw(6, 5, seed=2)
    torch.testing.assert_close(cosine(first, second), torch.nn.functional.cosine_similarity(first, second))


def test_cosine_costs_pass_finite_differences() -> None:
    views = draw(2, 3, 4, seed=1).requires_grad_(), draw(2, 3, 4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: exponential_cost(unit_vectors(x), unit_vectors(y), 0.7), views)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_threshold_is_taken_per_matrix(share: float) -> None:
    costs = draw(4, 5, 5).exp() * torch.tensor([1.0, 10, 100, 0.1], dtype=torch.float64)[:, None, None]
    found = thresholded(costs, share)
    for b in range(4):
        matrix = costs[b].numpy()
        point = matrix.min() + share * (matrix.max() - matrix.min())
        np.testing.assert_allclose(found[b].numpy(), np.maximum(matrix - point, 0), rtol=1e-12, atol=1e-14)


def test_a_share_of_zero_leaves_the_costs_as_they_are() -> None:
    costs = draw(2, 3, 3).exp()
    assert thresholded(costs, 0) is costs


def test_equal_costs_become_zero_with_a_finite_gradient() -> None:
    costs = torch.full((1, 3, 3), 2.0, requires_grad=True)
    found = thresholded(costs, 0.1)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(found, torch.zeros(1, 3, 3))
    assert costs.grad is not None and costs.grad.isfinite().all()


def test_thresholded_costs_pass_finite_differences() -> None:
    costs = draw(2, 4, 4).exp().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: thresholded(c, 0.1), (costs,))


def test_costs_of_long_opposite_vectors_have_finite_squares() -> None:
    long = torch.full((1, 1, 4), 100.0, requires_grad=True)
    cost = exponential_cost(long, -long, 0.2)
    assert cost.square().isfinite().all() and cost.item() > 1e18
    (gradient,) = torch.autograd.grad(cost.sum(), long)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("elements", [1, 7, 1 << 18])
def test_directions_of_rows_in_any_layout_pass_finite_differences(
    elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "ELEMENTS", elements)
    draw = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for given in (draw, draw.transpose(0, 2), draw[:, 0].T):
        assert torch.autograd.gradcheck(unit_vectors, given.detach().requires_grad_())
