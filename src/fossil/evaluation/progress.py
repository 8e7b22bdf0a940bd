"""How scoring tells its caller how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[float], None]
"""Told now and then which share of the work is done; the share rises and is 1 at the end."""


def silent(share: float) -> None:
    """Say nothing."""
