"""A folder with a node table and an edge table, each of any format that tables come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.readers.base import Found, Reader, Request
from fossil.readers.registry import table_readers
from fossil.readers.tables import Frame, raw_from_frames


class Folder(Reader):
    """A folder with `nodes` and `edges` tables."""

    name = "folder"
    form = "a folder with nodes and edges tables"
    has_columns = True

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is a folder."""
        return isinstance(source, Path) and source.is_dir()

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read the two tables in it."""
        return read_tables(source, request)


def read_tables(source: Path, request: Request) -> Found:
    """Read the node table and the edge table that a folder, or a node table, stands for.

    Raises:
        GraphError: a file is missing, malformed, or does not fit the other one.
    """
    nodes, edges = table_paths(source, request.edges)
    folder_names_it = source.is_dir() or source.stem == "nodes"
    title = request.name or (nodes.resolve().parent.name if folder_names_it else source.stem)
    edge_frame = None if edges is None else read_frame(edges)
    return Found(*raw_from_frames(read_frame(nodes), edge_frame, request.choices, title))


def table_paths(source: Path, edges: Path | None) -> tuple[Path, Path | None]:
    """Return the node file and the edge file that a folder, or a node file, stands for.

    Raises:
        GraphError: a folder without exactly one node file, or with several edge files.
    """
    folder = source if source.is_dir() else source.parent
    nodes = _only(folder, "nodes") if source.is_dir() else source
    if nodes is None:
        wanted = ", ".join(f"nodes{suffix}" for suffix in table_readers())
        raise GraphError(f"Folder {folder} has none of {wanted}.", remedy="Put a node table there, or name the file.")
    return nodes, edges or _only(folder, "edges")


def read_frame(path: Path) -> Frame:
    """Read one table; the suffix tells the format.

    Raises:
        GraphError: the file is missing, unreadable, empty or malformed.
    """
    known, suffix = table_readers(), path.suffix.lower()
    if suffix not in known:
        raise GraphError(f"{path} is no table this package reads.", remedy=f"Use one of {', '.join(known)}.")
    if not path.is_file():
        raise GraphError(f"{path} does not exist.", remedy="Check the spelling of the path.")
    return known[suffix].read_frame(path)


def _only(folder: Path, stem: str) -> Path | None:
    candidates = [folder / f"{stem}{suffix}" for suffix in table_readers()]
    found = [path for path in candidates if path.is_file()]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise GraphError(f"Folder {folder} has both {names}.", remedy="Keep one, or name the file to read.")
    return found[0] if found else None
