"""Agreement and vectors of a graph that is not on the device as a whole: hop by hop, over chunks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fossil.graph.channels import Channel, reference_channels
from fossil.methods.base import NodeVectors, joined
from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil_channels.sampled import OPERATORS
from fossil.nn.agreement import agreement_with, landmarks_of
from fossil.ops.unit import unit_vectors
from fossil.progress import StageProgress, silent
from fossil.sampling.rows import RowOperator, chunks_in_memory, with_progress
from fossil.sampling.store import allocate

if TYPE_CHECKING:
    from fossil.methods.fossil_channels.method import FossilChannels

COMPARED_COLUMNS = 128
"""Columns of the untrained rows by which channels are compared."""


class ChannelRows:
    """Compares channels and embeds nodes, exactly: what a second hop sums over is worked out for all nodes, and kept.

    Args:
        method: the method; in evaluation mode, where it embeds.
        graph: where the arrays are.

    Attributes:
        progress: hears what is worked out for all nodes first.
    """

    progress: StageProgress = staticmethod(silent)

    def __init__(self, method: FossilChannels, graph: SampledGraph) -> None:
        self.method, self.graph = method, graph
        self.references = reference_channels(method.channels)
        names = dict.fromkeys(channel.operator for channel in self.references if channel.hops)
        self.operators = {name: self._operator(name) for name in names}

    @torch.no_grad()
    def landmark_agreement(self) -> Tensor:
        """Return the agreement of others with each reference channel about the landmarks, M×R."""
        _, marks = self.landmark_rows
        return agreement_with(marks, marks, self.references, self.landmarks, self.landmarks)

    @torch.no_grad()
    def rows(self, first: int, last: int) -> NodeVectors:
        """Return the vectors of nodes `first` to `last`, and what they trust."""
        return joined((self._chunk(*part) for part in self._chunks(first, last)), last - first)

    def _chunk(self, first: int, last: int) -> NodeVectors:
        method, features = self.method, self.graph.store.features
        nodes = torch.arange(first, last, device=self.graph.device)
        trained, hidden = [], {}
        for channel, weight in zip(method.channels, method.encoder.second, strict=True):
            if channel.hops == 2:
                trained.append(self.operators[channel.operator].times(first, last, self.trained[channel.name]))
                continue
            if channel.hops:
                spread = self.operators[channel.operator].times_features(first, last, features, method.encoder.first)
            else:
                spread = features.take(nodes.to(features.device), self.graph.device).project(method.encoder.first)
            hidden[channel.operator] = method.encoder.activated(spread)
            trained.append(hidden[channel.operator] @ weight)
        seen = self._seen(first, last)
        rows = [method.encoder.finish(trained)]
        if method.config.untrained:
            rows.append(_unit(seen, method.channels, method.config.untrained))
        centre, marks = self.landmark_rows
        compared = _unit(seen, self.references, COMPARED_COLUMNS) - centre
        agreed = agreement_with(marks, compared, self.references, self.landmarks, nodes)
        return method.weighted(rows, method.weigh(agreed))

    # With nothing trained.

    @cached_property
    def start(self) -> Tensor:
        """Z = X V of all nodes; X itself where it is narrow and dense."""
        features, reduction = self.graph.store.features, self.method.reduction
        if reduction.directions is None and isinstance(features.data, Tensor) and features.scale == 1:
            return features.data
        kept = allocate(self.graph.num_nodes, reduction.width, self.graph.device)
        for first, last in self._all("features"):
            nodes = torch.arange(first, last, device=features.device)
            kept[first:last] = reduction(features.take(nodes, self.graph.device)).to(kept)
        return kept

    @cached_property
    def once(self) -> Mapping[str, Tensor]:
        """S Z of all nodes along each operator, which the second hop sums over."""
        found = {}
        for done, (name, operator) in enumerate(self.operators.items()):
            kept = allocate(self.graph.num_nodes, self.start.shape[1], self.graph.device, like=self.start)
            for first, last in self._all("first hop", done, len(self.operators)):
                kept[first:last] = operator.times(first, last, self.start).to(kept)
            found[name] = kept
        return found

    @cached_property
    def landmark_rows(self) -> tuple[Tensor, Tensor]:
        """The mean of all rows along the reference channels (R×D), and those of the landmarks less it (M×R×D)."""
        total, marks = None, []
        for first, last in self._all("agreement"):
            rows = _unit(self._seen(first, last), self.references, COMPARED_COLUMNS)
            summed = rows.sum(0, dtype=torch.float64)
            total = summed if total is None else total + summed
            inside = self.landmarks[(self.landmarks >= first) & (self.landmarks < last)] - first
            marks.append(rows[inside])
        assert total is not None
        centre = (total / self.graph.num_nodes).float()
        return centre, torch.cat(marks) - centre

    @cached_property
    def landmarks(self) -> Tensor:
        """Nodes that all are compared with."""
        return landmarks_of(self.graph.num_nodes, self.graph.device)

    def _seen(self, first: int, last: int) -> Mapping[str, Tensor]:
        """Return what a chunk of nodes sees of Z along each reference channel, by its name."""
        found = {}
        for channel in self.references:
            if channel.hops == 2:
                rows = self.operators[channel.operator].times(first, last, self.once[channel.operator])
            else:
                rows = (self.once[channel.operator] if channel.hops else self.start)[first:last].to(self.graph.device)
            found[channel.name] = rows.float()
        return found

    # With what was trained.

    @cached_property
    def trained(self) -> Mapping[str, Tensor]:
        """G W of all nodes for each channel of two hops, which the second hop sums over."""
        method, graph = self.method, self.graph
        far = [(channel, weight) for channel, weight in zip(method.channels, method.encoder.second, strict=True)]
        far = [(channel, weight) for channel, weight in far if channel.hops == 2]
        width, like = method.config.width, self.start
        found = {channel.name: allocate(graph.num_nodes, width, graph.device, like=like) for channel, _ in far}
        for first, last in self._all("layers"):
            for channel, weight in far:
                operator = self.operators[channel.operator]
                spread = operator.times_features(first, last, graph.store.features, method.encoder.first)
                found[channel.name][first:last] = (method.encoder.activated(spread) @ weight).to(found[channel.name])
        return found

    def _operator(self, name: str) -> RowOperator:
        direction, scaling, loops = OPERATORS[name]
        return RowOperator(self.graph.store.patterns[direction], scaling, loops, self.graph.device)

    def _all(self, stage: str, done: int = 0, passes: int = 1) -> Iterator[tuple[int, int]]:
        """Yield all nodes in chunks, and tell how far this is: one pass of some, of which so many are done."""
        nodes = self.graph.num_nodes
        return with_progress(self._chunks(0, nodes), nodes, lambda share: self.progress(stage, (done + share) / passes))

    def _chunks(self, first: int, last: int) -> list[tuple[int, int]]:
        config, store = self.method.config, self.graph.store
        width = max(config.hidden, len(self.references) * (config.width + self.method.reduction.width))
        return chunks_in_memory(
            store.patterns["both"], store.features, first, last, self.graph.device,
            width=width, gathered_width=config.hidden,
        )  # fmt: skip


def _unit(seen: Mapping[str, Tensor], channels: Sequence[Channel], columns: int) -> Tensor:
    """Return what nodes see along some channels, in rows of length one of so many columns: N×C×D."""
    return torch.stack([unit_vectors(seen[channel.name][:, :columns]) for channel in channels], 1)
