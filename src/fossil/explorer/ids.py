"""Ids of very many nodes, found by a part of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fossil.graph.graph import Array
from fossil.report.contract import brief

_END = b"\xff"  # a byte that no UTF-8 has
_PART = 65_536  # ids encoded at a time


class Ids:
    """N ids as one piece of bytes, which takes little memory and is searched quickly.

    Upper and lower case are the same to a search, and so are `7` and `"7"`.

    >>> ids = Ids(np.array(["Ada", "adalbert", "Canada", "bob"]))
    >>> ids.find("ada", 10)
    [0, 1, 2]
    """

    def __init__(self, ids: Array) -> None:
        self.ids = ids
        parts, lengths = [], []
        for start in range(0, len(ids), _PART):
            encoded = [_folded(str(key)) for key in ids[start : start + _PART].tolist()]
            lengths.append(np.array([len(each) + 1 for each in encoded], np.int64))
            parts.append(_END.join(encoded))
        self._text = _END + _END.join(parts) + _END
        # Where each id's closing byte is; the one that opens the first is at zero.
        self._ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> str:
        """Return an id as a page shows it; a search looks at all of it."""
        return brief(str(self.ids[row]))

    def find(self, text: str, limit: int) -> list[int]:
        """Return the rows of ids that hold a text: that is the id, then those that begin with it, then the others."""
        sought = _folded(text)
        if not sought:
            return list(range(min(limit, len(self))))
        found: dict[int, None] = {}
        for pattern in (_END + sought + _END, _END + sought, sought):
            for row in self._rows(pattern):
                if len(found) >= limit:
                    return list(found)
                found[row] = None
        return list(found)

    def _rows(self, pattern: bytes) -> Iterator[int]:
        """Yield each row that has the pattern, in rising order."""
        place = self._text.find(pattern)
        while place >= 0:
            first = place + pattern.startswith(_END)
            row = int(np.searchsorted(self._ends, first, side="right")) - 1
            yield row
            place = self._text.find(pattern, int(self._ends[row + 1]))


def _folded(text: str) -> bytes:
    return text.casefold().encode("utf-8", "surrogatepass")
