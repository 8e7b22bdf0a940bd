"""A few nodes of a graph with some of their neighbours: a small graph of the same features, to try something on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fossil.sampling.feature_rows import FeatureRows
from fossil.sampling.neighbourhoods import Adjacency
from fossil.sampling.store import GraphStore

NODES = 4096
_NEIGHBOURS = 4  # of a node


def few_of(store: GraphStore, nodes: int = NODES) -> GraphStore:
    """Return nodes that are evenly spaced over a graph, some neighbours of each, and edges among all these.

    Nothing is drawn at random, and nothing is read in proportion to the graph. Features are scaled already.
    """
    spaced = torch.arange(0, store.num_nodes, max(1, store.num_nodes // nodes), device=store.device)[:nodes]
    near = [_few_neighbours(edges, spaced)[1] for edges in store.adjacency.values()]
    kept = torch.unique(torch.cat([spaced, *near]))
    features = FeatureRows(store.features.take(kept, store.features.device).data)
    return replace(store.with_edges(lambda edges: _among(edges, kept)), features=features)


def _few_neighbours(adjacency: Adjacency, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return edges of some nodes to a few neighbours each, spaced evenly: places among these nodes, and neighbours."""
    degree = adjacency.degree(nodes)
    steps = torch.arange(_NEIGHBOURS, device=nodes.device)
    within = torch.where(degree[:, None] > _NEIGHBOURS, degree[:, None] * steps // _NEIGHBOURS, steps)
    place, step = torch.nonzero(within < degree[:, None], as_tuple=True)
    return place, adjacency.col[adjacency.crow[nodes[place]] + within[place, step]].long()


def _among(adjacency: Adjacency, kept: Tensor) -> Adjacency:
    """Return those of the edges that stay among sorted nodes, in their numbers."""
    row, neighbour = _few_neighbours(adjacency, kept)
    place = torch.searchsorted(kept, neighbour).clamp_max(len(kept) - 1)
    inside = kept[place] == neighbour
    counts = torch.bincount(row[inside], minlength=len(kept))
    return Adjacency(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), place[inside])
