"""Vectors of a graph that is not on the device as a whole: layer by layer, over stretches of rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fossil.methods.base import NodeVectors, joined
from fossil.methods.fossil.sampled import SampledGraph, propagation_rule
from fossil.nn.encoders import Branches, DecoupledEncoder, TwoLayers
from fossil.nn.fusion import structure_share
from fossil.sampling.rows import NUMBERS, RowOperator, Told, entries_at_once, stretches, telling, told_nobody
from fossil.sampling.store import room

if TYPE_CHECKING:
    from fossil.methods.fossil.method import Fossil


class FossilRows:
    """Embeds nodes exactly: what the second layer sums over is worked out for all nodes first, and kept.

    Args:
        method: the trained method, in evaluation mode.
        graph: where the arrays are.

    Attributes:
        told: is told of what is worked out for all nodes first.
    """

    told: Told = staticmethod(told_nobody)

    def __init__(self, method: Fossil, graph: SampledGraph) -> None:
        assert isinstance(method.encoder, TwoLayers)
        self.method, self.graph, self.encoder = method, graph, method.encoder
        scaling, loops = propagation_rule(method.config)
        self.operator = RowOperator(graph.store.patterns["out"], scaling, loops, graph.device)
        self.kept: Tensor | None = None

    @torch.no_grad()
    def rows(self, first: int, last: int) -> NodeVectors:
        """Return the vectors of nodes `first` to `last`."""
        kept = self.kept = self._first_layer() if self.kept is None else self.kept
        return joined((self._stretch(*part, kept) for part in self._stretches(first, last)), last - first)

    def _first_layer(self) -> Tensor:
        """Return what the second layer sums over, for every node (N×D)."""
        encoder, store = self.encoder, self.graph.store
        data = store.features.data
        like = data if isinstance(data, Tensor) else None
        kept = room(self.graph.num_nodes, self.method.config.width, self.graph.device, like)
        nodes, told = self.graph.num_nodes, partial(self.told, "first layer")
        for first, last in telling(self._stretches(0, nodes), nodes, told):
            spread = self.operator.times_features(first, last, store.features, encoder.first.weight)
            hidden = encoder.first.finish(spread, encoder.activation) @ encoder.second.weight
            kept[first:last] = hidden.to(kept.dtype)
        return kept

    def _stretch(self, first: int, last: int, kept: Tensor) -> NodeVectors:
        method, encoder, graph = self.method, self.encoder, self.graph
        structure = encoder.second.finish(self.operator.times(first, last, kept))
        if not isinstance(encoder, DecoupledEncoder):
            return NodeVectors(structure)
        nodes = torch.arange(first, last, device=graph.store.device)
        own = graph.store.features.take(nodes, graph.device)
        hidden = encoder.first.finish(own.project(encoder.first.weight), encoder.activation)
        branches = Branches(encoder.second.finish(hidden @ encoder.second.weight), structure)
        degree = graph.store.patterns["out"].degree(nodes).to(graph.device)
        H, gate = method.fuse(branches, graph.centrality(degree, method.config.centrality), None)
        assert gate is not None
        return NodeVectors(H, gate.values.squeeze(1), structure_share(branches, gate.values))

    def _stretches(self, first: int, last: int) -> list[tuple[int, int]]:
        device, width = self.graph.device, max(self.method.config.hidden, self.method.config.width)
        entries = entries_at_once(self.graph.store.features, width, device)
        return list(stretches(self.operator.pattern, first, last, max(1, NUMBERS[device.type] // width), entries))
