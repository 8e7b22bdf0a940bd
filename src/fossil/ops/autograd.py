"""PyTorch's own kind of differentiable function, with types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch


class Function(torch.autograd.Function):
    """`torch.autograd.Function`, whose `apply` type checkers know."""

    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *arguments: Any) -> Any:
            """Call `forward`, and `backward` in a backward pass."""
