"""Layer-wise inference: agreement and vectors of a graph that is not on the device as a whole, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fossil.graph.channels import Channel, operators_of, reference_channels
from fossil.methods.base import NodeVectors
from fossil.methods.chunks import join_chunks
from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil_channels.sampled import OPERATORS
from fossil.nn.agreement import agreement_with, landmarks_of
from fossil.ops.unit import unit_vectors
from fossil.progress import StageProgress, silent
from fossil.sampling.allocation import allocate
from fossil.sampling.rows import RowOperator, chunks_in_memory, with_progress

if TYPE_CHECKING:
    from fossil.methods.fossil_channels.method import FossilChannels

COMPARED_COLUMNS = 128
"""Columns of the untrained rows by which channels are compared."""


class ChannelInference:
    """Compares channels and embeds nodes, exactly: what a second hop sums over is computed for all nodes, and kept.

    S is the operator of a channel of h hops, Z = X V, G = PReLU(S X W₁ + b₁) (`methods/fossil_channels/__init__.py`).
    Chunks are the n nodes from `first` to `last`, without the latter.

    Args:
        method: the method; in evaluation mode, where it embeds.
        graph: where the arrays are.

    Attributes:
        progress: is told what is computed for all nodes first, and which share of it is done.
    """

    progress: StageProgress = staticmethod(silent)

    def __init__(self, method: FossilChannels, graph: SampledGraph) -> None:
        self.method, self.graph = method, graph
        self.references = reference_channels(method.channels)
        self.operators = {name: self._operator(name) for name in operators_of(self.references)}

    @torch.no_grad()
    def landmark_agreement(self) -> Tensor:
        """Return the agreement of others with each reference channel about the landmarks, M×R."""
        _, centred = self.landmark_rows
        return agreement_with(centred, centred, self.references, self.landmarks, self.landmarks)

    @torch.no_grad()
    def vectors(self, first: int, last: int) -> NodeVectors:
        """Return the vectors of nodes `first` to `last`, and what they trust."""
        return join_chunks((self._chunk(*chunk) for chunk in self._chunks(first, last)), last - first)

    def _chunk(self, first: int, last: int) -> NodeVectors:
        method = self.method
        rows = [self._trained_rows(first, last)]
        propagated = self._propagated(first, last)
        if method.config.untrained:
            rows.append(_unit_rows(propagated, method.channels, method.config.untrained))
        mean, centred_landmarks = self.landmark_rows
        centred = _unit_rows(propagated, self.references, COMPARED_COLUMNS) - mean
        nodes = torch.arange(first, last, device=self.graph.device)
        agreed = agreement_with(centred_landmarks, centred, self.references, self.landmarks, nodes)
        return method.node_vectors(rows, method.weights_from(agreed))

    # Untrained rows, and how far channels agree about them.

    @cached_property
    def reduced(self) -> Tensor:
        """Z of all nodes (N×D); X itself where it is narrow and dense."""
        features, reduction = self.graph.store.features, self.method.reduction
        if reduction.directions is None and isinstance(features.data, Tensor) and features.scale == 1:
            return features.data
        reduced = allocate(self.graph.num_nodes, reduction.width, self.graph.device)
        for first, last in self._chunks_of_all("features"):
            nodes = torch.arange(first, last, device=features.device)
            reduced[first:last] = reduction(features.take(nodes, self.graph.device)).to(reduced)
        return reduced

    @cached_property
    def one_hop(self) -> Mapping[str, Tensor]:
        """S Z of all nodes (N×D) by operator, which the second hop sums over."""
        by_operator = {}
        for done, (name, operator) in enumerate(self.operators.items()):
            product = allocate(self.graph.num_nodes, self.reduced.shape[1], self.graph.device, like=self.reduced)
            for first, last in self._chunks_of_all("first hop", done, len(self.operators)):
                product[first:last] = operator.times(first, last, self.reduced).to(product)
            by_operator[name] = product
        return by_operator

    @cached_property
    def landmark_rows(self) -> tuple[Tensor, Tensor]:
        """Mean of unit(S^h Z) over all nodes along the reference channels (R×D), and the landmarks' rows less it."""
        total, parts = None, []
        for first, last in self._chunks_of_all("agreement"):
            rows = _unit_rows(self._propagated(first, last), self.references, COMPARED_COLUMNS)
            summed = rows.sum(0, dtype=torch.float64)
            total = summed if total is None else total + summed
            parts.append(rows[self.landmarks[(self.landmarks >= first) & (self.landmarks < last)] - first])
        assert total is not None
        mean = (total / self.graph.num_nodes).float()
        return mean, torch.cat(parts) - mean

    @cached_property
    def landmarks(self) -> Tensor:
        """The M nodes that all are compared with."""
        return landmarks_of(self.graph.num_nodes, self.graph.device)

    def _propagated(self, first: int, last: int) -> Mapping[str, Tensor]:
        """Return S^h Z of a chunk (n×D) by reference channel."""
        by_channel = {}
        for channel in self.references:
            if channel.hops == 2:
                rows = self.operators[channel.operator].times(first, last, self.one_hop[channel.operator])
            else:
                kept = self.one_hop[channel.operator] if channel.hops else self.reduced
                rows = kept[first:last].to(self.graph.device)
            by_channel[channel.name] = rows.float()
        return by_channel

    # Trained rows.

    @cached_property
    def hidden_products(self) -> Mapping[str, Tensor]:
        """G W₂ of all nodes (N×D) for each channel of two hops, which the second hop sums over."""
        method, graph = self.method, self.graph
        layers = zip(method.channels, method.encoder.second, strict=True)
        two_hops = [(channel, weight) for channel, weight in layers if channel.hops == 2]
        products = {
            channel.name: allocate(graph.num_nodes, method.config.width, graph.device, like=self.reduced)
            for channel, _ in two_hops
        }
        for first, last in self._chunks_of_all("layers"):
            for channel, weight in two_hops:
                product = products[channel.name]
                product[first:last] = (self._hidden(channel, first, last) @ weight).to(product)
        return products

    def _trained_rows(self, first: int, last: int) -> Tensor:
        """Return what the encoder makes of a chunk, n×C×D."""
        encoder, products = self.method.encoder, []
        for channel, weight in zip(self.method.channels, encoder.second, strict=True):
            if channel.hops == 2:
                operator = self.operators[channel.operator]
                products.append(operator.times(first, last, self.hidden_products[channel.name]))
            else:
                products.append(self._hidden(channel, first, last) @ weight)
        return encoder.second_activation(products)

    def _hidden(self, channel: Channel, first: int, last: int) -> Tensor:
        """Return G of a chunk, n×H."""
        features, encoder = self.graph.store.features, self.method.encoder
        if channel.hops:
            product = self.operators[channel.operator].times_features(first, last, features, encoder.first)
        else:
            nodes = torch.arange(first, last, device=features.device)
            product = features.take(nodes, self.graph.device).project(encoder.first)
        return encoder.first_activation(product)

    def _operator(self, name: str) -> RowOperator:
        direction, scaling, loops = OPERATORS[name]
        return RowOperator(self.graph.store.adjacency[direction], scaling, loops, self.graph.device)

    def _chunks_of_all(self, stage: str, done: int = 0, passes: int = 1) -> Iterator[tuple[int, int]]:
        """Yield all nodes in chunks, and tell how far this is: one pass of several, of which so many are done."""
        nodes = self.graph.num_nodes
        return with_progress(self._chunks(0, nodes), nodes, lambda share: self.progress(stage, (done + share) / passes))

    def _chunks(self, first: int, last: int) -> list[tuple[int, int]]:
        config, store = self.method.config, self.graph.store
        width = max(config.hidden, len(self.references) * (config.width + self.method.reduction.width))
        return chunks_in_memory(
            store.adjacency["both"], store.features, first, last, self.graph.device,
            width=width, gathered_width=config.hidden,
        )  # fmt: skip


def _unit_rows(propagated: Mapping[str, Tensor], channels: Sequence[Channel], columns: int) -> Tensor:
    """Return the first columns of what was propagated along some channels, in rows of length one: n×C×D."""
    return torch.stack([unit_vectors(propagated[channel.name][:, :columns]) for channel in channels], 1)
