"""What methods share that train on batches of nodes: graph convolutions on the surroundings of nodes drawn uniformly.

Embedding is exact whatever was drawn: layer by layer over chunks of nodes, where what a deeper layer sums over is
computed for all nodes first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from fossil.methods.base import Method, NodeVectors
from fossil.methods.chunks import join_chunks
from fossil.nn.blocks import LoopedBlock
from fossil.nn.convolution import GraphConvolution
from fossil.progress import StageProgress, silent
from fossil.sampling.allocation import allocate
from fossil.sampling.batches import NodeBatches
from fossil.sampling.rows import RowOperator, chunks_in_memory, with_progress
from fossil.sampling.store import EdgeDirection, GraphStore

Prepared = TypeVar("Prepared")

BATCH_NODES = 2_000
_TENSORS = 6  # of rows times width that a layer of a step keeps in each encoding, gradients included
_LOADED = 1 << 28  # what the first step loads


class RowLayer(NamedTuple):
    """One graph convolution: finish(S H W).

    Attributes:
        weight: W.
        finish: from rows of S H W to what the next layer takes, or to vectors.
    """

    weight: Tensor
    finish: Callable[[Tensor], Tensor]


def convolution_layer(convolution: GraphConvolution, *after: Callable[[Tensor], Tensor]) -> RowLayer:
    """Return a convolution with what follows it, in turn."""

    def finish(product: Tensor) -> Tensor:
        values = convolution.finish(product)
        for each in after:
            values = each(values)
        return values

    return RowLayer(convolution.weight, finish)


class TrainsOnBatches(Method[Prepared | NodeBatches], Generic[Prepared]):
    """A method of graph convolutions with self-loops, whose loss of a step may be taken over a batch of nodes.

    Attributes:
        batch_nodes: B, nodes whose loss a sampled step takes.
    """

    edge_directions: ClassVar[tuple[EdgeDirection, ...]] = ("out",)
    encodings: ClassVar[int] = 2  # passes of the encoder in a step
    extra_hops: ClassVar[int] = 0  # that the loss reads beyond those of the encoder
    batch_nodes: int = BATCH_NODES

    @abstractmethod
    def row_layers(self) -> list[RowLayer]:
        """Return the encoder's layers as they embed, the last with whatever is done to vectors."""

    def check_sampled(self) -> None:
        """Raise SettingError, with what to set, where these settings need the whole graph; none do, by default."""

    def prepare_sampled(self, store: GraphStore, device: torch.device, fan_out: int | None) -> NodeBatches:
        """Return what steps on parts of a graph read, from arrays that stay where they lie."""
        if getattr(self.config, "normalize_features", False):
            store = store.row_normalized()
        return NodeBatches(store=store, device=device, fan_out=fan_out, batch_nodes=self.batch_nodes)

    def surroundings(self, graph: NodeBatches, random: torch.Generator) -> LoopedBlock:
        """Return what a step reads: the block around the nodes that it draws."""
        hops = len(self.row_layers()) + self.extra_hops
        return LoopedBlock.around(graph, graph.draw(random), hops, random)

    def inference(self, prepared: NodeBatches) -> ConvolutionInference:
        """Return what embeds one chunk of nodes after the other."""
        return ConvolutionInference(self.row_layers(), prepared)

    def memory(self, prepared: Prepared | NodeBatches) -> float | None:
        """Return about how many bytes a step on a batch takes; None for the whole graph, of which it does not know."""
        if not isinstance(prepared, NodeBatches):
            return None
        layers = self.row_layers()
        sizes = prepared.block_sizes(prepared.batch_nodes, len(layers) + self.extra_hops)
        floats = 3 * sizes[-1] * self.num_features
        for rows, layer in zip(reversed(sizes[:-1]), layers, strict=False):
            floats += self.encodings * _TENSORS * rows * layer.weight.shape[1]
        return 4.0 * floats + _LOADED


class ConvolutionInference:
    """Embeds nodes exactly, in evaluation mode.

    Args:
        layers: of the encoder.
        graph: where the arrays are.

    Attributes:
        progress: is told what is computed for all nodes first, and which share of it is done.
    """

    progress: StageProgress = staticmethod(silent)

    def __init__(self, layers: list[RowLayer], graph: NodeBatches) -> None:
        self.layers, self.graph = layers, graph
        self.operator = RowOperator(graph.store.adjacency["out"], "symmetric", True, graph.device)
        self.projected: Tensor | None = None  # H W of all nodes, which the next layer sums over

    @torch.no_grad()
    def vectors(self, first: int, last: int) -> NodeVectors:
        """Return the vectors of nodes `first` to `last`."""
        deepest = len(self.layers) - 1
        if self.projected is None and deepest:
            for depth in range(deepest):
                self.projected = self._projected_after(depth)
        chunks = (NodeVectors(self._layer(deepest, *chunk)) for chunk in self._chunks(first, last))
        return join_chunks(chunks, last - first)

    def _projected_after(self, depth: int) -> Tensor:
        """Return H W of all nodes (N×D), with H from the layer of this depth and W of the next one."""
        data, weight = self.graph.store.features.data, self.layers[depth + 1].weight
        like = data if isinstance(data, Tensor) else None
        projected = allocate(self.graph.num_nodes, weight.shape[1], self.graph.device, like)
        nodes, progress = self.graph.num_nodes, partial(self.progress, f"layer {depth + 1}")
        for first, last in with_progress(self._chunks(0, nodes), nodes, progress):
            projected[first:last] = (self._layer(depth, first, last) @ weight).to(projected.dtype)
        return projected

    def _layer(self, depth: int, first: int, last: int) -> Tensor:
        """Return what a layer makes of some nodes."""
        weight, finish = self.layers[depth]
        if depth == 0:
            return finish(self.operator.times_features(first, last, self.graph.store.features, weight))
        assert self.projected is not None
        return finish(self.operator.times(first, last, self.projected))

    def _chunks(self, first: int, last: int) -> list[tuple[int, int]]:
        width, features = max(layer.weight.shape[1] for layer in self.layers), self.graph.store.features
        return chunks_in_memory(self.operator.adjacency, features, first, last, self.graph.device, width=width)
