"""NetworkX graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fossil.errors import GraphError
from fossil.readers.base import Found, Reader, Request, instance_of
from fossil.readers.cells import Column
from fossil.readers.frame import Frame, id_texts
from fossil.readers.planning import ColumnChoices
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
            GraphError: two nodes or two attributes have the same text, or an attribute cannot be encoded.
        """
        return read_networkx(source, request, request.name or "graph")


def read_networkx(source: nx.Graph[Any], request: Request, name: str) -> Found:
    """Read a graph that NetworkX holds, or has parsed."""
    attributes = list(dict.fromkeys(key for _, values in source.nodes(data=True) for key in values))
    keys = list(source.nodes)
    columns: dict[str, Column] = {}
    for key in attributes:
        if str(key) in columns:
            raise GraphError(
                f"Nodes of NetworkX graph {name!r} have two attributes called {str(key)!r}.",
                remedy="Give each its own name: 1 and '1' are one.",
            )
        columns[str(key)] = [source.nodes[node].get(key) for node in keys]
    id_name = next((each for each in _said_ids(request.choices) if each in columns), None)
    if id_name is None:
        # The node itself is the id, whatever attributes exist; a name that no attribute has keeps them apart.
        id_name = next(f"node{'_' * extra}" for extra in range(len(columns) + 1) if f"node{'_' * extra}" not in columns)
        columns = {id_name: [str(key) for key in keys]} | columns
    nodes = Frame(f"NetworkX graph {name!r}", columns, [repr(str(key)) for key in keys], unit="node")
    edges = _edges(source, name, dict(zip(keys, id_texts(columns[id_name]), strict=True)))
    return Found(*raw_from_frames(nodes, edges, request.choices, name, id_name, request.treatment))


def _said_ids(choices: ColumnChoices) -> list[str]:
    """Return the column that was declared to hold the ids, or that of the plan."""
    planned = choices.plan.columns if choices.plan is not None else ()
    declared = [name for name, said in choices.declared().items() if said.role == "id"]
    return [*declared, *(column.name for column in planned if column.role == "id")]


def _edges(source: nx.Graph[Any], name: str, ids: Mapping[Any, str]) -> Frame:
    edges = [(ids[a], ids[b], values) for a, b, values in source.edges(data=True)]
    if not source.is_directed():
        edges += [(b, a, values) for a, b, values in edges if a != b]
    columns: dict[str, Column] = {"source": [a for a, *_ in edges], "target": [b for _, b, _ in edges]}
    for key in dict.fromkeys(key for *_, values in edges for key in values):
        columns.setdefault(str(key), [values.get(key) for *_, values in edges])
    return Frame(f"NetworkX graph {name!r}", columns, range(1, len(edges) + 1), unit="edge")
