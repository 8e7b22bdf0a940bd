"""GraphML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fossil.errors import GraphError
from fossil.guard.budget import check_need
from fossil.readers.base import Found, Reader, Request
from fossil.readers.networkx import read_networkx

_TEXT_COST = 20  # bytes that a byte of XML takes as a tree and a graph


class GraphMLFile(Reader):
    """GraphML, read by NetworkX; node attributes become columns under the encoding plan."""

    name = "graphml"
    form = "a .graphml file"
    suffixes = (".graphml",)
    has_columns = True

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read the file.

        Raises:
            GraphError: it is not GraphML, or an attribute cannot be encoded.
        """
        return read_networkx(_parse(source), request, request.name or source.stem)


def _parse(path: Path) -> Any:
    import networkx as nx

    check_need(path, _TEXT_COST * path.stat().st_size)
    try:
        return nx.read_graphml(path)
    except (nx.NetworkXException, SyntaxError, LookupError, TypeError, ValueError, OSError) as error:
        # The XML parser's error is a SyntaxError; NetworkX answers a wrong attribute type with KeyError or ValueError,
        # and Python an unknown encoding with LookupError.
        raise GraphError(
            f"{path} is not GraphML that can be read ({error}).", remedy="Export the graph again."
        ) from error
