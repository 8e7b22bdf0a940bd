import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fossil.nn.contrast import subgraph_contrast
from fossil.ops.infonce import node_contrast


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosines(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of every pair, zero where a vector is zero."""
    lengths = first.norm(dim=1).clamp_min(1e-12)[:, None] * second.norm(dim=1).clamp_min(1e-12)[None]
    cosine: Tensor = first @ second.T / lengths
    return cosine


def dense_node_contrast(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Equations 12 and 13 as they stand, a node at a time."""
    total = first.new_zeros(())
    for own, other in ((first, second), (second, first)):
        within, across = cosines(own, own) / temperature, cosines(own, other) / temperature
        for i in range(len(own)):
            others = [j for j in range(len(own)) if j != i]
            rivals = torch.cat([within[i, others], across[i]])
            total = total - (across[i, i] - torch.logsumexp(rivals, 0))
    return total / (2 * len(first))


@pytest.mark.parametrize("temperature", [0.05, 0.2, 0.8, 3.0])
@pytest.mark.parametrize(
    ("nodes", "tile"), [(1, None), (2, 1), (2, None), (13, 1), (13, 4), (13, 7), (13, 13), (13, 26)]
)
def test_value_and_gradient_are_those_of_the_dense_formula(nodes: int, tile: int | None, temperature: float) -> None:
    found: list[Tensor | None] = []
    expected: list[Tensor | None] = []
    for results, loss in (
        (found, lambda u, v: node_contrast(u, v, temperature, tile_rows=tile)),
        (expected, lambda u, v: dense_node_contrast(u, v, temperature)),
    ):
        first, second = draw(nodes, 5, seed=1).requires_grad_(), draw(nodes, 5, seed=2).requires_grad_()
        value = loss(first, second)  # type: ignore[no-untyped-call]
        (3 * value).backward()  # type: ignore[no-untyped-call]
        results += [value.detach(), first.grad, second.grad]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 0.8, 3.0])
def test_float32_stays_close_to_float64(temperature: float) -> None:
    gradients = []
    for dtype in (torch.float32, torch.float64):
        first, second = (draw(60, 8, seed=s).to(dtype).requires_grad_() for s in (1, 2))
        value = node_contrast(first, second, temperature, tile_rows=17)
        value.backward()  # type: ignore[no-untyped-call]
        assert first.grad is not None and second.grad is not None
        gradients.append((value.detach().double(), first.grad.double(), second.grad.double()))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


def test_opposite_views_at_the_lowest_temperature_do_not_underflow_in_float32() -> None:
    # Every vector is as far as can be from all others: each exponent is at its least.
    line = torch.tensor([[1.0, 0.0]])
    value = node_contrast(line, -line, 0.05)
    assert value.item() == pytest.approx(0, abs=1e-4)
    value = node_contrast(line.repeat(2, 1), -line.repeat(2, 1), 0.05)
    assert value.item() == pytest.approx(20 + 20 + math.log(1 + 2 * math.exp(-40)), rel=1e-5)


def test_gradient_passes_finite_differences() -> None:
    views = tuple(draw(6, 3, seed=s).requires_grad_() for s in (1, 2))
    assert torch.autograd.gradcheck(lambda u, v: node_contrast(u, v, 0.5, tile_rows=5), views)


def test_zero_rows_count_as_orthogonal_to_everything() -> None:
    first, second = draw(9, 4, seed=1), draw(9, 4, seed=2)
    first[2] = second[5] = first[7] = second[7] = 0
    value = node_contrast(first.requires_grad_(), second.requires_grad_(), 0.5, tile_rows=4)
    torch.testing.assert_close(value, dense_node_contrast(first, second, 0.5), rtol=1e-10, atol=1e-12)
    value.backward()  # type: ignore[no-untyped-call]
    assert first.grad is not None and second.grad is not None
    assert first.grad.isfinite().all() and second.grad.isfinite().all()


def test_zero_rows_do_not_drown_the_gradient_of_the_others() -> None:
    # A zero vector has no direction, so no change of direction can be asked of it with any urgency.
    first, second = draw(9, 4, seed=1), draw(9, 4, seed=2)
    first[2] = 0
    node_contrast(first.requires_grad_(), second, 0.5).backward()  # type: ignore[no-untyped-call]
    assert first.grad is not None
    rest = torch.cat([first.grad[:2], first.grad[3:]]).norm(dim=1).max()
    assert first.grad[2].norm() <= 1e3 * rest


def test_length_of_the_vectors_does_not_matter_and_views_are_exchangeable() -> None:
    first, second = draw(7, 4, seed=1), draw(7, 4, seed=2)
    value = node_contrast(first, second, 0.5)
    scales = torch.linspace(0.1, 9, 7, dtype=torch.float64)[:, None]
    torch.testing.assert_close(node_contrast(first * scales, second / scales, 0.5), value)
    torch.testing.assert_close(node_contrast(second, first, 0.5), value)


@pytest.mark.parametrize("positives", [0, 1, 4])
def test_subgraph_contrast_is_equation_13(positives: int) -> None:
    scores = draw(9, seed=1).exp()
    sigma = 1 / (1 + np.exp(-scores.numpy()))
    expected = -(np.log(sigma[:positives]).sum() + np.log(1 - sigma[positives:]).sum()) / 9
    everything = torch.ones(9, dtype=torch.bool)
    assert subgraph_contrast(scores, positives, everything).item() == pytest.approx(expected, rel=1e-12)


def test_subgraph_contrast_has_the_gradient_of_a_logistic_loss() -> None:
    scores = draw(6, seed=1).requires_grad_()
    subgraph_contrast(scores, 2, torch.ones(6, dtype=torch.bool)).backward()  # type: ignore[no-untyped-call]
    labels = torch.tensor([1.0, 1, 0, 0, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(scores.grad, (torch.sigmoid(scores.detach()) - labels) / 6)


def test_pairs_that_do_not_count_change_nothing_and_get_no_gradient() -> None:
    scores = draw(6, seed=1).requires_grad_()
    counted = torch.tensor([True, False, True, True, False, True])
    loss = subgraph_contrast(scores, 3, counted)
    alone = subgraph_contrast(scores[counted], 2, torch.ones(4, dtype=torch.bool))
    assert loss.item() == pytest.approx(alone.item(), rel=1e-12)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert not gradient[~counted].any() and gradient[counted].all()
    assert subgraph_contrast(scores, 3, torch.zeros(6, dtype=torch.bool)).item() == 0
