"""Bias and activations against PyTorch's own modules; the GPU kernels interpreted on the CPU, against float64."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fossil.nn import _stretches
from fossil.nn.activation import biased_activation, biased_prelu


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
def test_a_pass_over_stretches_has_the_gradients_of_the_modules(
    slopes: tuple[float | None, ...], elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stretches, "ELEMENTS", elements)
    modules = [nn.ReLU() if slope is None else nn.PReLU(init=slope).double() for slope in slopes]
    parameters = [each for module in modules for each in module.parameters()]
    values, bias, upstream = draw(9, 4).requires_grad_(), draw(4, seed=1).requires_grad_(), draw(9, 4, seed=2)
    found = biased_activation(values, bias, *modules)
    expected = nn.Sequential(*modules)(values + bias)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    gradients = (torch.autograd.grad(each, [values, bias, *parameters], upstream) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


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


# Triton decides at its import whether it interprets, so the kernels run in a process of their own.
INTERPRETED = """
import json
import sys
import torch
from torch import nn
from fossil.nn import _activation_kernel as kernel, activation

torch.set_num_threads(1)
calls = []
for name in ("activate", "gradients"):
    def counted(*given, name=name, original=getattr(kernel, name)):
        calls.append(name)
        return original(*given)
    setattr(kernel, name, counted)

def solved(values, bias, slopes, upstream):
    leaves = [each.detach().clone().requires_grad_() for each in (values, bias, *slopes) if each is not None]
    rest = iter(leaves[2:])
    result = activation.biased_prelu(*leaves[:2], [None if each is None else next(rest) for each in slopes])
    result.backward(upstream.to(result.dtype))
    return result.detach(), [leaf.grad for leaf in leaves]

cases, sizes = json.loads(sys.argv[1])
found, added = [], []
for rows, width, numbers, kind, autocast, programs in cases:
    kernel.PROGRAMS = programs
    random = torch.Generator().manual_seed(0)
    values = torch.randn(rows, width, generator=random).to(getattr(torch, kind))
    values[0, 0] = 0.0
    bias = torch.randn(width, generator=random)
    bias[0] = 0.0  # so that one sum is zero, where the sides of a PReLU meet
    slopes = [None if number is None else torch.tensor([number]) for number in numbers]
    upstream = torch.randn(rows, width, generator=random)
    if autocast or kind != "float32":
        upstream = upstream.bfloat16()  # so that both sides are given the same
    calls.clear()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result, gradients = solved(values, bias, slopes, upstream)
    taken = sorted(calls)
    wide = [None if each is None else each.double() for each in slopes]
    expected, wanted = solved(values.double(), bias.double(), wide, upstream.double())
    found.append({
        "calls": taken,
        "again": sorted(calls),
        "types": [str(each.dtype) for each in (result, *gradients)],
        "value": (result - expected).abs().max().item(),
        "gradients": [((a - b).norm() / b.norm().clamp(min=1)).item() for a, b in zip(gradients, wanted)],
    })
for stretches, width, parts in sizes:
    random = torch.Generator().manual_seed(0)
    given = [torch.randn(stretches, width, generator=random), torch.randn(2, parts, generator=random)]
    sums = [torch.full((width + 5,), -7.0), torch.full((7,), -7.0)]  # longer than what is to be written
    programs = -(-width // kernel.ADDING_COLUMNS) + 1
    kernel.add_parts_kernel[(programs,)](*sums, *given, stretches, parts, WIDTH=width, **kernel.ADDING_LAUNCH)
    wanted = [given[0].double().sum(0), given[1].double().sum(1)]
    scales = [given[0].abs().sum(0), given[1].abs().sum(1)]
    added.append({
        "errors": [((a[:-5] - b).abs() / c).max().item() for a, b, c in zip(sums, wanted, scales)],
        "untouched": all((each[-5:] == -7).all().item() for each in sums),
    })
print(json.dumps([found, added]))
"""

# rows, width, slopes (None: ReLU), type of the values, whether inside autocast, programs the gradient is spread over
CASES: list[tuple[int, int, list[float | None], str, bool, int]] = [
    (5, 3, [0.25], "float32", False, 1024),
    (40, 200, [0.25, 0.1], "float32", False, 1024),
    (40, 200, [-0.5, 0.3], "float32", False, 1024),  # the second slope has nothing left to act on
    (40, 200, [0.3, -0.5], "float32", False, 3),  # several turns in each program, the last one not full
    (17, 128, [-0.25, None], "float32", False, 4),
    (16, 130, [None], "float32", False, 1024),
    (9, 40, [None, 0.5], "float32", False, 1024),
    (1, 1, [2.0, 0.5], "float32", False, 1024),
    (1, 300, [0.25, -0.4], "float32", False, 1024),  # one row, three blocks of columns
    (50, 1, [0.25, -0.4], "float32", False, 1024),  # seven stretches of one column
    (150, 300, [0.25, -0.4], "float32", False, 24),  # seven stretches in each of three blocks of columns
    (20, 140, [0.25, 0.1], "bfloat16", False, 2),
    (20, 140, [0.25, 0.1], "bfloat16", True, 2),
    (20, 40, [None], "float32", True, 1024),
]

# stretches, width, parts of a slope: one turn and several, full and not
SIZES = [(1, 1, 1), (1, 300, 3), (2, 16, 1024), (256, 17, 1025), (600, 1, 600), (257, 33, 2100)]

Found = tuple[list[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def interpreted(interpret: Callable[[str, Any], Any]) -> Found:
    activated, added = interpret(INTERPRETED, [CASES, SIZES])
    return activated, added


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("index", range(len(CASES)), ids=[repr(case) for case in CASES])
def test_interpreted_kernels_give_the_float64_result_and_gradients(interpreted: Found, index: int) -> None:
    _, _, slopes, kind, autocast, _ = CASES[index]
    found = interpreted[0][index]
    learnt = [slope for slope in slopes if slope is not None]
    narrow = autocast and bool(learnt)
    assert found["calls"] == ["activate", "gradients"] == found["again"]  # float64 is left to PyTorch
    assert found["types"][:2] == ["torch.bfloat16" if narrow else "torch.float32", f"torch.{kind}"]
    assert found["types"][2:] == ["torch.float32"] * (1 + len(learnt))
    assert found["value"] < (2e-2 if narrow else 1e-6)
    assert len(found["gradients"]) == 2 + len(learnt)
    assert found["gradients"][0] < (1e-6 if kind == "float32" else 4e-3)
    assert all(error < 1e-5 for error in found["gradients"][1:])


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("index", range(len(SIZES)), ids=[repr(size) for size in SIZES])
def test_interpreted_parts_of_bias_and_slopes_are_added(interpreted: Found, index: int) -> None:
    found = interpreted[1][index]
    assert all(error < 1e-6 for error in found["errors"])
    assert found["untouched"]
