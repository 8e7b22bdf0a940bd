"""The kernel of proximal points on a GPU, against the plain version in float64 on the same device."""

import importlib.util

import pytest
import torch
from torch import Tensor

from fossil.ops.dispatch import triton
from fossil.ops.proximal import proximal_point
from fossil.transport import ProximalPoint, wasserstein

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
]

Problem = tuple[Tensor, Tensor, Tensor]


def make(n: int, m: int, batch: int = 50) -> Problem:
    generator = torch.Generator().manual_seed(n + m)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64).cuda()

    return draw(batch, n, m), torch.softmax(2 * draw(batch, n), 1), torch.softmax(2 * draw(batch, m), 1)


def single(problem: Problem) -> Problem:
    cost, source_mass, target_mass = problem
    return cost.float(), source_mass.float(), target_mass.float()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each launch of the kernel, by its number of iterations."""
    made: list[int] = []
    version = triton("proximal")
    proximal_plan = version.proximal_plan

    def counted(cost: Tensor, source_mass: Tensor, target_mass: Tensor, step: float, iterations: int) -> Tensor:
        made.append(iterations)
        plan: Tensor = proximal_plan(cost, source_mass, target_mass, step, iterations)
        return plan

    monkeypatch.setattr(version, "proximal_plan", counted)
    return made


@pytest.mark.parametrize(("step", "iterations"), [(0.5, 40), (0.1, 20), (1.0, 1)])
@pytest.mark.parametrize(
    ("n", "m"), [(1, 3), (15, 15), (16, 16), (5, 16), (12, 30), (32, 32), (48, 48), (64, 17), (64, 64)]
)
def test_kernel_gives_the_float64_plan(n: int, m: int, step: float, iterations: int, launched: list[int]) -> None:
    problem = make(n, m)
    found = proximal_point(*single(problem), step, iterations)
    assert len(launched) == 1
    expected = proximal_point(*problem, step, iterations)
    assert len(launched) == 1
    torch.testing.assert_close(found.plan.double(), expected.plan, rtol=0, atol=1e-5)
    assert torch.equal(found.iterations, expected.iterations)
    assert torch.equal(found.settled, expected.settled)


def test_nodes_of_zero_mass_get_nothing_and_change_nothing() -> None:
    cost, source_mass, target_mass = single(make(10, 12))
    pad = torch.nn.functional.pad
    bare = proximal_point(cost, source_mass, target_mass, 0.1, 20).plan
    wide = pad(cost, (0, 9, 0, 7), value=-3.0), pad(source_mass, (0, 7)), pad(target_mass, (0, 9))
    plan = proximal_point(*wide, 0.1, 20).plan
    assert not plan[:, 10:].any()
    assert not plan[:, :, 12:].any()
    torch.testing.assert_close(plan[:, :10, :12], bare, rtol=0, atol=1e-6)


def test_larger_problems_and_unrolled_gradients_take_the_plain_version(launched: list[int]) -> None:
    large = make(20, 65, batch=2)
    found, expected = (proximal_point(*each, 0.5, 20).plan for each in (single(large), large))
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    cost = make(15, 15)[0].float().requires_grad_()
    value = wasserstein(cost, solver=ProximalPoint(gradient="unrolled")).value.sum()
    assert torch.autograd.grad(value, cost)[0].isfinite().all()
    assert not launched


def test_a_recorded_launch_can_be_replayed_on_other_costs() -> None:
    problem = make(15, 15, batch=900)
    cost, source_mass, target_mass = single(problem)
    proximal_point(cost, source_mass, target_mass, 0.5, 40)  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outcome = proximal_point(cost, source_mass, target_mass, 0.5, 40)
    cost.copy_(1 - cost)
    graph.replay()
    expected = proximal_point(1 - problem[0], *problem[1:], 0.5, 40).plan
    torch.testing.assert_close(outcome.plan.double(), expected, rtol=0, atol=1e-5)


def test_the_host_never_waits() -> None:
    problem = single(make(15, 15, batch=900))
    proximal_point(*problem, 0.1, 20)
    torch.cuda.synchronize()
    try:
        torch.cuda.set_sync_debug_mode("error")
        proximal_point(*problem, 0.1, 20)
    finally:
        torch.cuda.set_sync_debug_mode("default")
