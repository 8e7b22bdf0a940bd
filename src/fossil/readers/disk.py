"""Folders that `fossil data convert` made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fossil.errors import GraphError, RunError
from fossil.graph.disk import ENCODING, MANIFEST, DiskGraph
from fossil.guard.boundary import exists
from fossil.readers.base import Found, Reader, Request
from fossil.readers.encoding import EncodingPlan
from fossil.storage import read_json


class DiskFolder(Reader):
    """A graph on disk, opened without being loaded."""

    name = "disk"
    form = "a folder made by `fossil data convert`"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is a folder with the manifest of a graph."""
        return isinstance(source, Path) and exists(source / MANIFEST)

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Open the arrays."""
        return Found(DiskGraph(source), read_encoding(source))


def read_encoding(folder: Path) -> EncodingPlan | None:
    """Return how the columns of a converted graph became features; None where it had none.

    Raises:
        GraphError: the file is damaged.
    """
    if not exists(folder / ENCODING):
        return None
    try:
        return EncodingPlan.from_json(read_json(folder / ENCODING))
    except RunError as error:
        raise GraphError(error.what, remedy="Convert the graph again.") from error
