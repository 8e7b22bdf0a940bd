"""What a planted fault is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Planted:
    """A fault.

    Attributes:
        name: what is wrong.
        file: where, from the root of the tree.
        old: text that stands there once.
        new: what to put in its place.
        tests: files, or single tests, that can see it.
        reason: why none of them does, where that is so.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str | None = None

    def applied(self, root: Path) -> str:
        """Return the file with the fault in it.

        Raises:
            ValueError: the text does not stand there once.
        """
        source = (root / self.file).read_text(encoding="utf-8")
        if source.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.old!r} stands {source.count(self.old)} times in {self.file}, not once"
            )
        return source.replace(self.old, self.new)
