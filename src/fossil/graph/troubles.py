"""Everything that is wrong with a graph, told at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from fossil.errors import GraphError

_LONGEST_LIST = 20


class TroublesError(GraphError):
    """Several troubles in one message: a line each, with its own remedy.

    Attributes:
        parts: what is wrong, one by one.
    """

    def __init__(self, name: str, parts: Sequence[GraphError]) -> None:
        lines = [f"  {number}. {part.what} {part.remedy}" for number, part in enumerate(parts, start=1)]
        more = [f"  ... and {len(lines) - _LONGEST_LIST:,} more"] if len(lines) > _LONGEST_LIST else []
        super().__init__(
            "\n".join([f"{name} has {len(parts):,} problems:", *lines[:_LONGEST_LIST], *more]),
            remedy="Each line ends with its own.",
        )
        self.parts = tuple(parts)


class Troubles:
    """Collects errors, so that whoever gave the input sees all of them in one message.

    >>> troubles = Troubles("people")
    >>> troubles.add("Column 'age' is empty.", remedy="Fill it.")
    >>> troubles.raise_any()
    Traceback (most recent call last):
    fossil.errors.GraphError: Column 'age' is empty. Fill it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._parts: list[GraphError] = []

    def add(self, what: str, *, remedy: str) -> None:
        """Keep one trouble."""
        self._parts.append(GraphError(what, remedy=remedy))

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep the error that ends the block, if one does."""
        try:
            yield
        except TroublesError as several:
            self._parts += several.parts
        except GraphError as one:
            self._parts.append(one)

    def raise_any(self) -> None:
        """Raise what was kept: the error itself where there is one, all in one message where there are several.

        Raises:
            GraphError: something was kept.
        """
        if len(self._parts) == 1:
            raise self._parts[0]
        if self._parts:
            raise TroublesError(self.name, self._parts)


def listed(values: Iterable[object], total: int, shown: int = 3) -> str:
    """Return the first few of `total` values in words.

    >>> listed(["a", "b"], 2), listed("abcde", 5)
    ('a and b', 'a, b, c and 2 more')
    """
    first = [str(value) for value in islice(values, shown)]
    if total > len(first):
        return f"{', '.join(first)} and {total - len(first):,} more"
    return " and ".join(filter(None, [", ".join(first[:-1]), first[-1]])) if first else ""
