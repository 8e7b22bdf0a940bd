"""Repeating a step, each problem of a batch until it stands still, and the settings that govern it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.transport.caution import warn_the_caller

SMALLEST_STEADY_STEP = 0.01
"""Below this step the iteration often cycles, and float32 and float64 part company."""

State: TypeAlias = tuple[Tensor, ...]
"""Tensors of three dimensions that start with the batch; the first is the plan."""


class Outcome(NamedTuple):
    """Where a solver ended.

    Attributes:
        plan: B×n×m plans (P).
        iterations: B numbers of iterations made.
        converged: B answers to whether the tolerance was met.
    """

    plan: Tensor
    iterations: Tensor
    converged: Tensor


def iterate(advance: Callable[[State], State], start: State, iterations: int, tolerance: float | None) -> Outcome:
    """Apply `advance` again and again.

    Args:
        advance: one iteration for the whole batch, which must not mix its problems.
        start: the state before the first iteration.
        iterations: the most iterations made.
        tolerance: a problem is left alone once an iteration moves its plan by no more than this (Frobenius norm). None
            makes every iteration and never waits for the device.
    """
    state, batch = start, start[0].shape[0]
    made = torch.zeros(batch, dtype=torch.int64, device=start[0].device)
    moving = torch.ones_like(made, dtype=torch.bool)
    for _ in range(iterations):
        after = advance(state)
        made += moving
        if tolerance is None:
            state = after
            continue
        change = torch.linalg.vector_norm((after[0] - state[0]).detach(), dim=(1, 2))
        state = tuple(torch.where(moving[:, None, None], new, old) for new, old in zip(after, state, strict=True))
        moving = moving & (change > tolerance)
        if not moving.any():
            break
    return Outcome(state[0], made, ~moving)


def check_settings(step: float, iterations: int, tolerance: float | None) -> None:
    """Refuse settings that no solver of the fused problem can work with, and warn of a step that may make it cycle.

    Raises:
        SettingError: names the first.

    Warns:
        FossilWarning: the step is below 0.01.
    """
    check_positive(step=step)
    check_counts(iterations=iterations)
    check_tolerance(tolerance)
    if step < SMALLEST_STEADY_STEP:
        warn_the_caller(
            f"step={step:g} is below {SMALLEST_STEADY_STEP}: the iteration may cycle, and the value then depends "
            "on the exact number of iterations and on rounding."
        )


def check_positive(**settings: float) -> None:
    """Refuse settings that are not positive numbers.

    Raises:
        SettingError: names the first.
    """
    for name, value in settings.items():
        if not (_is_number(value) and value > 0 and math.isfinite(value)):
            raise SettingError(f"{name}={value!r} is not accepted.", remedy="Give a positive number, such as 0.1.")


def check_counts(**settings: int) -> None:
    """Refuse settings that are not whole numbers from 1 up.

    Raises:
        SettingError: names the first.
    """
    for name, value in settings.items():
        if not (isinstance(value, int) and value >= 1):
            raise SettingError(f"{name}={value!r} is not accepted.", remedy="Give a whole number from 1 up.")


def check_tolerance(tolerance: float | None) -> None:
    """Refuse a tolerance that is neither None nor a number from 0 up.

    Raises:
        SettingError: names it.
    """
    if tolerance is not None and not (_is_number(tolerance) and tolerance >= 0):
        raise SettingError(f"tolerance={tolerance!r} is not accepted.", remedy="Give a number from 0 up, or None.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
