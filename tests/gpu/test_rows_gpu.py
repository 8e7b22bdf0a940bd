"""Dot products of rows with vectors on a GPU, against the plain version in float64 on the same device."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fossil.ops import rows as module
from fossil.ops.dispatch import triton
from fossil.ops.precision import arithmetic
from fossil.ops.rows import row_products

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]

SIZES = [(1, 1), (37, 130), (7600, 512), (7601, 500), (20_000, 7), (65, 2000)]


class Problem:
    """Values, vectors and gradients of their products."""

    def __init__(self, rows: int, width: int) -> None:
        random = torch.Generator().manual_seed(0)
        self.values = torch.randn(rows, width, generator=random).cuda()
        self.vectors = [torch.randn(1, width, generator=random).cuda() for _ in range(2)]
        self.upstream = torch.randn(2, rows, generator=random).cuda()

    def solved(self, kind: torch.dtype) -> list[Tensor]:
        """Return the products and the gradients of the values and of all vectors."""
        wide = torch.promote_types(kind, torch.float32)
        values = self.values.detach().to(kind).requires_grad_()
        vectors = [each.detach().to(wide).requires_grad_() for each in self.vectors]
        products = row_products(values, vectors[0], vectors[1])
        gradients = torch.autograd.grad(products, [values, *vectors], self.upstream.to(products[0].dtype).unbind())
        return [*(each.detach() for each in products), *gradients]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.isfinite().all()
        assert (one - other).norm() <= tolerance * other.norm(), place


@pytest.mark.parametrize("size", SIZES)
def test_products_and_gradients_are_those_of_float64(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []

    def counted(name: str) -> Any:
        launched.append(name)
        return triton(name)

    monkeypatch.setattr(module, "triton", counted)
    problem = Problem(*size)
    found = problem.solved(torch.float32)
    assert len(launched) == 2
    assert_close(found, problem.solved(torch.float64), 1e-5)
    assert len(launched) == 2  # float64 is left to PyTorch


def test_products_are_single_precision_where_pytorchs_are_narrower() -> None:
    problem = Problem(7600, 512)
    wanted = problem.solved(torch.float64)
    with arithmetic("tf32", torch.device("cuda")):
        assert_close(problem.solved(torch.float32), wanted, 1e-5)
    problem.values = problem.values.bfloat16()
    wanted = problem.solved(torch.float64)
    with torch.autocast("cuda", torch.bfloat16):
        found = problem.solved(torch.bfloat16)
    of_values = slice(2, 3)
    assert found[of_values][0].dtype == torch.bfloat16
    assert all(each.dtype == torch.float32 for each in found[:2] + found[3:])
    assert_close(found[of_values], wanted[of_values], 4e-3)
    assert_close(found[:2] + found[3:], wanted[:2] + wanted[3:], 1e-5)


def test_rows_that_are_not_aligned_or_not_contiguous_give_the_same() -> None:
    problem = Problem(701, 99)
    stacked = torch.cat([problem.values[:1], problem.values])
    wide = torch.cat([problem.values[:, :1], problem.values], 1)
    expected = row_products(problem.values, problem.vectors[0], problem.vectors[1])
    for given in (stacked[1:], wide[:, 1:]):
        assert_close([*row_products(given, problem.vectors[0], problem.vectors[1])], [*expected], 1e-5)


def test_the_gradients_are_always_the_same() -> None:
    problem = Problem(7601, 500)
    for one, other in zip(problem.solved(torch.float32), problem.solved(torch.float32), strict=True):
        assert torch.equal(one, other)


def test_offsets_beyond_31_bits_are_reached() -> None:
    values = torch.zeros(4_300_000, 512, dtype=torch.bfloat16, device="cuda")
    values[-1] = 1
    vector = torch.ones(1, 512, device="cuda", requires_grad=True)
    found, _ = row_products(values, vector, vector.detach())
    assert found[-1] == 512 and found[:-1].count_nonzero() == 0
    (gradient,) = torch.autograd.grad(found[-1], vector)
    assert torch.equal(gradient, torch.ones_like(gradient))


def step(problem: Problem) -> Callable[[], list[Tensor]]:
    return lambda: problem.solved(torch.float32)


def test_the_host_never_waits() -> None:
    run = step(Problem(700, 96))
    run()
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_recorded_step_follows_its_values() -> None:
    problem = Problem(700, 96)
    run = step(problem)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        recorded = run()
    with torch.no_grad():
        problem.values.mul_(2).add_(1)
    recording.replay()
    for found, wanted in zip(recorded, run(), strict=True):
        assert torch.equal(found, wanted)
