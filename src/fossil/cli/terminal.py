"""What is printed, exactly as it is: names and ids of the user's may look like markup, and must come out unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def plain_console() -> Console:
    """Return a console that interprets nothing in a text."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    console.soft_wrap = not console.is_terminal  # a pipe or a file has no width to wrap to
    return console
