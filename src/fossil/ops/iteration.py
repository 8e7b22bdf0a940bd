"""Repeating a step for a batch of problems, each until it stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

State: TypeAlias = tuple[Tensor, ...]
"""Tensors of three dimensions that start with the batch; the first is the plan."""


class Outcome(NamedTuple):
    """Where an iteration ended.

    Attributes:
        plan: B×n×m plans (P).
        iterations: B numbers of iterations made.
        settled: B answers to whether the plan stood still, to the tolerance asked for.
    """

    plan: Tensor
    iterations: Tensor
    settled: Tensor


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


def all_made(plan: Tensor, iterations: int) -> Outcome:
    """Return plans after a fixed number of iterations, of which nobody knows whether they stand still."""
    made = torch.full(plan.shape[:1], iterations, dtype=torch.int64, device=plan.device)
    return Outcome(plan, made, torch.zeros_like(made, dtype=torch.bool))
