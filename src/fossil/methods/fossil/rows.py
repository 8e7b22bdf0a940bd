"""Vectors of a graph that is not on the device as a whole: layer by layer, over chunks of rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fossil.methods.base import NodeVectors, joined
from fossil.methods.fossil.sampled import SampledGraph, propagation_rule
from fossil.nn.encoders import Branches, DecoupledEncoder, TwoLayers
from fossil.nn.fusion import structure_share
from fossil.progress import StageProgress, silent
from fossil.sampling.rows import RowOperator, chunks_in_memory, with_progress
from fossil.sampling.store import allocate

if TYPE_CHECKING:
    from fossil.methods.fossil.method import Fossil


class FossilRows:
    """Embeds nodes exactly: what the second layer sums over is worked out for all nodes first, and kept.

    Args:
        method: the trained method, in evaluation mode.
        graph: where the arrays are.

    Attributes:
        progress: hears what is worked out for all nodes first.
    """

    progress: StageProgress = staticmethod(silent)

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
        return joined((self._chunk(*part, kept) for part in self._chunks(first, last)), last - first)

    def _first_layer(self) -> Tensor:
        """Return what the second layer sums over, for every node (N×D)."""
        encoder, store = self.encoder, self.graph.store
        data = store.features.data
        like = data if isinstance(data, Tensor) else None
        kept = allocate(self.graph.num_nodes, self.method.config.width, self.graph.device, like)
        nodes, progress = self.graph.num_nodes, partial(self.progress, "first layer")
        for first, last in with_progress(self._chunks(0, nodes), nodes, progress):
            spread = self.operator.times_features(first, last, store.features, encoder.first.weight)
            hidden = encoder.first.finish(spread, encoder.activation) @ encoder.second.weight
            kept[first:last] = hidden.to(kept.dtype)
        return kept

    def _chunk(self, first: int, last: int, kept: Tensor) -> NodeVectors:
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

    def _chunks(self, first: int, last: int) -> list[tuple[int, int]]:
        width, features = max(self.method.config.hidden, self.method.config.width), self.graph.store.features
        return chunks_in_memory(self.operator.pattern, features, first, last, self.graph.device, width=width)
