"""What is odd about a graph, and what is done about it: findings are reported, never silently mended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fossil.settings import Settings, setting

# A kind of oddity begins with what it counts, in the plural.
_COUNTED = re.compile(r"((?:\w+ ){0,2}?(?:edge|loop|node|row|cell|column|feature|weight|task))s\b")
_SINGULAR = {
    "edges that name": "edge that names",
    "edges without their": "edge without its",
    "unknown categories": "unknown category",
}

Missing: TypeAlias = Literal["refuse", "mean", "median", "most_frequent", "zero"]


@dataclass(frozen=True)
class Finding:
    """One observation about the input.

    Attributes:
        kind: `duplicate edges`, `self loops`, `isolated nodes`, `zero feature rows`, `direction`, ...
        count: how many edges, nodes or columns are concerned.
        done: what was done about it, for example `removed` or `kept`.
        examples: up to three ids, to go and look.
    """

    kind: str
    count: int
    done: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = f" (for example {', '.join(self.examples)})" if self.examples else ""
        return f"{counted(self.count, self.kind)}: {self.done}{shown}"


def counted(count: int, kind: str) -> str:
    """Return how many there are of a kind of oddity, in the singular where it is one.

    >>> counted(1200, "isolated nodes"), counted(1, "self loops"), counted(1, "edges that name unknown nodes")
    ('1,200 isolated nodes', '1 self loop', '1 edge that names unknown nodes')
    """
    if count == 1:
        plural = next((start for start in _SINGULAR if kind.startswith(start)), None)
        found = _COUNTED.match(kind)
        if plural is not None:
            kind = _SINGULAR[plural] + kind.removeprefix(plural)
        elif found is not None:
            kind = found[1] + kind[found.end() :]
    return f"{count:,} {kind}"


class Treatment(Settings):
    """What is done about each kind of finding."""

    duplicates: Literal["merge", "refuse"] = setting("merge", "edges given more than once")
    self_loops: Literal["remove", "keep", "refuse"] = setting(
        "remove", "edges from a node to itself", origin="Section 4.2: the adjacency matrix has no self-loops"
    )
    direction: Literal["keep", "symmetrize", "reverse"] = setting(
        "keep",
        "edges without their reverse: a node learns from the nodes it points to (keep), from both ends (symmetrize) or "
        "from those that point to it (reverse)",
        origin="the released code trains on the files as they are",
    )
    unknown_edges: Literal["refuse", "drop"] = setting("refuse", "edges that name a node missing from the node table")
    edge_weights: Literal["refuse", "ignore"] = setting(
        "refuse", "numbers that differ between edges, which no method uses"
    )
    missing: Missing = setting(
        "refuse", "empty cells of numeric, boolean and date columns: refused, or filled with this value of the column"
    )
    missing_indicator: bool = setting(
        False, "one more feature for every column with empty cells: 1 where the cell is empty, else 0"
    )
    isolated: Literal["keep", "drop", "refuse"] = setting("keep", "nodes without any edge")
    zero_features: Literal["keep", "drop", "refuse"] = setting("keep", "nodes whose features are all zero")

    @classmethod
    def of(cls, given: Treatment | Mapping[str, Any] | None) -> Treatment | None:
        """Return what a caller gave as a treatment, whether it is one already or names some of its settings."""
        return given if given is None or isinstance(given, Treatment) else cls.build(given)

    @property
    def of_cells(self) -> list[str]:
        """Names of what was asked about empty cells, which only tables have."""
        return [name for name in ("missing", "missing_indicator") if getattr(self, name) != getattr(Treatment(), name)]
