"""A catalogue name, a path or a Python object: whatever a caller means by "this graph"."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from fossil.datasets import catalog
from fossil.errors import DataError, GraphError, nearest
from fossil.graph.findings import Treatment
from fossil.guard.boundary import exists
from fossil.readers.read import LoadedGraph, read_graph
from fossil.settings import parse_assignments


def open_graph(source: Any, *, treatment: Treatment | Mapping[str, Any] | None = None, **options: Any) -> LoadedGraph:
    """Return the graph that `source` stands for.

    A string is looked up in the catalogue first; write `./cora` for a folder that shares a catalogue name. Parameters
    of a graph made on the spot follow a colon: `csbm:nodes=2000,homophily=0.2`.

    Args:
        source: a catalogue name, or anything `read_graph` takes.
        treatment: what is done about oddities; a `Treatment`, or some of its settings by name.
        **options: further arguments of `read_graph`, for a user's own files.

    Raises:
        GraphError: it is neither a known name nor something that can be read.
        TypeError: `read_graph` has no such argument.
    """
    treatment = Treatment.of(treatment)
    signature(read_graph).bind(source, **options)  # a name that it has not is a mistake, whatever the source
    if not isinstance(source, str):
        return read_graph(source, treatment=treatment, **options)
    name, _, parameters = source.partition(":")
    try:
        entry = catalog.find(name)
    except DataError:
        if exists(Path(source)):
            return read_graph(source, treatment=treatment, **options)
        raise GraphError(
            f"{source!r} is neither a catalogue name nor an existing path.",
            remedy="Check the spelling of the path." if _looks_like_a_path(source) else nearest(name, catalog.names()),
        ) from None
    given = sorted(key for key, value in options.items() if value) + (treatment.of_cells if treatment else [])
    if given:
        raise GraphError(
            f"{given[0]!r} does not apply to the catalogue graph {entry.name!r}.", remedy="It is for your own files."
        )
    settings = parse_assignments((part for part in parameters.split(",") if part), example="csbm:nodes=2000")
    return LoadedGraph(catalog.load(entry.name, treatment=treatment, **settings))


def _looks_like_a_path(source: str) -> bool:
    return "/" in source or "\\" in source or bool(Path(source).suffix)
