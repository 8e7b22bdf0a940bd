"""A slowly moving twin of a module, and the two schedules that go with it.

The twin φ is never differentiated: after each step of the optimiser it moves a little towards the module θ that learns,

    φ ← m φ + (1 - m) θ,        m(t) = 1 - (1 - m₀) (1 + cos(π t/T)) / 2,

so that m rises from m₀ to 1 over the training, while the learning rate of θ rises over a first share of it and then
falls along half a cosine to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

Twin = TypeVar("Twin", bound=nn.Module)


def frozen(module: Twin) -> Twin:
    """Return `module` itself, its parameters without gradient from now on."""
    return module.requires_grad_(False)


@torch.no_grad()
def follow(twin: nn.Module, module: nn.Module, momentum: Tensor) -> None:
    """Move the parameters of `twin` to momentum · twin + (1 - momentum) · module; buffers stay.

    Args:
        twin: what is moved, in place.
        module: of the same make, what it follows.
        momentum: m, a 0-dim tensor on their device; it is not read on the host.
    """
    slow: list[Tensor] = list(twin.parameters())
    fast: list[Tensor] = list(module.parameters())
    torch._foreach_mul_(slow, momentum)
    torch._foreach_add_(slow, torch._foreach_mul(fast, 1 - momentum))


def rising_momentum(start: float, progress: Tensor) -> Tensor:
    """Return m, 0-dim, which rises from `start` to 1 along half a cosine as `progress` (0-dim) goes from 0 to 1."""
    return 1 - (1 - start) * (1 + torch.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class WarmUpCosine:
    """Factor of a learning rate: up from 0 to 1 in a straight line, then down to 0 along half a cosine.

    The first step of a warm-up has rate zero. The warm-up has ⌊share · steps⌋ steps, which may be none.

    >>> rise_and_fall = WarmUpCosine(0.1)
    >>> [rise_and_fall(step, 1000) for step in (0, 50, 100, 550)]
    [0.0, 0.5, 1.0, 0.5]

    Attributes:
        share: part of all steps that is warm-up, in [0, 1).
    """

    share: float

    def __call__(self, step: int, steps: int) -> float:
        """Return the factor at `step`, counted from zero, of `steps`."""
        rise = math.floor(self.share * steps)
        if step < rise:
            return step / rise
        return (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2
