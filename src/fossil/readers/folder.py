"""A folder with a node table and an edge table, each of any format that tables come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.graph.disk import MANIFEST
from fossil.graph.troubles import Troubles
from fossil.guard.boundary import check_regular, exists, reading
from fossil.readers.base import Found, Reader, Request, split_name
from fossil.readers.edges import named_ends
from fossil.readers.frame import Frame
from fossil.readers.registry import table_readers
from fossil.readers.tables import raw_from_frames


class Folder(Reader):
    """A folder with `nodes` and `edges` tables, or with `edges` alone where features are made from them."""

    name = "folder"
    form = "a folder with nodes and edges tables"
    has_columns = True

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is a folder, and none that holds a converted graph."""
        return isinstance(source, Path) and source.is_dir() and not exists(source / MANIFEST)

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read the two tables in it."""
        return read_tables(source, request)


def read_tables(source: Path, request: Request) -> Found:
    """Read the node table and the edge table that a folder, or a table, stands for.

    An edge table alone will do where features are made from the edges.

    Raises:
        GraphError: a file is missing, malformed, or does not fit the other one.
    """
    nodes, edges = table_paths(source, request.edges)
    troubles, node_frame, edge_frame = Troubles(str(source)), None, None
    with troubles.gathered():
        node_frame = None if nodes is None else read_frame(nodes)
    with troubles.gathered():
        edge_frame = None if edges is None else read_frame(edges)
    troubles.raise_any()
    if edges is None and node_frame is not None and named_ends(node_frame) is not None:
        node_frame, edge_frame = None, node_frame
    if node_frame is None and not request.structural_features:
        beside = None if source.is_dir() else _only(source.parent, "nodes")
        give = "Put a node table beside the edges" if beside is None else f"Give the folder, {source.parent}"
        raise GraphError(
            f"{source} has edges and no node table ({_wanted()}).",
            remedy=f"{give}, or take the nodes from the edges and make features of them with --structural-features.",
        )
    name = request.name or _title(source)
    return Found(*raw_from_frames(node_frame, edge_frame, request.choices, name, treatment=request.treatment))


def _title(source: Path) -> str:
    """Return the name of the folder, or of the file unless that says only what is in it."""
    stem = split_name(source, table_readers())[0]
    if source.is_dir():
        return source.resolve().name
    return source.resolve().parent.name if stem in ("nodes", "edges") else stem


def table_paths(source: Path, edges: Path | None) -> tuple[Path | None, Path | None]:
    """Return the node file and the edge file that a folder, or a file, stands for; at least one of them.

    A file is taken as the node table, unless it is the one called `edges`.

    Raises:
        GraphError: a folder with neither, or with several node files or several edge files.
    """
    folder = source if source.is_dir() else source.parent
    edges = edges or _only(folder, "edges")
    if source.is_dir():
        nodes = _only(folder, "nodes")
    else:
        nodes = None if edges is not None and source.resolve() == edges.resolve() else source
    if nodes is None and edges is None:
        raise GraphError(
            f"Folder {folder} has none of {_wanted()}.",
            remedy="Its tables are in parts: make one graph of them with fossil data convert."
            if (folder / "nodes").is_dir()
            else "Put a node table there, or name the file.",
        )
    return nodes, edges


def _wanted() -> str:
    return ", ".join(f"nodes{suffix}" for suffix in table_readers())


def read_frame(path: Path) -> Frame:
    """Read one table; the suffix tells the format.

    Raises:
        GraphError: the file is missing, unreadable, empty or malformed.
    """
    known = table_readers()
    suffix = split_name(path, known)[1]
    if suffix not in known:
        raise GraphError(f"{path} is no table this package reads.", remedy=f"Use one of {', '.join(known)}.")
    check_regular(path)
    with reading(path):
        return known[suffix].read_frame(path)


def _only(folder: Path, stem: str) -> Path | None:
    candidates = [folder / f"{stem}{suffix}" for suffix in table_readers()]
    found = [path for path in candidates if exists(path)]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise GraphError(f"Folder {folder} has both {names}.", remedy="Keep one, or name the file to read.")
    return found[0] if found else None
