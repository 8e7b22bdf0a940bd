"""BGRL: every node learns to predict what a slowly moving twin of the encoder says of it in another view.

Thakoor, Tallec, Azar, Azabou, Dyer, Munos, Veličković and Valko, *Large-scale representation learning on graphs via
bootstrapping*, ICLR 2022. There are no negatives and no readout, so that a step is linear in the graph.

## Equations

Two views per step, v = 1, 2: each stored edge is dropped with probability p_e,v and each feature column set to zero
with probability p_f,v, drawn anew; S_v is the symmetrically normalised adjacency of what is left, with self-loops. The
encoder f_θ repeats, twice by default,

    H ← PReLU(norm(S H W)),

its target f_φ is a second encoder of the same make, and the predictor g_θ is a perceptron with one hidden layer. With
q_v = g_θ(f_θ(view v)) and y_v = f_φ(view v), the latter a constant,

    L = 2 - mean_i cos(q_1i, y_2i) - mean_i cos(q_2i, y_1i),

and after each step of AdamW

    φ ← m φ + (1 - m) θ,        m(t) = 1 - (1 - m₀) (1 + cos(π t/T)) / 2.

The learning rate rises in a line over the first tenth of the T steps and falls along half a cosine to zero. Embeddings
are f_θ of the whole graph, normalised by the running statistics of training; the predictor is left out.

## Cost

Four passes of the encoder a step, two of them with a gradient: O(nnz(X) D + E D + N D²) time, O(N D + E) memory beside
the features. Masked columns of X are masked rows of W, so sparse features stay sparse; online and target passes of a
view share its S.

## On a batch of nodes

A sampled step reads the neighbourhood of B nodes drawn uniformly, makes both views of it, and takes both means over the
B nodes; the momentum target sees the same block. The loss is a mean, so that the batch estimates it without a change of
scale. Batch normalisation takes its statistics, in every layer, from the B nodes alone, and normalises the others that
were read by them: neighbours of a random node are no random nodes, and the running statistics are to hold for all
nodes. How many edges a view keeps of a node is drawn as in the whole graph. Where the batch is all nodes, with all
neighbours, the step is the full one.

## Differences from the official code

- The convolution has no bias in front of batch normalisation, which would take it away again.
- The warm-up is a share of the training, where the official code has 1,000 of 10,000 steps: with fewer epochs than
  that, a warm-up of fixed length hardly trains the encoder at all.
- The official evaluation scales each embedding to length one, which the loss cannot see; here that is a setting of
  the method, `unit_embeddings`.
- A self-loop that is in the graph counts twice in A + I, and is never dropped.
- On a directed graph a node sums over the nodes it points to, like everywhere here. The convolution of PyTorch
  Geometric, which the official code uses, sums over those that point to it (`--direction reverse`).
- Weight standardisation, which the paper uses on ogbn-arxiv alone, is left out; that graph's `norm: layer` and
  `layers: 3` can be had.
- A graph of one node, of which batch statistics cannot be taken, is normalised by the running ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized
from fossil.methods.base import Cost, NodeVectors, Objective, ParameterGroup, Record
from fossil.methods.batches import RowLayer, TrainsOnBatches
from fossil.nn.augment import drop_edges, mask_columns, symmetric_scaled, with_self_loops
from fossil.nn.blocks import LoopedBlock
from fossil.nn.convolution import GraphConvolution
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.momentum import WarmUpCosine, follow, frozen, rising_momentum
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix, leading
from fossil.ops.unit import cosine, unit_vectors
from fossil.sampling.batches import NodeBatches
from fossil.settings import Settings, setting

Norm = Literal["batch", "layer"]

_EPSILON = 1e-5  # what PyTorch's batch normalisation adds to a variance
_SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


class BgrlSettings(Settings):
    """Settings of BGRL. The defaults are those of the official code for Coauthor CS, with a higher learning rate."""

    hidden: int = setting(
        512,
        "width of the encoder's layers but the last",
        ge=1,
        origin="official code",
        only_with={"layers": range(2, sys.maxsize)},
    )
    width: int = setting(256, "D, width of the embeddings", ge=1, search=[128, 256, 512], origin="official code")
    layers: int = setting(2, "layers of the encoder", ge=1, le=100, search=[1, 2, 3], origin="official code")
    predictor_hidden: int = setting(512, "hidden width of the predictor", ge=1, search=[256, 512])
    norm: Norm = setting("batch", "normalisation in each layer: over nodes, or over the coordinates of a node")
    norm_momentum: float = setting(
        0.99, "weight of the newest step in the running statistics of batch normalisation", gt=0, le=1,
        search=[0.1, 0.99], origin="official code", only_with={"norm": "batch"},
    )  # fmt: skip

    edge_drop_1: float = setting(0.3, "p_e1, share of edges dropped in view 1", ge=0, lt=1, search=_SHARES)
    edge_drop_2: float = setting(0.2, "p_e2, share of edges dropped in view 2", ge=0, lt=1, search=_SHARES)
    feature_drop_1: float = setting(0.3, "p_f1, share of columns masked in view 1", ge=0, lt=1, search=_SHARES)
    feature_drop_2: float = setting(0.4, "p_f2, share of columns masked in view 2", ge=0, lt=1, search=_SHARES)
    normalize_features: bool = setting(
        True, "divide each node's features by the sum of their absolute values", origin="official code"
    )

    momentum: float = setting(
        0.99, "m₀, momentum of the target at the start", ge=0, le=1, search=[0.9, 0.95, 0.99, 0.996]
    )
    target_start: Literal["redrawn", "copied"] = setting(
        "redrawn", "initial weights of the target: drawn anew (official code), or the encoder's own (as in BYOL)"
    )
    learning_rate: float = setting(
        5e-4, "highest rate of AdamW", gt=0, search=[1e-5, 1e-4, 5e-4, 1e-3, 5e-3],
        origin="official code for WikiCS and Amazon Computers",
    )  # fmt: skip
    weight_decay: float = setting(1e-5, "decoupled weight decay", ge=0, search=[0, 1e-5, 1e-3], origin="official code")
    warm_up: float = setting(0.1, "share of the training in which the rate rises", ge=0, lt=1, origin="official code")
    unit_embeddings: bool = setting(True, "scale each embedding to length one", origin="official evaluation")


@dataclass(frozen=True, eq=False)
class BootstrapGraph:
    """A graph as BGRL and its kin train on it.

    Attributes:
        features: X, N×F.
        adjacency: A, N×N.
        looped: A + I, from which every view drops edges.
    """

    features: FeatureMatrix
    adjacency: SparseMatrix
    looped: SparseMatrix

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.looped.shape[0]

    def dropped(self, probability: float, random: torch.Generator) -> SparseMatrix:
        """Return S of a view that drops edges."""
        return drop_edges(self.looped, probability, random)


class Bgrl(TrainsOnBatches[BootstrapGraph]):
    """Bootstrapped node embeddings: predict the target's view of each node, without negatives."""

    name = "bgrl"
    title = "BGRL"
    paper = "Thakoor et al., ICLR 2022, arXiv 2102.06514"
    cost = Cost("4, two with a gradient", "nnz(X)·D + E·D + N·D²", "N·D + E")
    epochs = 1000
    encodings = 4
    Config = BgrlSettings
    small: ClassVar[Mapping[str, Any]] = {"hidden": 16, "width": 8, "predictor_hidden": 16}

    def __init__(self, config: BgrlSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        widths = [num_features, *[config.hidden] * (config.layers - 1), config.width]
        self.encoder = NormalizedEncoder(widths, config.norm, config.norm_momentum)
        self.target = frozen(NormalizedEncoder(widths, config.norm, config.norm_momentum))
        if config.target_start == "copied":
            self.target.load_state_dict(self.encoder.state_dict())
        self.predictor = nn.Sequential(
            nn.Linear(config.width, config.predictor_hidden),
            nn.PReLU(),
            nn.Linear(config.predictor_hidden, config.width),
        )

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return encoder and predictor as one group; the target is in none."""
        config = self.config
        learning = [*self.encoder.parameters(), *self.predictor.parameters()]
        schedule = WarmUpCosine(config.warm_up)
        return {
            "online": ParameterGroup(
                learning, config.learning_rate, config.weight_decay, decoupled_decay=True, schedule=schedule
            )
        }

    def prepare(self, graph: Graph, device: torch.device) -> BootstrapGraph:
        """Move the graph to `device`."""
        features = row_normalized(graph.features) if self.config.normalize_features else graph.features
        return BootstrapGraph(
            features=FeatureMatrix.from_host(features, device),
            adjacency=SparseMatrix.from_scipy(graph.adjacency, device),
            looped=with_self_loops(graph.adjacency, device),
        )

    def step(self, prepared: BootstrapGraph | NodeBatches, random: torch.Generator) -> Iterator[Objective]:
        """Yield the loss; after the step on it, move the target."""
        config = self.config
        graph = self.surroundings(prepared, random) if isinstance(prepared, NodeBatches) else prepared
        nodes = graph.num_nodes  # whose loss is taken
        views = [
            (mask_columns(graph.features, mask, random), graph.dropped(drop, random))
            for mask, drop in (
                (config.feature_drop_1, config.edge_drop_1),
                (config.feature_drop_2, config.edge_drop_2),
            )
        ]
        embeddings = [leading(self.encoder(*view, learning=True, counted=nodes), nodes) for view in views]
        with torch.no_grad():
            targets = [self.target(*view, learning=True, counted=nodes) for view in views]
        loss, parts = self.loss([self.predictor(embedding) for embedding in embeddings], targets, graph)
        momentum = rising_momentum(config.momentum, self.progress)

        def diagnose() -> Record:
            return {**parts, "momentum": momentum, "effective_rank": sampled_rank(embeddings[0])}

        yield Objective({"loss": loss}, ("online",), diagnose)
        follow(self.target, self.encoder, momentum)

    def loss(
        self, predictions: Sequence[Tensor], targets: Sequence[Tensor], graph: BootstrapGraph | LoopedBlock
    ) -> tuple[Tensor, Record]:
        """Return L and its parts, given q_1, q_2 and y_1, y_2 (N×D each)."""
        (q_1, q_2), (y_1, y_2) = predictions, targets
        return 2 - cosine(q_1, y_2).mean() - cosine(q_2, y_1).mean(), {}

    def row_layers(self) -> list[RowLayer]:
        """Return the encoder's layers by running statistics; the last one's rows are scaled if they are to be."""
        layers = self.encoder.row_layers()
        if self.config.unit_embeddings:
            weight, finish = layers[-1]
            layers[-1] = RowLayer(weight, lambda product: unit_vectors(finish(product)))
        return layers

    @torch.no_grad()
    def encode(self, prepared: BootstrapGraph | NodeBatches) -> NodeVectors:
        """Return f_θ of every node of the whole graph."""
        if isinstance(prepared, NodeBatches):
            return self.inference(prepared).vectors(0, prepared.num_nodes)
        vectors = self.encoder(prepared.features, symmetric_scaled(prepared.looped), learning=False)
        return NodeVectors(unit_vectors(vectors) if self.config.unit_embeddings else vectors)


class NormalizedEncoder(nn.Module):
    """Graph convolutions, each followed by a normalisation and a PReLU with one slope.

    Args:
        widths: F, the widths between the layers, D.
        norm: batch or layer normalisation.
        norm_momentum: weight of the newest step in running statistics.
    """

    def __init__(self, widths: Sequence[int], norm: Norm, norm_momentum: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(*shape, norm, norm_momentum) for shape in pairwise(widths))

    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix, *, learning: bool, counted: int | None = None
    ) -> Tensor:
        """Return N×D embeddings, from statistics of these nodes if `learning` and else from the running ones.

        On a block of a graph the layers that follow take what is left of `propagation`, and statistics are those of
        the first `counted` nodes.
        """
        values: Tensor | FeatureMatrix = features
        for layer in self.layers:
            values = layer(values, propagation, learning=learning, counted=counted)
            propagation = propagation.next
        assert isinstance(values, Tensor)
        return values

    def row_layers(self) -> list[RowLayer]:
        """Return the layers as they embed."""
        return [layer.row_layer() for layer in self.layers if isinstance(layer, _Layer)]


class _Layer(nn.Module):
    """PReLU(norm(S H W))."""

    def __init__(self, in_features: int, out_features: int, norm: Norm, norm_momentum: float) -> None:
        super().__init__()
        self.convolution = GraphConvolution(in_features, out_features, bias=norm == "layer")
        self.norm = BatchNorm(out_features, norm_momentum) if norm == "batch" else nn.LayerNorm(out_features)
        self.activation = nn.PReLU()

    def forward(
        self, values: Tensor | FeatureMatrix, propagation: SparseMatrix, *, learning: bool, counted: int | None = None
    ) -> Tensor:
        return self.finish(self.convolution(values, propagation), learning=learning, counted=counted)

    def finish(self, product: Tensor, *, learning: bool, counted: int | None = None) -> Tensor:
        """Return PReLU(norm(S H W)), given S H W."""
        if isinstance(self.norm, BatchNorm):
            normalized = self.norm(product, learning=learning, counted=counted)
        else:
            normalized = self.norm(product)
        activated: Tensor = self.activation(normalized)
        return activated

    def row_layer(self) -> RowLayer:
        """Return the layer as it embeds."""

        def finish(product: Tensor) -> Tensor:
            return self.finish(self.convolution.finish(product), learning=False)

        return RowLayer(self.convolution.weight, finish)


class BatchNorm(nn.Module):
    """Batch normalisation that is told at each call whose statistics to use, and accepts one row.

    Args:
        width: D.
        momentum: weight of the newest statistics in the running ones.
    """

    def __init__(self, width: int, momentum: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.momentum = momentum

    def forward(self, values: Tensor, *, learning: bool, counted: int | None = None) -> Tensor:
        """Return normalised `values` (N×D): by their own statistics, which are then remembered, if `learning`.

        Where rows `counted` are given, statistics are those of the first so many rows, for all of them.
        """
        own = learning and len(values) > 1  # the unbiased variance of one row does not exist
        if own and counted is not None and 1 < counted < len(values):
            first = values[:counted]
            mean, variance = first.mean(0), first.var(0, correction=0)
            with torch.no_grad():
                self.mean.lerp_(mean.to(self.mean.dtype), self.momentum)
                unbiased = variance * counted / (counted - 1)
                self.variance.lerp_(unbiased.to(self.variance.dtype), self.momentum)
            scale = self.weight * (variance + _EPSILON).rsqrt()
            return (values - mean) * scale + self.bias
        return nn.functional.batch_norm(
            values, self.mean, self.variance, self.weight, self.bias, training=own, momentum=self.momentum
        )
