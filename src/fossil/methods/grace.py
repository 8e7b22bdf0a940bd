"""GRACE: a node should look like itself, and unlike all others, in two random views of the graph.

Each step makes two views by dropping edges and masking feature columns and embeds both with one GCN. The two embeddings
of a node are a positive pair; all other nodes, of both views, are negatives. Zhu, Xu, Yu, Liu, Wu and Wang, ICML
Workshop on Graph Representation Learning and Beyond, 2020.

## Equations

View v ∈ {1, 2} drops each directed edge with probability p_ev and sets each feature column to zero with probability
p_fv; Â_v is its D^-1/2 (A_v + I) D^-1/2. With the activation σ and the cosine of projected embeddings:

    H_v = σ(Â_v σ(Â_v X_v W₁ + b₁) W₂ + b₂)                   embeddings, N×D
    u = P(H₁), v = P(H₂), P(h) = V₂ elu(V₁ h + a₁) + a₂       projections, used in the loss alone
    l(u_i, v_i) = -log( exp(cos(u_i, v_i)/τ) / [Σ_j exp(cos(u_i, v_j)/τ) + Σ_{j≠i} exp(cos(u_i, u_j)/τ)] )
    L = mean over i of ½ [l(u_i, v_i) + l(v_i, u_i)]

## Cost

A step takes O(nnz(X)·D + E·D + N·D²) for the two encodings and O(N²·D) for the loss. The loss is exact and streams over
tiles of the similarities, so memory is O(N·D + E + nnz(X)); stored similarities would need 4·N².

## On a batch of nodes

A sampled step reads the neighbourhood of B nodes drawn uniformly, makes both views of it, and contrasts the B nodes
with each other: a node has 2B-2 negatives in place of 2N-2. The sum in the logarithm is about B/N of the full one, so
the loss is lower by about log(N/B); what pushes a node away is the same mean over other nodes, estimated from fewer,
and hard negatives are met less often. How many edges a view keeps of a node is drawn as in the whole graph. Where the
batch is all nodes, with all neighbours, the step is the full one.

## Differences from the official code

- The loss is the same, memory is not: the official code stores four N×N matrices.
- On a directed graph a node sums over the nodes it points to, like everywhere here. The convolution of PyTorch
  Geometric, which the official code uses, sums over those that point to it (`--direction reverse`).
- Embeddings are scaled to length one after training, as the official evaluation does; `unit_embeddings` turns it off.
- A self-loop that is in the graph counts twice in A + I, and is never dropped.
- `layers=1` leaves the second convolution out; the official encoder has two.
- `rrelu` is a leaky ReLU of slope 11/48, which is what PyTorch's function makes of it where it is not told to train.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized
from fossil.methods.base import Cost, NodeVectors, Objective, ParameterGroup
from fossil.methods.batches import RowLayer, TrainsOnBatches, convolution_layer
from fossil.nn.augment import drop_edges, mask_columns, symmetric_scaled, with_self_loops
from fossil.nn.blocks import LoopedBlock
from fossil.nn.convolution import GraphConvolution
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.heads import ProjectionHead
from fossil.ops.features import FeatureMatrix
from fossil.ops.infonce import node_contrast
from fossil.ops.sparse import SparseMatrix
from fossil.ops.unit import unit_vectors
from fossil.sampling.batches import NodeBatches
from fossil.settings import Settings, setting

_PROBABILITIES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "rrelu": partial(nn.LeakyReLU, 11 / 48),
}


class GraceSettings(Settings):
    """Settings of GRACE. The defaults are the official ones of Cora."""

    hidden: int = setting(
        256, "width of the first convolution", ge=1, origin="official code: 2 D", only_with={"layers": 2}
    )
    width: int = setting(128, "D, width of the embeddings", ge=1, search=[128, 256, 512], origin="official code")
    projection: int = setting(128, "hidden width of the projection head", ge=1, origin="official code: D")
    layers: int = setting(2, "graph convolutions, one or two", ge=1, le=2, search=[1, 2], origin="official code")
    activation: Literal["relu", "prelu", "rrelu"] = setting(
        "relu", "after each convolution; a PReLU's slope is shared", search=["relu", "prelu"], origin="official code"
    )
    edge_drop_1: float = setting(0.2, "p_e1, share of edges dropped in view 1", ge=0, lt=1, search=_PROBABILITIES)
    edge_drop_2: float = setting(0.4, "p_e2, share of edges dropped in view 2", ge=0, lt=1, search=_PROBABILITIES)
    feature_drop_1: float = setting(0.3, "p_f1, share of columns masked in view 1", ge=0, lt=1, search=_PROBABILITIES)
    feature_drop_2: float = setting(0.4, "p_f2, share of columns masked in view 2", ge=0, lt=1, search=_PROBABILITIES)
    temperature: float = setting(
        0.4, "τ of the loss", ge=0.05, search=[0.2, 0.4, 0.5, 0.7, 0.9], origin="official code"
    )
    normalize_features: bool = setting(
        True,
        "divide each node's features by the sum of their absolute values",
        search=[True, False],
        origin="official code",
    )
    unit_embeddings: bool = setting(True, "scale the final embeddings to length one", origin="official evaluation")
    learning_rate: float = setting(5e-4, "Adam's rate", gt=0, search=[1e-4, 5e-4, 1e-3, 5e-3], origin="official code")
    weight_decay: float = setting(1e-5, "weight decay", ge=0, search=[0.0, 1e-5, 5e-4], origin="official code")


@dataclass(frozen=True, eq=False)
class GraceGraph:
    """X (N×F), A + I and Â (N×N each) on a device."""

    features: FeatureMatrix
    looped: SparseMatrix
    propagation: SparseMatrix

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.looped.shape[0]

    def dropped(self, probability: float, random: torch.Generator) -> SparseMatrix:
        """Return Â of a view that drops edges."""
        return drop_edges(self.looped, probability, random)


class Grace(TrainsOnBatches[GraceGraph]):
    """Deep graph contrastive representation learning."""

    name = "grace"
    title = "GRACE"
    paper = "Zhu et al., ICML Workshop GRL+ 2020, arXiv 2006.04131"
    cost = Cost("2", "nnz(X)·D + E·D + N·D² + N²·D", "N·D + E")
    epochs = 200
    Config = GraceSettings
    small: ClassVar[Mapping[str, Any]] = {"hidden": 16, "width": 8, "projection": 8}

    def __init__(self, config: GraceSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        widths = [num_features, config.hidden, config.width] if config.layers == 2 else [num_features, config.width]
        self.convolutions = nn.ModuleList(
            GraphConvolution(in_features, out_features) for in_features, out_features in pairwise(widths)
        )
        self.activation = _ACTIVATIONS[config.activation]()
        self.head = ProjectionHead(config.width, config.projection, config.width)

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return everything as one group."""
        config = self.config
        return {"all": ParameterGroup(list(self.parameters()), config.learning_rate, config.weight_decay)}

    def prepare(self, graph: Graph, device: torch.device) -> GraceGraph:
        """Normalise the features, add self-loops, and move both to `device`."""
        features = row_normalized(graph.features) if self.config.normalize_features else graph.features
        looped = with_self_loops(graph.adjacency, device)
        return GraceGraph(FeatureMatrix.from_host(features, device), looped, symmetric_scaled(looped))

    def check_trainable(self, prepared: GraceGraph | NodeBatches) -> None:
        """Raise GraphError unless there is a second node to be the negative of the first."""
        if prepared.num_nodes < 2:
            raise GraphError(
                "GRACE contrasts nodes, and there is one node.", remedy="Give a graph of two nodes or more."
            )

    def step(self, prepared: GraceGraph | NodeBatches, random: torch.Generator) -> Iterator[Objective]:
        """Yield the contrast of two random views."""
        config = self.config
        graph = self.surroundings(prepared, random) if isinstance(prepared, NodeBatches) else prepared
        first = self.view(graph, config.edge_drop_1, config.feature_drop_1, random)
        second = self.view(graph, config.edge_drop_2, config.feature_drop_2, random)
        loss = node_contrast(self.head(first), self.head(second), config.temperature)
        yield Objective({"loss": loss}, ("all",), lambda: {"effective_rank": sampled_rank(first)})

    def view(
        self, graph: GraceGraph | LoopedBlock, edge_drop: float, feature_drop: float, random: torch.Generator
    ) -> Tensor:
        """Return the embeddings (N×D) of one random view."""
        features = mask_columns(graph.features, feature_drop, random)
        return self.embed(features, graph.dropped(edge_drop, random))

    def embed(self, features: FeatureMatrix, propagation: SparseMatrix) -> Tensor:
        """Return H (N×D)."""
        hidden: FeatureMatrix | Tensor = features
        for convolution in self.convolutions:
            hidden = self.activation(convolution(hidden, propagation))
            propagation = propagation.next
        assert isinstance(hidden, Tensor)
        return hidden

    def row_layers(self) -> list[RowLayer]:
        """Return the convolutions with the activation after each; the last one's rows are scaled if they are to be."""
        *inner, last = (each for each in self.convolutions if isinstance(each, GraphConvolution))
        after = [self.activation, unit_vectors] if self.config.unit_embeddings else [self.activation]
        return [*(convolution_layer(each, self.activation) for each in inner), convolution_layer(last, *after)]

    @torch.no_grad()
    def encode(self, prepared: GraceGraph | NodeBatches) -> NodeVectors:
        """Return the embeddings of the graph as it is."""
        if isinstance(prepared, NodeBatches):
            return self.inference(prepared).vectors(0, prepared.num_nodes)
        embeddings = self.embed(prepared.features, prepared.propagation)
        return NodeVectors(unit_vectors(embeddings) if self.config.unit_embeddings else embeddings)
