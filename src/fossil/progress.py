"""How long work says how far it is: it calls a function now and then, which its caller gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[float], None]
"""Takes the share of the work that is done, which rises and is 1 at the end."""
StageProgress: TypeAlias = Callable[[str, float], None]
"""Takes the stage that is at work, in a word or two, and the share of it that is done."""
CountProgress: TypeAlias = Callable[[int, int], None]
"""Takes how many are done, and of how many."""


def silent(*_: object) -> None:
    """Say nothing."""
