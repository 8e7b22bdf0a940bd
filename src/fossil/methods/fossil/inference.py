"""Layer-wise inference: vectors of a graph that is not on the device as a whole, chunk by chunk."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fossil.methods.base import NodeVectors
from fossil.methods.chunks import join_chunks
from fossil.methods.fossil.sampled import SampledGraph, propagation_rule
from fossil.nn.encoders import Branches, DecoupledEncoder, TwoLayers
from fossil.nn.fusion import structure_share
from fossil.progress import StageProgress, silent
from fossil.sampling.allocation import allocate
from fossil.sampling.rows import RowOperator, chunks_in_memory, with_progress

if TYPE_CHECKING:
    from fossil.methods.fossil.method import Fossil


class FossilInference:
    """Embeds nodes exactly: H W₂ of the hidden layer, which the second one sums over, is computed for all first.

    Chunks are the n nodes from `first` to `last`, without the latter.

    Args:
        method: the trained method, in evaluation mode.
        graph: where the arrays are.

    Attributes:
        progress: is told what is computed for all nodes first, and which share of it is done.
    """

    progress: StageProgress = staticmethod(silent)

    def __init__(self, method: Fossil, graph: SampledGraph) -> None:
        assert isinstance(method.encoder, TwoLayers)
        self.method, self.graph, self.encoder = method, graph, method.encoder
        scaling, loops = propagation_rule(method.config)
        self.operator = RowOperator(graph.store.adjacency["out"], scaling, loops, graph.device)

    @torch.no_grad()
    def vectors(self, first: int, last: int) -> NodeVectors:
        """Return the vectors of nodes `first` to `last`."""
        return join_chunks((self._chunk(*chunk) for chunk in self._chunks(first, last)), last - first)

    @cached_property
    def hidden_products(self) -> Tensor:
        """H W₂ of all nodes (N×D), which the second layer sums over."""
        encoder, store = self.encoder, self.graph.store
        data = store.features.data
        like = data if isinstance(data, Tensor) else None
        products = allocate(self.graph.num_nodes, self.method.config.width, self.graph.device, like)
        nodes, progress = self.graph.num_nodes, partial(self.progress, "first layer")
        for first, last in with_progress(self._chunks(0, nodes), nodes, progress):
            product = self.operator.times_features(first, last, store.features, encoder.first.weight)
            hidden = encoder.first.finish(product, encoder.activation)
            products[first:last] = (hidden @ encoder.second.weight).to(products.dtype)
        return products

    def _chunk(self, first: int, last: int) -> NodeVectors:
        method, encoder, graph = self.method, self.encoder, self.graph
        structure = encoder.second.finish(self.operator.times(first, last, self.hidden_products))
        if not isinstance(encoder, DecoupledEncoder):
            return NodeVectors(structure)
        nodes = torch.arange(first, last, device=graph.store.device)
        features = graph.store.features.take(nodes, graph.device)
        hidden = encoder.first.finish(features.project(encoder.first.weight), encoder.activation)
        branches = Branches(encoder.second.finish(hidden @ encoder.second.weight), structure)
        degree = graph.store.adjacency["out"].degree(nodes).to(graph.device)
        H, gate = method.fuse(branches, graph.centrality(degree, method.config.centrality), None)
        assert gate is not None
        return NodeVectors(H, gate.values.squeeze(1), structure_share(branches, gate.values))

    def _chunks(self, first: int, last: int) -> list[tuple[int, int]]:
        width, features = max(self.method.config.hidden, self.method.config.width), self.graph.store.features
        return chunks_in_memory(self.operator.adjacency, features, first, last, self.graph.device, width=width)
