"""The kernels of bias and activations, against float64, which is left to PyTorch."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from fossil.ops.activation import biased_prelu
from fossil.ops.dispatch import triton

# rows, width, slopes (None: ReLU), type of the values, whether inside autocast, programs the gradient is spread over
CASES: list[tuple[int, int, list[float | None], torch.dtype, bool, int]] = [
    (5, 3, [0.25], torch.float32, False, 1024),
    (40, 200, [0.25, 0.1], torch.float32, False, 1024),
    (40, 200, [-0.5, 0.3], torch.float32, False, 1024),  # the second slope has nothing left to act on
    (40, 200, [0.3, -0.5], torch.float32, False, 3),  # several turns in each program, the last one not full
    (17, 128, [-0.25, None], torch.float32, False, 4),
    (16, 130, [None], torch.float32, False, 1024),
    (9, 40, [None, 0.5], torch.float32, False, 1024),
    (1, 1, [2.0, 0.5], torch.float32, False, 1024),
    (1, 300, [0.25, -0.4], torch.float32, False, 1024),  # one row, three blocks of columns
    (50, 1, [0.25, -0.4], torch.float32, False, 1024),  # seven chunks of one column
    (150, 300, [0.25, -0.4], torch.float32, False, 24),  # seven chunks in each of three blocks of columns
    (20, 140, [0.25, 0.1], torch.bfloat16, False, 2),
    (20, 140, [0.25, 0.1], torch.bfloat16, True, 2),
    (20, 40, [None], torch.float32, True, 1024),
]


def solved(
    values: Tensor, bias: Tensor, slopes: Sequence[Tensor | None], upstream: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the result, and the gradients of the values, of the bias and of the slopes that there are."""
    leaves = [each.detach().clone().requires_grad_() for each in (values, bias, *slopes) if each is not None]
    rest = iter(leaves[2:])
    result = biased_prelu(leaves[0], leaves[1], [None if each is None else next(rest) for each in slopes])
    return result.detach(), torch.autograd.grad(result, leaves, upstream.to(result.dtype))


@pytest.mark.parametrize(("rows", "width", "numbers", "kind", "autocast", "programs"), CASES, ids=repr)
def test_the_result_and_the_gradients_are_those_of_float64(
    rows: int,
    width: int,
    numbers: list[float | None],
    kind: torch.dtype,
    autocast: bool,
    programs: int,
    counted: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = counted("activation", "activate", "gradients")
    monkeypatch.setattr(triton("activation"), "PROGRAMS", programs)
    random = torch.Generator().manual_seed(0)
    values = torch.randn(rows, width, generator=random).to(kind)
    values[0, 0] = 0.0
    bias = torch.randn(width, generator=random)
    bias[0] = 0.0  # so that one sum is zero, where the sides of a PReLU meet
    slopes = [None if number is None else torch.tensor([number]) for number in numbers]
    upstream = torch.randn(rows, width, generator=random)
    if autocast or kind != torch.float32:
        upstream = upstream.bfloat16()  # so that both sides are given the same
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result, gradients = solved(values, bias, slopes, upstream)
    assert calls == ["activate", "gradients"]
    wide = [None if each is None else each.double() for each in slopes]
    expected, wanted = solved(values.double(), bias.double(), wide, upstream.double())
    assert calls == ["activate", "gradients"]  # float64 is left to PyTorch
    learnt = sum(number is not None for number in numbers)
    narrow = autocast and learnt > 0
    assert result.dtype == (torch.bfloat16 if narrow else torch.float32)
    assert [each.dtype for each in gradients] == [kind] + [torch.float32] * (1 + learnt)
    assert (result - expected).abs().max() < (2e-2 if narrow else 1e-6)
    errors = [((a - b).norm() / b.norm().clamp(min=1)).item() for a, b in zip(gradients, wanted, strict=True)]
    assert errors[0] < (1e-6 if kind == torch.float32 else 4e-3)
    assert all(error < 1e-5 for error in errors[1:]), errors


# chunks, width, parts of a slope: one turn and several, full and not
@pytest.mark.parametrize(
    ("chunks", "width", "parts"),
    [(1, 1, 1), (1, 300, 3), (2, 16, 1024), (256, 17, 1025), (600, 1, 600), (257, 33, 2100)],
)
def test_parts_of_bias_and_slopes_are_added(chunks: int, width: int, parts: int) -> None:
    version, random = triton("activation"), torch.Generator().manual_seed(0)
    given = [torch.randn(chunks, width, generator=random), torch.randn(2, parts, generator=random)]
    sums = [torch.full((width + 5,), -7.0), torch.full((7,), -7.0)]  # longer than what is to be written
    programs = -(-width // version.ADDING_COLUMNS) + 1
    version.add_parts_kernel[(programs,)](*sums, *given, chunks, parts, WIDTH=width, **version.ADDING_LAUNCH)
    wanted = [given[0].double().sum(0), given[1].double().sum(1)]
    scales = [given[0].abs().sum(0), given[1].abs().sum(1)]
    for found, exact, scale in zip(sums, wanted, scales, strict=True):
        assert ((found[:-5] - exact).abs() / scale).max() < 1e-6
        assert (found[-5:] == -7).all()
