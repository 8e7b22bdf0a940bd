"""The contract of a reader: one form in which graphs come, a file each."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from fossil.graph.assemble import RawGraph
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.readers.encoding import EncodingPlan
from fossil.readers.frame import Frame
from fossil.readers.planning import ColumnChoices


@dataclass(frozen=True)
class Request:
    """What a caller said about a graph.

    Attributes:
        choices: about columns.
        edges: the edge table, beside a node table.
        name: what to call the graph; the reader knows a name when None.
        treatment: what is done about oddities.
        structural_features: whether features are made from the edges, so that no node table is needed.
    """

    choices: ColumnChoices = field(default_factory=ColumnChoices)
    edges: Path | None = None
    name: str | None = None
    treatment: Treatment = field(default_factory=Treatment)
    structural_features: bool = False


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
        return isinstance(source, Path) and split_name(source, cls.suffixes)[1] in cls.suffixes

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


def split_name(path: Path, suffixes: Iterable[str]) -> tuple[str, str]:
    """Return the name of a file without that one of `suffixes` it ends in, and the suffix; its last one otherwise.

    >>> split_name(Path("ties.CSV.gz"), (".csv", ".csv.gz"))
    ('ties', '.csv.gz')
    """
    found = next((suffix for suffix in suffixes if path.name.lower().endswith(suffix)), path.suffix.lower())
    return path.name[: len(path.name) - len(found)], found


def instance_of(value: object, module: str, name: str) -> bool:
    """Tell whether `value` is an instance of a class of a package that may not be installed, without importing it."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)
