"""A few nodes of a graph with some of their neighbours: a small graph of the same features, to try something on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fossil.sampling.neighbourhoods import Pattern
from fossil.sampling.store import FeatureRows, GraphStore

NODES = 4096
_SHOWN = 4  # neighbours of a node


def few_of(store: GraphStore, nodes: int = NODES) -> GraphStore:
    """Return nodes that are evenly spaced over a graph, some neighbours of each, and edges among all these.

    Nothing is drawn at random, and nothing is read in proportion to the graph. Features are scaled already.
    """
    spaced = torch.arange(0, store.num_nodes, max(1, store.num_nodes // nodes), device=store.device)[:nodes]
    near = [_shown(pattern, spaced)[1] for pattern in store.patterns.values()]
    every = torch.unique(torch.cat([spaced, *near]))
    features = FeatureRows(store.features.take(every, store.features.device).data)
    return replace(store.with_patterns(lambda pattern: _among(pattern, every)), features=features)


def _shown(pattern: Pattern, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return edges of some nodes to a few neighbours each, spaced evenly: places among these nodes, and neighbours."""
    degree = pattern.degree(nodes)
    steps = torch.arange(_SHOWN, device=nodes.device)
    within = torch.where(degree[:, None] > _SHOWN, degree[:, None] * steps // _SHOWN, steps)
    place, step = torch.nonzero(within < degree[:, None], as_tuple=True)
    return place, pattern.col[pattern.crow[nodes[place]] + within[place, step]].long()


def _among(pattern: Pattern, every: Tensor) -> Pattern:
    """Return those of the edges that stay among sorted nodes, in their numbers."""
    row, neighbour = _shown(pattern, every)
    place = torch.searchsorted(every, neighbour).clamp_max(len(every) - 1)
    inside = every[place] == neighbour
    counts = torch.bincount(row[inside], minlength=len(every))
    return Pattern(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), place[inside])
