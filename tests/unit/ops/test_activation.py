"""Bias and activations in one pass, against PyTorch's own modules."""

import pytest
import torch
from torch import Tensor, nn

from fossil.ops import chunks
from fossil.ops.activation import biased_activation, biased_prelu


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=random(seed), dtype=torch.float64)


def test_two_slopes_are_the_written_formula_also_when_the_first_turns_the_sign() -> None:
    values, bias = torch.tensor([[-2.0, 1.0], [3.0, -1.0]]), torch.tensor([0.5, -0.25])
    once = biased_prelu(values, bias, [torch.tensor([0.5])])
    torch.testing.assert_close(once, torch.tensor([[-0.75, 0.75], [3.5, -0.625]]))
    twice = biased_prelu(values, bias, [torch.tensor([-0.5]), torch.tensor([0.2])])
    torch.testing.assert_close(twice, torch.tensor([[0.75, 0.75], [3.5, 0.625]]))
    relu = biased_prelu(values, bias, [torch.tensor([0.5]), None])
    torch.testing.assert_close(relu, torch.tensor([[0.0, 0.75], [3.5, 0.0]]))
    assert torch.equal(biased_prelu(values, bias, []), values + bias)


@pytest.mark.parametrize("slopes", [(1e30, 1e30), (float("inf"), 0.5), (float("nan"), 0.5)])
def test_slopes_that_have_diverged_give_what_pytorch_gives(slopes: tuple[float, float]) -> None:
    values, bias, made = draw(6, 5).float(), draw(5, seed=1).float(), [torch.tensor([slope]) for slope in slopes]
    expected = values + bias
    for slope in made:
        expected = nn.functional.prelu(expected, slope)
    torch.testing.assert_close(biased_prelu(values, bias, made), expected, equal_nan=True)


@pytest.mark.parametrize("count", [1, 2])
def test_values_bias_and_slopes_pass_finite_differences(count: int) -> None:
    slopes = [torch.tensor([slope], dtype=torch.float64, requires_grad=True) for slope in (0.3, -0.6)][:count]
    inputs = (draw(6, 5).requires_grad_(), draw(5, seed=1).requires_grad_(), *slopes)
    assert torch.autograd.gradcheck(lambda values, bias, *rest: biased_prelu(values, bias, rest), inputs)


@pytest.mark.parametrize(
    "activations",
    [
        (),
        (nn.Identity(),),
        (nn.ReLU(),),
        (nn.PReLU(),),
        (nn.PReLU(), nn.Identity()),
        (nn.PReLU(), nn.ReLU()),
        (nn.PReLU(), nn.PReLU(init=-0.4)),
        (nn.PReLU(), nn.PReLU(5)),
        (nn.PReLU(), nn.Tanh()),
    ],
    ids=lambda modules: "-".join(type(module).__name__ for module in modules),
)
def test_modules_are_applied_one_after_the_other(activations: tuple[nn.Module, ...]) -> None:
    values, bias = draw(7, 5).float(), draw(5, seed=1).float()
    expected = values + bias
    for activation in activations:
        expected = activation(expected)
    assert torch.equal(biased_activation(values, bias, *activations), expected)


@pytest.mark.parametrize("elements", [1, 12, 1 << 18])
@pytest.mark.parametrize("slopes", [(0.25,), (None,), (0.25, None), (-0.5, 0.2), (None, 0.1)], ids=str)
def test_a_pass_over_chunks_of_rows_has_the_gradients_of_the_modules(
    slopes: tuple[float | None, ...], elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "ELEMENTS", elements)
    modules = [nn.ReLU() if slope is None else nn.PReLU(init=slope).double() for slope in slopes]
    parameters = [each for module in modules for each in module.parameters()]
    values, bias, upstream = draw(9, 4).requires_grad_(), draw(4, seed=1).requires_grad_(), draw(9, 4, seed=2)
    found = biased_activation(values, bias, *modules)
    expected = nn.Sequential(*modules)(values + bias)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    gradients = (torch.autograd.grad(each, [values, bias, *parameters], upstream) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("slopes", [(0.25,), (None,), (0.25, None), (-0.5, 0.2), (-0.5, 2.0), (None, 0.1)], ids=str)
def test_at_zero_the_gradient_is_that_of_the_modules(slopes: tuple[float | None, ...]) -> None:
    modules = [nn.ReLU() if slope is None else nn.PReLU(init=slope).double() for slope in slopes]
    bias = draw(4, seed=1)
    values = (-bias).repeat(3, 1).requires_grad_()
    (found,), (expected,) = (
        torch.autograd.grad(each.sum(), [values])
        for each in (biased_activation(values, bias, *modules), nn.Sequential(*modules)(values + bias))
    )
    torch.testing.assert_close(found, expected)


def test_the_gradient_of_the_bias_of_narrow_values_is_summed_in_float32() -> None:
    values, upstream = draw(300, 4).bfloat16().requires_grad_(), draw(300, 4, seed=2)
    bias = draw(4, seed=1).float().requires_grad_()
    (found,) = torch.autograd.grad(biased_activation(values, bias, nn.PReLU()), [bias], upstream.float())
    below = values.double() + bias.double() < 0
    torch.testing.assert_close(
        found.double(), torch.where(below, 0.25 * upstream, upstream).sum(0), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_types_on_a_cpu_are_those_of_the_modules(kind: torch.dtype, autocast: bool) -> None:
    values = draw(6, 4).to(kind).requires_grad_()
    bias, modules = draw(4, seed=1).float().requires_grad_(), (nn.PReLU(), nn.ReLU())
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found, expected = biased_activation(values, bias, *modules), nn.Sequential(*modules)(values + bias)
    assert found.dtype == expected.dtype == (torch.bfloat16 if autocast else torch.float32)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(each.float().sum(), [values, bias]) for each in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
