"""A console that shows text exactly as it is: names and ids of the user's are no markup and no escape sequences."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from fossil.printable import DEGRADE, printable

_UNBOUNDED = 100_000  # columns: wider than any line


class PlainConsole(Console):
    """Interprets nothing in a text; what its encoding has not is spelt with what it has."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        if not self.is_terminal:  # a pipe or a file has no width to wrap or cut at
            self.soft_wrap, self.width = True, _UNBOUNDED

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text for the terminal: Rich asks here for every string, alone, in a title or in a cell."""
        return super().render_str(spelt(printable(text), self.encoding), **options)


def spelt(text: str, encoding: str) -> str:
    """Return a text in signs that an encoding has.

    >>> spelt("λ = 0.5 ± 0.1", "cp1252")
    'lambda = 0.5 ± 0.1'
    """
    return text.encode(encoding, DEGRADE).decode(encoding)
