from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fossil.nn.momentum import WarmUpCosine, follow, frozen, rising_momentum


def networks() -> tuple[nn.Module, nn.Module]:
    """Two networks of one make and different weights, with parameters of several shapes and with buffers."""
    generator = torch.Generator().manual_seed(0)
    made = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.PReLU()) for _ in range(2)]
    with torch.no_grad():
        for parameter in (p for module in made for p in module.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return made[0], made[1]


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.99, 1.0])
def test_the_twin_becomes_the_weighted_mean_and_the_module_stays(momentum: float) -> None:
    twin, module = networks()
    slow = [p.detach().double() for p in twin.parameters()]
    fast = [p.detach().clone() for p in module.parameters()]
    follow(twin, module, torch.tensor(momentum))
    for found, before, towards, now in zip(twin.parameters(), slow, fast, module.parameters(), strict=True):
        expected = momentum * before + (1 - momentum) * towards.double()
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
        assert torch.equal(now, towards)


def test_buffers_of_the_twin_are_its_own() -> None:
    twin, module = networks()
    module.train()(torch.randn(10, 3, generator=torch.Generator().manual_seed(1)))
    before = [buffer.clone() for buffer in twin.buffers()]
    follow(twin, module, torch.tensor(0.5))
    assert all(map(torch.equal, twin.buffers(), before))
    assert not torch.equal(next(twin.buffers()), next(module.buffers()))


def test_following_a_module_that_stands_still_closes_the_gap_geometrically() -> None:
    twin, module = networks()
    gaps = [(slow - fast).detach() for slow, fast in zip(twin.parameters(), module.parameters(), strict=True)]
    for _ in range(20):
        follow(twin, module, torch.tensor(0.9))
    for slow, fast, gap in zip(twin.parameters(), module.parameters(), gaps, strict=True):
        torch.testing.assert_close((slow - fast).detach(), 0.9**20 * gap, rtol=1e-4, atol=1e-6)


def test_frozen_modules_have_no_gradient_and_still_pass_it_on() -> None:
    layer = frozen(nn.Linear(3, 2))
    inward = torch.ones(1, 3, requires_grad=True)
    layer(inward).sum().backward()
    assert inward.grad is not None and all(p.grad is None and not p.requires_grad for p in layer.parameters())


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(0.0, 0.99), (1 / 3, 0.9925), (0.5, 0.995), (2 / 3, 0.9975), (1.0, 1.0)],  # cos(π/3) = 1/2
)
def test_momentum_rises_from_its_start_to_one_along_a_cosine(progress: float, expected: float) -> None:
    assert rising_momentum(0.99, torch.tensor(progress)).item() == pytest.approx(expected, abs=1e-6)


def test_momentum_of_every_step_follows_the_closed_form() -> None:
    steps = 37
    for step in range(steps):
        expected = 1 - 0.1 * (1 + math.cos(math.pi * step / steps)) / 2
        found = rising_momentum(0.9, torch.tensor(step / steps, dtype=torch.float64))
        assert found.shape == () and found.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("steps", [1000, 10_000])
def test_the_rate_rises_in_a_line_for_its_share_and_then_falls_along_a_cosine(steps: int) -> None:
    rise, schedule = steps // 10, WarmUpCosine(0.1)
    for step in (0, 1, rise // 2, rise - 1):
        assert schedule(step, steps) == pytest.approx(step / rise)
    for step in (rise, rise + 1, steps // 2, steps - 1):
        expected = (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2
        assert schedule(step, steps) == pytest.approx(expected)
    assert schedule(rise, steps) == 1.0 and schedule(steps - 1, steps) < 1e-4


@pytest.mark.parametrize(("share", "steps"), [(0.0, 1), (0.0, 50), (0.1, 1), (0.1, 9), (0.99, 1)])
def test_a_warm_up_shorter_than_a_step_is_none(share: float, steps: int) -> None:
    assert WarmUpCosine(share)(0, steps) == 1.0


def test_equal_schedules_compare_equal() -> None:
    assert WarmUpCosine(0.1) == WarmUpCosine(0.1) != WarmUpCosine(0.2)
