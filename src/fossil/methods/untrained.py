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
from typing import Any, ClassVar, NamedTuple, Self

import torch

from fossil.graph.channels import CHANNELS, Channel, channels_of, check_channels, listed
from fossil.graph.graph import Graph
from fossil.methods.base import Cost, NodeVectors, Untrained
from fossil.nn.channel_tensors import ChannelTensors, untrained_rows
from fossil.nn.reduction import Reduction
from fossil.settings import Settings, setting


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
        built = super().build(listed(values))
        if built.channels is not None:
            check_channels(built.channels)
        return built


class PropagatedGraph(NamedTuple):
    """A graph on a device, and the channels that are taken."""

    tensors: ChannelTensors
    channels: tuple[Channel, ...]


class Features(Untrained[PropagatedGraph]):
    """The node's own features, the leading singular directions of wide ones, in rows of length one."""

    name = "features"
    title = "Features"
    paper = "the input itself"
    whole_because = "nothing is trained, and all nodes are propagated at once"
    cost = Cost("0", "nnz(X)·D + F·D²", "N·D + F·D")
    Config: ClassVar[type[Settings]] = FeaturesSettings
    small: ClassVar[Mapping[str, Any]] = {"width": 4}

    def __init__(self, config: FeaturesSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.reduction = Reduction(num_features, config.width, config.oversampling, config.iterations)

    @classmethod
    def vector_columns(cls, config: Settings, num_features: int) -> int:
        """Return the columns of all channels together."""
        assert isinstance(config, FeaturesSettings)
        named = getattr(config, "channels", None) or (None,)
        return len(named) * min(config.width, num_features)

    def channels(self, graph: Graph) -> tuple[Channel, ...]:
        """Return the channels to propagate along."""
        return (CHANNELS["identity"],)

    def prepare(self, graph: Graph, device: torch.device) -> PropagatedGraph:
        """Move features and operators to `device`."""
        channels = self.channels(graph)
        return PropagatedGraph(ChannelTensors.of(graph, channels, device), channels)

    def fit(self, prepared: PropagatedGraph, random: torch.Generator) -> None:
        """Find V."""
        self.reduction.fit(prepared.tensors.features, random)

    def memory(self, prepared: PropagatedGraph) -> float:
        """Return about how many bytes the vectors take, and what they are made of on the way."""
        nodes, columns = prepared.tensors.features.shape
        return 4.0 * self.reduction.width * (nodes * (len(prepared.channels) + 4) + 6 * columns)

    @torch.no_grad()
    def encode(self, prepared: PropagatedGraph) -> NodeVectors:
        """Return the untrained rows of every channel, side by side."""
        reduced = self.reduction(prepared.tensors.features)
        return NodeVectors(untrained_rows(reduced, prepared.channels, prepared.tensors).flatten(1))


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
