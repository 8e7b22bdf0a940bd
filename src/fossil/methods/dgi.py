"""DGI: make every node's embedding tell something about the whole graph.

A graph convolution embeds the graph and a corrupted copy of it, in which the nodes have swapped their features. A
bilinear discriminator learns to tell, given a summary of the true graph, the embeddings of the one from those of the
other, which raises the mutual information between nodes and graph. Velickovic, Fedus, Hamilton, Lio, Bengio and Hjelm,
ICLR 2019.

## Equations

With Â = D^-1/2 (A + I) D^-1/2 and a random permutation Π of the nodes in each step:

    H  = PReLU(Â X W + b)            embeddings, N×D
    H' = PReLU(Â Π X W + b)          embeddings of the corrupted graph
    s  = sigmoid(mean over i of H_i)                          summary of the graph
    L  = ½ mean over i of [softplus(-(H_i·B s + c)) + softplus(H'_i·B s + c)]

The last line is binary cross-entropy with labels one for H and zero for H'.

## Cost

A step takes nnz(X)·D for X W, which serves both encodings because (Π X) W = Π (X W); 2·E·D for the two sums over
neighbours; and D² + 2·N·D for the scores, because B s is computed once. Memory is O(N·D + E + nnz(X)).

## On a batch of nodes

A sampled step reads the neighbourhood of B nodes drawn uniformly. H and H' are those of the B nodes, the sums run over
them, and the summary is estimated by their mean, sigmoid(mean over the batch of H_i): right on average before the
sigmoid, and off by O(1/√B). Π permutes the features of the nodes that were read, of which hubs are more often one than
other nodes are. Where the batch is all nodes, with all neighbours, the step is the full one.

## Differences from the official code

- The number of steps is fixed. The official code stops 20 steps after the lowest training loss and goes back to the
  weights of that step; the loss is noisy, as each step has another permutation, so its number of steps varies.
- `layers=2` stacks a second convolution of the same width, as some libraries do; the official encoder has one.
- `dropout`, of the input features, is zero there; it is here to be searched.
- The official code knows no directed graphs. Here a node sums over the nodes it points to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized, symmetric_normalized
from fossil.methods.base import Cost, NodeVectors, Objective, ParameterGroup
from fossil.methods.batches import RowLayer, TrainsOnBatches, convolution_layer
from fossil.nn.augment import shuffled
from fossil.nn.convolution import GraphConvolution
from fossil.nn.discriminators import BilinearDiscriminator, real_or_fake
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.encoders import activation_module
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.batches import NodeBatches
from fossil.settings import Settings, setting


class DGISettings(Settings):
    """Settings of DGI."""

    width: int = setting(512, "D, width of the embeddings", ge=1, search=[256, 512, 1024], origin="official code")
    layers: int = setting(1, "graph convolutions, each of width D", ge=1, le=100, search=[1, 2], origin="official code")
    activation: Literal["relu", "prelu"] = setting(
        "prelu", "after each convolution; a PReLU has one slope", search=["relu", "prelu"], origin="official code"
    )
    normalize_features: bool = setting(
        True,
        "divide each node's features by the sum of their absolute values",
        search=[True, False],
        origin="official code",
    )
    dropout: float = setting(
        0.0, "dropout of the input features", ge=0, lt=1, search=[0.0, 0.2, 0.5], origin="official code"
    )
    learning_rate: float = setting(1e-3, "Adam's rate", gt=0, search=[1e-4, 5e-4, 1e-3, 5e-3], origin="official code")
    weight_decay: float = setting(0.0, "weight decay", ge=0, search=[0.0, 1e-5, 5e-4], origin="official code")


@dataclass(frozen=True, eq=False)
class DGIGraph:
    """X (N×F) and Â (N×N) on a device."""

    features: FeatureMatrix
    propagation: SparseMatrix

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.propagation.shape[0]


class DGI(TrainsOnBatches[DGIGraph]):
    """Deep Graph Infomax."""

    name = "dgi"
    title = "DGI"
    paper = "Velickovic et al., ICLR 2019, arXiv 1809.10341"
    cost = Cost("2", "nnz(X)·D + E·D + N·D", "N·D + E")
    Config = DGISettings

    def __init__(self, config: DGISettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.first = GraphConvolution(num_features, config.width)
        self.deeper = nn.ModuleList(GraphConvolution(config.width, config.width) for _ in range(config.layers - 1))
        self.activation = activation_module(config.activation)
        self.discriminator = BilinearDiscriminator(config.width)

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return everything as one group."""
        config = self.config
        return {"all": ParameterGroup(list(self.parameters()), config.learning_rate, config.weight_decay)}

    def prepare(self, graph: Graph, device: torch.device) -> DGIGraph:
        """Normalise features and adjacency and move them to `device`."""
        features = row_normalized(graph.features) if self.config.normalize_features else graph.features
        propagation = symmetric_normalized(graph.adjacency, self_loops=True)
        return DGIGraph(FeatureMatrix.from_host(features, device), SparseMatrix.from_scipy(propagation, device))

    def check_trainable(self, prepared: DGIGraph | NodeBatches) -> None:
        """Raise GraphError unless there are two nodes that can swap their features."""
        if prepared.num_nodes < 2:
            raise GraphError("DGI compares nodes that swap features, and there is one node.", remedy="Give it more.")

    def step(self, prepared: DGIGraph | NodeBatches, random: torch.Generator) -> Iterator[Objective]:
        """Yield the discriminator's cross-entropy on true and corrupted nodes."""
        if isinstance(prepared, NodeBatches):
            block = self.surroundings(prepared, random)
            graph = DGIGraph(block.features, block.propagation())
        else:
            graph = prepared
        projected = graph.features.dropout(self.config.dropout, random).project(self.first.weight)
        true = self.embed(projected, graph.propagation)
        corrupted = self.embed(projected[shuffled(len(projected), random)], graph.propagation)
        summary = torch.sigmoid(true.mean(0))
        loss = real_or_fake(self.discriminator(true, summary), self.discriminator(corrupted, summary))
        yield Objective({"loss": loss}, ("all",), lambda: {"effective_rank": sampled_rank(true)})

    def embed(self, projected: Tensor, propagation: SparseMatrix) -> Tensor:
        """Return the embeddings (N×D), given X W of the first convolution (N×D)."""
        hidden: Tensor = self.activation(self.first.finish(propagation.matmul(projected)))
        for convolution in self.deeper:
            propagation = propagation.next
            hidden = self.activation(convolution(hidden, propagation))
        return hidden

    def row_layers(self) -> list[RowLayer]:
        """Return the convolutions with the activation after each."""
        convolutions: list[GraphConvolution] = [self.first, *self.deeper]
        return [convolution_layer(each, self.activation) for each in convolutions]

    @torch.no_grad()
    def encode(self, prepared: DGIGraph | NodeBatches) -> NodeVectors:
        """Return H of every node."""
        if isinstance(prepared, NodeBatches):
            return self.inference(prepared).vectors(0, prepared.num_nodes)
        return NodeVectors(self.embed(prepared.features.project(self.first.weight), prepared.propagation))
