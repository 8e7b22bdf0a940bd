"""Channels: the ways in which a node can look at its surroundings.

A channel takes one operator for a number of hops. What is propagated along it tells each node about itself
(`identity`), about its neighbourhood with itself in it (`low`) or without (`neighbours`), or about the nodes that it
points to (`out`) or that point to it (`in`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fossil.errors import SettingError, nearest, warn_the_caller
from fossil.graph.graph import Graph
from fossil.graph.structure import row_means, symmetric_normalized, undirected


@dataclass(frozen=True)
class Channel:
    """A way to look at the surroundings of a node.

    Attributes:
        name: such as `low2`.
        operator: the matrix that takes one hop, by its name: `identity`, `low`, `neighbours`, `out` or `in`.
        hops: how often it is applied; 0 for the identity.
    """

    name: str
    operator: str
    hops: int


CHANNELS = {
    channel.name: channel
    for channel in (
        Channel("identity", "identity", 0),
        *(
            Channel(f"{operator}{'' if hops == 1 else hops}", operator, hops)
            for operator in ("low", "neighbours", "out", "in")
            for hops in (1, 2)
        ),
    )
}
"""Every channel by name."""

_UNDIRECTED = ("identity", "low", "low2", "neighbours", "neighbours2")
_DIRECTED = ("identity", "low", "low2", "out", "out2", "in", "in2")


def channels_of(graph: Graph, names: Iterable[str] | None = None) -> tuple[Channel, ...]:
    """Return the channels that a graph has, or those of the given names among them, each once.

    A graph without edges has the identity alone. In an undirected one the nodes that a node points to are those that
    point to it, and one in which they differ tells them apart instead of taking its neighbours as a whole.

    Raises:
        SettingError: a name is unknown, or the graph has none of those asked for.

    Warns:
        FossilWarning: the graph does not have some of them, which are left out.
    """
    has = _DIRECTED if graph.is_directed else _UNDIRECTED if graph.num_edges else ("identity",)
    wanted = has if names is None else check_channels(names)
    missing, found = [name for name in wanted if name not in has], [name for name in wanted if name in has]
    what = "directed" if graph.is_directed else "undirected" if graph.num_edges else "without edges"
    lacks = f"{graph.name} is {what} and has no channel {', '.join(missing)}"
    if not found:
        raise SettingError(f"{lacks}.", remedy=f"It has {', '.join(has)}.")
    if missing:
        warn_the_caller(f"{lacks}, which is left out; it has {', '.join(has)}.")
    return tuple(CHANNELS[name] for name in found)


def listed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings in which `channels`, if it is one text with commas between the names, is a tuple of them.

    >>> listed({"channels": "low, low2"})
    {'channels': ('low', 'low2')}
    """
    named = values.get("channels")
    return {**values, "channels": tuple(map(str.strip, named.split(",")))} if isinstance(named, str) else values


def check_channels(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once, in the order given.

    Raises:
        SettingError: there is none, or no channel is called so.

    >>> check_channels(["low", "identity", "low"])
    ('low', 'identity')
    """
    distinct = tuple(dict.fromkeys(names))
    for name in distinct:
        if name not in CHANNELS:
            raise SettingError(f"Unknown channel {name!r}.", remedy=nearest(str(name), CHANNELS))
    if not distinct:
        raise SettingError("There is no channel to take.", remedy=f"Known names: {', '.join(CHANNELS)}.")
    return distinct


def called_for(graph: Graph) -> tuple[Channel, ...]:
    """Return the channels that are not a mixture of others.

    In a directed graph `low` averages over the node, those it points to and those that point to it, and a vector that
    has these three apart needs no mixture of them; in an undirected one nothing tells them apart.
    """
    every = channels_of(graph)
    return tuple(channel for channel in every if channel.operator != "low") if graph.is_directed else every


def reference_channels(channels: Iterable[Channel]) -> tuple[Channel, ...]:
    """Return all channels that a graph with these ones has: agreement is measured among them, whichever are used."""
    directed = any(channel.operator in ("out", "in") for channel in channels)
    return tuple(CHANNELS[name] for name in (_DIRECTED if directed else _UNDIRECTED))


def operators_of(channels: Iterable[Channel]) -> tuple[str, ...]:
    """Return the names of the operators that some channels take a hop along, each once.

    >>> operators_of([CHANNELS["identity"], CHANNELS["low"], CHANNELS["low2"]])
    ('low',)
    """
    return tuple(dict.fromkeys(channel.operator for channel in channels if channel.hops))


def operator(adjacency: sp.csr_array, name: str) -> sp.csr_array:
    """Return the matrix (N×N, float32) that takes one hop: a row of its product is what that node is told.

    Every graph has every operator, so that what was fitted to one graph can be applied to another: in an undirected
    graph `out` and `in` are both the mean over all neighbours. A node that has nobody to look at has a row of zeros.

    Args:
        adjacency: N×N, row i lists the nodes that i points to.
        name: `identity`, `low`, `neighbours`, `out` or `in`, as `Channel.operator` has it.

    Raises:
        SettingError: there is no operator of that name.
    """
    if name not in _OPERATORS:
        raise SettingError(f"Unknown operator {name!r}.", remedy=nearest(name, _OPERATORS))
    return _OPERATORS[name](adjacency)


_OPERATORS: dict[str, Callable[[sp.csr_array], sp.csr_array]] = {
    "identity": lambda adjacency: sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"),
    "low": lambda adjacency: symmetric_normalized(undirected(adjacency), self_loops=True),
    "neighbours": lambda adjacency: symmetric_normalized(undirected(adjacency), self_loops=False),
    "out": row_means,
    "in": lambda adjacency: row_means(sp.csr_array(adjacency.T)),
}
