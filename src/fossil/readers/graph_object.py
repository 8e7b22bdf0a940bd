"""Graphs that are one already."""

from __future__ import annotations

from typing import Any

from fossil.graph.graph import Graph
from fossil.readers.base import Found, Reader, Request


class GraphObject(Reader):
    """A `fossil.Graph`, taken as it is."""

    name = "graph"
    form = "a Graph"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is one."""
        return isinstance(source, Graph)

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Return it."""
        return Found(source)
