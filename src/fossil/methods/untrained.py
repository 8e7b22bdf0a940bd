"""Features and propagated features: what there is to beat before anything is learnt.

Two ways to vectors that train nothing and see no labels. `features` are the node's own features, `prop` also what is
found around the node, as a simplified graph convolution (Wu et al., ICML 2019) sees it, along several channels side by
side. A system that does not score above them has learnt nothing that its input and its edges did not say already;
every comparison of `fossil evaluate` has both ([decision 30](../decisions/0030-methods-without-training.md)).

## Equations

With X the features (N×F), and V the leading `width` right singular vectors of X where it has more columns than that,
the identity where it has not:

    Z = X V                                            N×D
    H = [unit(S₁ Z), unit(S₂ Z), ...]                   N×(number of channels · D)

`unit` divides each row by its length, and leaves rows of zeros alone. The channels, S^h for h = 1 and 2:

| channel | S | on a graph that is |
|---|---|---|
| `identity` | I | any |
| `low`, `low2` | D^-1/2 (A + I) D^-1/2 of the undirected graph | any with edges |
| `neighbours`, `neighbours2` | D^-1/2 A D^-1/2 of the undirected graph, the node itself left out | undirected |
| `out`, `out2` | D^-1 A, the mean over the nodes that a node points to | directed |
| `in`, `in2` | D^-1 Aᵀ, the mean over the nodes that point to it | directed |

By default `prop` takes all that the graph has; `--set channels=identity,low2` takes some. A channel that the graph
has not is left out with a warning. A run keeps the channels of its graph and V, so that nodes that come later have
vectors in the same coordinates.

V is found by randomised subspace iteration (Halko, Martinsson and Tropp, SIAM Review 2011) under the seed of the run.
Where singular values near the last one are close together, another seed finds other directions that are as good. Where
all features are kept, vectors do not depend on the seed, and runs of different seeds count as one encoder.

## Cost

Once, and not for each step: (`iterations` + 1) products with X and Xᵀ of nnz(X)·D, as many QR factorisations of F·D²,
and E·D for each hop. Memory is N·D for each channel and F·D for V; X stays sparse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from fossil.errors import GraphError
from fossil.graph.channels import CHANNELS, Channel, channels_of, check_channels, operator
from fossil.graph.graph import Features as Matrix
from fossil.graph.graph import Graph
from fossil.methods.base import Cost, NodeVectors, Untrained
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.ops.svd import right_singular_vectors
from fossil.ops.unit import unit_vectors
from fossil.settings import Settings, setting

_ORDINARY = (2.0**-10, 2.0**20)  # largest features whose squares, and lengths of rows, float32 holds with ease


class FeaturesSettings(Settings):
    """Settings of the features alone."""

    width: int = setting(
        512, "D, features that are kept: all, where there are no more, else the leading singular directions", ge=1,
        search=[128, 256, 512],
    )  # fmt: skip
    oversampling: int = setting(10, "directions that the singular value decomposition follows beyond D", ge=0)
    iterations: int = setting(4, "multiplications by Xᵀ X in it", ge=0)


class PropSettings(FeaturesSettings):
    """Settings of propagated features."""

    channels: tuple[str, ...] | None = setting(None, "names of the channels, in order; null for all the graph has")

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """Build from plain values; channels may be one text, with commas between them."""
        named = values.get("channels")
        if isinstance(named, str):
            values = {**values, "channels": tuple(name.strip() for name in named.split(","))}
        built = super().build(values)
        if built.channels is not None:
            check_channels(built.channels)
        return built


@dataclass(frozen=True, eq=False)
class ChannelGraph:
    """X (N×F), the channels, and for each of their operators S (N×N) on a device."""

    features: FeatureMatrix
    channels: tuple[Channel, ...]
    operators: Mapping[str, SparseMatrix]


class Features(Untrained[ChannelGraph]):
    """The node's own features, the leading singular directions of wide ones, in rows of length one."""

    name = "features"
    title = "Features"
    paper = "the input itself"
    cost = Cost("0", "nnz(X)·D + F·D²", "N·D + F·D")
    Config: ClassVar[type[Settings]] = FeaturesSettings
    small: ClassVar[Mapping[str, Any]] = {"width": 4}

    def __init__(self, config: FeaturesSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.width = min(config.width, num_features)
        self.directions: Tensor | None  # V, F×D; there is none where all features are kept
        reduced = torch.zeros(num_features, self.width) if num_features > config.width else None
        self.register_buffer("directions", reduced)

    def channels(self, graph: Graph) -> tuple[Channel, ...]:
        """Return the channels to propagate along."""
        return (CHANNELS["identity"],)

    def prepare(self, graph: Graph, device: torch.device) -> ChannelGraph:
        """Move features and operators to `device`."""
        if graph.num_features == 0:
            raise GraphError(
                f"{graph.name} has no features.", remedy="Make some from the edges with --structural-features."
            )
        channels = self.channels(graph)
        names = dict.fromkeys(channel.operator for channel in channels if channel.hops)
        operators = {name: SparseMatrix.from_scipy(operator(graph.adjacency, name), device) for name in names}
        return ChannelGraph(FeatureMatrix.from_host(_ordinary(graph.features), device), channels, operators)

    def fit(self, prepared: ChannelGraph, random: torch.Generator) -> None:
        """Find V."""
        if self.directions is not None:
            config = self.config
            options = {"oversampling": config.oversampling, "iterations": config.iterations}
            self.directions.copy_(right_singular_vectors(prepared.features, self.width, random, **options))

    def memory(self, prepared: ChannelGraph) -> float:
        """Return about how many bytes the vectors take, and what they are made of on the way."""
        nodes, columns = prepared.features.shape
        return 4.0 * self.width * (nodes * (len(prepared.channels) + 4) + 6 * columns)

    @torch.no_grad()
    def encode(self, prepared: ChannelGraph) -> NodeVectors:
        """Return what each node sees along every channel, side by side."""
        start, channels = self._reduced(prepared.features), prepared.channels
        vectors = start.new_empty(len(start), len(channels), self.width)
        for name in dict.fromkeys(channel.operator for channel in channels):
            places = {channel.hops: place for place, channel in enumerate(channels) if channel.operator == name}
            seen = start
            for hop in range(max(places) + 1):
                seen = prepared.operators[name].matmul(seen) if hop else seen
                if hop in places:
                    vectors[:, places[hop]] = unit_vectors(seen)
        return NodeVectors(vectors.flatten(1))

    def _reduced(self, features: FeatureMatrix) -> Tensor:
        """Return Z."""
        if self.directions is not None:
            return features.project(self.directions)
        data = features.data
        return data if isinstance(data, Tensor) else features.project(torch.eye(self.width, device=data.col.device))


class Prop(Features):
    """Features propagated along every channel that the graph has, side by side, in rows of length one."""

    name = "prop"
    title = "Propagated features"
    paper = "after Wu et al., ICML 2019, arXiv 1902.07153"
    cost = Cost("0", "nnz(X)·D + F·D² + E·D", "N·D + F·D + E")
    Config = PropSettings

    config: PropSettings

    @classmethod
    def complete(cls, config: Settings, graph: Graph, seed: int) -> Settings:
        """Return the settings with the channels that the graph has: other graphs are then embedded along the same."""
        assert isinstance(config, PropSettings)
        found = channels_of(graph, config.channels)
        return config.updated({"channels": tuple(channel.name for channel in found)})

    def channels(self, graph: Graph) -> tuple[Channel, ...]:
        """Return those of the settings, which every graph can be given; where nothing is said, those it has."""
        named = self.config.channels
        return channels_of(graph) if named is None else tuple(CHANNELS[name] for name in named)


def _ordinary(features: Matrix) -> Matrix:
    """Return X, or where its numbers are very large or small, X times a power of two: directions stay as they are."""
    largest = float(abs(features).max())
    if largest == 0 or _ORDINARY[0] <= largest <= _ORDINARY[1]:
        return features
    return features * np.float32(2.0 ** -np.frexp(largest)[1])
