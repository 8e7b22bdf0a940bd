"""The contract of a reader: one form in which graphs come, a file each."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from fossil.graph.assemble import RawGraph
from fossil.graph.graph import Graph
from fossil.readers.encoding import ColumnChoices, EncodingPlan
from fossil.readers.tables import Frame


@dataclass(frozen=True)
class Request:
    """What a caller said about a graph.

    Attributes:
        choices: about columns.
        edges: the edge table, beside a node table.
        name: what to call the graph; the reader knows a name when None.
    """

    choices: ColumnChoices = field(default_factory=ColumnChoices)
    edges: Path | None = None
    name: str | None = None


class Found(NamedTuple):
    """What a reader found: a graph, finished or in parts, and the plan for its columns, if it has any."""

    graph: Graph | RawGraph
    plan: EncodingPlan | None = None


class Reader(ABC):
    """One form in which graphs come.

    A reader is found by being in this package, or by an entry point of another package in the group `fossil.readers`.

    Class attributes:
        name: what to call it.
        form: what it reads, in words, as in "give a path, or a NetworkX graph".
        suffixes: of the files it reads; none for objects.
        has_columns: whether nodes have columns, of which a caller can say what they are.
    """

    name: ClassVar[str]
    form: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    has_columns: ClassVar[bool] = False

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is such a graph: a `Path` that exists, or an object. By default, by its suffix."""
        return isinstance(source, Path) and source.suffix.lower() in cls.suffixes

    @classmethod
    @abstractmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read the graph.

        Raises:
            GraphError: it cannot be read, with the file, the place and a remedy.
        """


class TableReader(Reader):
    """A file that holds one table: the nodes, with the edges in another file, or the edges."""

    has_columns: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def read_frame(cls, path: Path) -> Frame:
        """Read one table.

        Raises:
            GraphError: the file is unreadable, empty or malformed.
        """

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read a node table and the edge table beside it, which may be of another format."""
        from fossil.readers.folder import read_tables

        return read_tables(source, request)


def instance_of(value: object, module: str, name: str) -> bool:
    """Tell whether `value` is an instance of a class of a package that may not be installed, without importing it."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)
