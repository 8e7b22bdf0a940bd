"""NetworkX graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fossil.readers.base import Found, Reader, Request, instance_of
from fossil.readers.cells import Column
from fossil.readers.frame import Frame
from fossil.readers.tables import raw_from_frames

if TYPE_CHECKING:
    import networkx as nx


class NetworkXGraph(Reader):
    """A NetworkX graph: node attributes are columns; an undirected edge gives both directions."""

    name = "networkx"
    form = "a NetworkX graph"
    has_columns = True

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """Tell whether this is one."""
        return instance_of(source, "networkx", "Graph")

    @classmethod
    def read(cls, source: Any, request: Request) -> Found:
        """Read it.

        Raises:
            GraphError: two nodes have the same text, or an attribute cannot be encoded.
        """
        return read_networkx(source, request, request.name or "graph")


def read_networkx(source: nx.Graph[Any], request: Request, name: str) -> Found:
    """Read a graph that NetworkX holds, or has parsed."""
    attributes = list(dict.fromkeys(key for _, values in source.nodes(data=True) for key in values))
    keys = list(source.nodes)
    # The node itself is the id, whatever attributes exist; a name that no attribute has keeps them apart.
    id_name = next(
        f"node{'_' * extra}" for extra in range(len(attributes) + 1) if f"node{'_' * extra}" not in attributes
    )
    columns: dict[str, Column] = {id_name: [str(key) for key in keys]}
    columns |= {str(key): [source.nodes[node].get(key) for node in keys] for key in attributes}
    nodes = Frame(f"NetworkX graph {name!r}", columns, [repr(str(key)) for key in keys], unit="node")
    return Found(*raw_from_frames(nodes, _edges(source, name), request.choices, name, id_name, request.treatment))


def _edges(source: nx.Graph[Any], name: str) -> Frame:
    edges = [(str(a), str(b), values) for a, b, values in source.edges(data=True)]
    if not source.is_directed():
        edges += [(b, a, values) for a, b, values in edges if a != b]
    columns: dict[str, Column] = {"source": [a for a, *_ in edges], "target": [b for _, b, _ in edges]}
    for key in dict.fromkeys(key for *_, values in edges for key in values):
        columns.setdefault(str(key), [values.get(key) for *_, values in edges])
    return Frame(f"NetworkX graph {name!r}", columns, range(1, len(edges) + 1), unit="edge")
