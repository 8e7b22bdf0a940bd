"""Training that has diverged: numbers that are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from fossil.errors import RunError


class DivergedError(RunError):
    """Training diverged.

    Attributes:
        fault: how that is seen, in words.
    """

    def __init__(self, fault: str, *, remedy: str = "Lower the learning rates or train fewer epochs.") -> None:
        super().__init__(f"Training diverged: {fault}.", remedy=remedy)
        self.fault = fault

    @classmethod
    def after(cls, epoch: int, numbers: str) -> Self:
        """Return the error for numbers that are not finite, as the state after some epoch has them."""
        return cls(f"not finite{f' after epoch {epoch}' if epoch else ''}: {numbers}")


def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor with a value that is NaN or infinite; None where all are finite."""
    checked = {name: value.isfinite().all() for name, value in tensors.items() if value.is_floating_point()}
    if not checked:
        return None
    finite = torch.stack([each.cpu() for each in checked.values()]).tolist()
    return next((name for name, good in zip(checked, finite, strict=True) if not good), None)
