r"""DSSL: every link has a hidden reason, and a node's embedding with that reason must predict its neighbour's.

Xiao, Chen, Guo, Zhuang and Wang, NeurIPS 2022. A latent-variable model of neighbourhoods: the reason of link (i, j) is
one of K semantic clusters; an inference network guesses it from both ends, and K prototypes say which reasons a node
is likely to have. There are no augmentations and no negatives.

## Equations

z is the learning encoder's output and t that of a twin which follows it slowly, both scaled to unit length; j runs over
M neighbours of i, drawn once before training; C (D×K) holds the prototypes.

    k_ij     = softmax(inference(z_i ⊙ t_j))                                    reason of a link, q(k | i, j)
    g_ij     = softmax(log k_ij + Gumbel noise)                                 a differentiable draw of it
    L_recon  = mean_ij 2 - 2 cos(predictor(z_i) + β factor(g_ij), t_j)          t_j a constant
    k̄_i      = mean_j k_ij
    L_prior  = -mean_i Σ_k k̄_ik log softmax(z_i C / τ)_k
    L_ent    = mean_i Σ_k k̄_ik log k̄_ik
    L        = L_recon + γ (L_prior + L_ent)                                    negative ELBO: L_prior + L_ent is a KL

After each step the twin moves, φ ← m φ + (1 - m) θ, and with both encoders free of dropout each node goes to the
cluster argmax k̄_i; C_k becomes the direction of the mean of cluster k, or stays where the cluster is empty.

## Cost

Time O(F·D·N + E·D + N·M·D²) for a step, which is one epoch; memory O(N·M·D). The table of neighbours is one sort of
the E edges.

## Differences from the official code

The authors' code is known from a copy inside a later project. Preset `released` follows it in its defaults and in what
can be switched; epochs are those of the graph's recipe unless `--no-recipe` is said.

- `leaking_target`: there the twin takes gradients through k_ij, weight decay and momentum at once. Here it is frozen.
- `gumbel_input`: there the noise is added to probabilities, so that draws are nearly uniform whatever k says.
- `prototype_axis`: there the sums of clusters are divided by their length across clusters and then by their size plus
  one, which makes the prior nearly uniform, and the embeddings summed are not of unit length.
- `encoder`: an MLP there; the model is the same for any encoder, and a GCN is the better one on homophilous graphs.
- There a step takes 1024 nodes and encodes the whole graph for them; here it takes all nodes, so that 200 passes over
  N nodes correspond to 200·⌈N/1024⌉ epochs. There C also learns by gradient between its updates; here each step ends
  with an update, so it has no gradient.
- There a node without neighbours gets node 0 as neighbour; here it is its own.
- Directed graphs are made undirected, and self-loops are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized, symmetric_normalized, undirected
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup
from fossil.nn.convolution import GraphConvolution, project
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.momentum import follow, frozen
from fossil.ops.features import FeatureMatrix, dropout
from fossil.ops.sparse import SparseMatrix
from fossil.ops.unit import cosine, unit_vectors
from fossil.sampling.neighbours import neighbour_table
from fossil.settings import Settings, setting

_TINY = 1e-12  # keeps the logarithm of a share that has underflowed finite


class DsslSettings(Settings):
    """Settings of DSSL."""

    encoder: Literal["gcn", "mlp"] = setting(
        "gcn", "two graph convolutions, or two linear layers (the released default)", search=["gcn", "mlp"]
    )
    hidden: int = setting(64, "width of the encoder's first layer", ge=1, search=[64, 128, 256, 512], origin="code")
    width: int = setting(64, "D, width of the embeddings", ge=1, search=[64, 128, 256, 512], origin="code")
    dropout: float = setting(0.5, "dropout between the layers", ge=0, lt=1, search=[0.0, 0.2, 0.5], origin="code")
    clusters: int = setting(6, "K, reasons a link can have", ge=2, search=[4, 6, 8, 16, 32], origin="code")
    neighbours: int = setting(5, "M, neighbours drawn for each node", ge=1, search=[5, 10], origin="code")
    factor_weight: float = setting(
        1.0, "β, weight of the link's reason in the prediction", ge=0, search=[0.0, 0.5, 1.0], origin="code"
    )
    prior_weight: float = setting(
        0.1, "γ, weight of the divergence from the prior", ge=0, search=[0.01, 0.1, 1.0], origin="code"
    )
    temperature: float = setting(1.0, "τ of the prior over reasons", gt=0, search=[0.1, 0.5, 1.0], origin="code")
    momentum: float = setting(
        0.99,
        "m, share of itself that the twin keeps at each step",
        ge=0,
        le=1,
        search=[0.9, 0.99, 0.999],
        origin="code",
    )
    learning_rate: float = setting(1e-3, "AdamW's rate", gt=0, search=[5e-4, 1e-3, 5e-3, 1e-2], origin="code")
    weight_decay: float = setting(1e-3, "AdamW's weight decay", ge=0, search=[0.0, 1e-4, 1e-3], origin="code")
    normalize_features: bool = setting(
        False, "divide each node's features by the sum of their absolute values", search=[False, True]
    )

    # Where the released code departs from the model.
    leaking_target: bool = setting(
        False, "let the twin take gradients through k_ij and weight decay on top of its momentum (released)"
    )
    gumbel_input: Literal["log_probabilities", "probabilities"] = setting(
        "log_probabilities", "what the Gumbel noise is added to: log k_ij, or k_ij itself (released)"
    )
    prototype_axis: Literal["features", "clusters"] = setting(
        "features", "prototypes have unit length, or are scaled across clusters and by cluster size (released)"
    )


@dataclass(frozen=True, eq=False)
class DsslGraph:
    """A graph as DSSL trains on it: X (N×F), normalised A + I unless the encoder is an MLP, neighbours (N×M)."""

    features: FeatureMatrix
    propagation: SparseMatrix | None
    neighbours: Tensor
    has_edges: bool


class Links(NamedTuple):
    """The encoder's output (N×D), z (N×D), the t_j of each node's neighbours (N×M×D), and log k_ij (N×M×K)."""

    embeddings: Tensor
    nodes: Tensor
    targets: Tensor
    log_reasons: Tensor


class DSSL(Method[DsslGraph]):
    """Decoupled self-supervised learning: neighbours are predicted with the help of hidden reasons."""

    name = "dssl"
    title = "DSSL"
    paper = "Xiao et al., NeurIPS 2022, arXiv 2206.03601"
    cost = Cost("4, one with a gradient", "nnz(X)·D + E·D + N·M·D²", "N·M·D + E")
    undirected = True
    epochs = 600
    whole_because = "every step assigns all nodes to its clusters, whose means are the prototypes of the next"
    Config = DsslSettings
    small: ClassVar[Mapping[str, Any]] = {"hidden": 16, "width": 8}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        "released": {
            "encoder": "mlp",
            "hidden": 64,
            "width": 64,
            "leaking_target": True,
            "gumbel_input": "probabilities",
            "prototype_axis": "clusters",
        },
    }

    prototypes: Tensor

    def __init__(self, config: DsslSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        width = config.width
        self.online = _Encoder(config, num_features)
        self.target = copy.deepcopy(self.online)
        if not config.leaking_target:
            frozen(self.target)
        self.inference = _perceptron(width, width, config.clusters)
        self.predictor = _perceptron(width, width, width)
        self.factor = _perceptron(config.clusters, width, width)
        self.register_buffer("prototypes", torch.randn(width, config.clusters))
        # Drawn with the weights, so that the sampled neighbours depend on the run's seed as they do; on the host also
        # where the weights are only counted, on a device without memory.
        self.table_seed = int(torch.randint(1 << 62, (), device="cpu"))

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return everything that learns as one group."""
        learning = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return {
            "all": ParameterGroup(learning, self.config.learning_rate, self.config.weight_decay, decoupled_decay=True)
        }

    def prepare(self, graph: Graph, device: torch.device) -> DsslGraph:
        """Drop the direction of the edges, draw the neighbours and move all to `device`."""
        config = self.config
        both_ways = undirected(graph.adjacency)
        features = row_normalized(graph.features) if config.normalize_features else graph.features
        propagation = None
        if config.encoder == "gcn":
            propagation = SparseMatrix.from_scipy(symmetric_normalized(both_ways, self_loops=True), device)
        table = neighbour_table(both_ways, config.neighbours, self.table_seed)
        return DsslGraph(
            features=FeatureMatrix.from_host(features, device),
            propagation=propagation,
            neighbours=torch.from_numpy(table.astype(np.int64)).to(device),
            has_edges=both_ways.nnz > 0,
        )

    def check_trainable(self, prepared: DsslGraph) -> None:
        """Raise GraphError if there is no edge to explain."""
        if not prepared.has_edges:
            raise GraphError(
                "DSSL learns from neighbours, and this graph has no edges.",
                remedy="Add edges, or choose a method that learns from features alone.",
            )

    def step(self, prepared: DsslGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the negative ELBO of all links; after the step, move the twin and the prototypes."""
        links = self.links(prepared, random)
        parts = self.loss_parts(links, random)
        loss = parts["reconstruction"] + self.config.prior_weight * (parts["prior"] + parts["entropy"])
        embeddings = links.embeddings
        yield Objective({"loss": loss}, ("all",), lambda: {**parts, "effective_rank": sampled_rank(embeddings)})
        follow(self.target, self.online, torch.full_like(self.progress, self.config.momentum))
        self.update_prototypes(prepared)

    def links(self, graph: DsslGraph, random: torch.Generator | None) -> Links:
        """Encode all nodes and infer the reasons of all sampled links; with `random` in training mode."""
        embeddings = self.online(graph.features, graph.propagation, random)
        nodes = unit_vectors(embeddings)
        with torch.set_grad_enabled(self.config.leaking_target and torch.is_grad_enabled()):
            targets = unit_vectors(self.target(graph.features, graph.propagation, random))[graph.neighbours]
        log_reasons = torch.log_softmax(self.inference(nodes[:, None] * targets), dim=-1)
        return Links(embeddings, nodes, targets, log_reasons)

    def loss_parts(self, links: Links, random: torch.Generator) -> dict[str, Tensor]:
        """Return the terms of the negative ELBO, unweighted scalars."""
        config = self.config
        reasons = links.log_reasons.exp()
        scores = links.log_reasons if config.gumbel_input == "log_probabilities" else reasons
        drawn = torch.softmax(scores + _gumbel(scores, random), dim=-1)
        predicted = self.predictor(links.nodes)[:, None] + config.factor_weight * self.factor(drawn)
        shares = reasons.mean(1)
        prior = torch.log_softmax(links.nodes @ self.prototypes / config.temperature, dim=1)
        return {
            "reconstruction": (2 - 2 * cosine(predicted, links.targets.detach())).mean(),
            "prior": -(shares * prior).sum(1).mean(),
            "entropy": (shares * shares.clamp_min(_TINY).log()).sum(1).mean(),
        }

    @torch.no_grad()
    def update_prototypes(self, graph: DsslGraph) -> None:
        """Move each prototype to the nodes that take it for their likeliest reason."""
        links = self.links(graph, None)
        shares = links.log_reasons.exp().mean(1)
        if self.config.prototype_axis == "clusters":
            self.prototypes.copy_(released_prototypes(links.embeddings, shares))
        else:
            self.prototypes.copy_(unit_prototypes(links.nodes, shares, self.prototypes))

    @torch.no_grad()
    def encode(self, prepared: DsslGraph) -> NodeVectors:
        """Return the learning encoder's output, not scaled to unit length."""
        return NodeVectors(self.online(prepared.features, prepared.propagation, None))


def unit_prototypes(nodes: Tensor, shares: Tensor, previous: Tensor) -> Tensor:
    """Return the direction of the mean of each cluster, D×K; an empty cluster keeps its previous prototype.

    Args:
        nodes: z, N×D.
        shares: k̄, N×K; the largest entry of a row is the node's cluster.
        previous: C, D×K.
    """
    members = _members(shares)
    return torch.where(members.any(0), unit_vectors(members.T @ nodes).T, previous)


def released_prototypes(embeddings: Tensor, shares: Tensor) -> Tensor:
    """Return the sums of clusters, of unit length across clusters, divided by cluster size plus one, D×K.

    Args:
        embeddings: what the encoder says, N×D.
        shares: k̄, N×K.
    """
    members = _members(shares)
    return unit_vectors(embeddings.T @ members) / (members.sum(0) + 1)


def _members(shares: Tensor) -> Tensor:
    """Return one where a node belongs to a cluster and zero elsewhere, N×K."""
    belongs = shares.argmax(1, keepdim=True) == torch.arange(shares.shape[1], device=shares.device)
    return belongs.to(shares.dtype)


def _gumbel(like: Tensor, random: torch.Generator) -> Tensor:
    """Return standard Gumbel noise of the shape of `like`: minus the logarithm of exponential noise."""
    return -torch.empty_like(like).exponential_(generator=random).clamp_min(_TINY).log()


def _perceptron(in_features: int, hidden: int, out_features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(in_features, hidden), nn.ReLU(), nn.Linear(hidden, out_features))


class _Encoder(nn.Module):
    """Two graph convolutions with batch normalisation before the ReLU, or two linear layers with it after the ReLU."""

    def __init__(self, config: DsslSettings, features: int) -> None:
        super().__init__()
        # Batch normalisation takes a bias right before it out again.
        self.first = GraphConvolution(features, config.hidden, bias=config.encoder == "mlp")
        self.norm = nn.BatchNorm1d(config.hidden)
        self.second = GraphConvolution(config.hidden, config.width)
        self.drop = config.dropout

    def forward(
        self, features: FeatureMatrix, propagation: SparseMatrix | None, random: torch.Generator | None
    ) -> Tensor:
        """Return N×D embeddings; with `random` in training mode (dropout, batch statistics), without it not."""
        hidden = _layer(self.first, features, propagation)
        if propagation is None:
            hidden = self.normalized(torch.relu(hidden), random is not None)
        else:
            hidden = torch.relu(self.normalized(hidden, random is not None))
        return _layer(self.second, dropout(hidden, self.drop, random), propagation)

    def normalized(self, values: Tensor, training: bool) -> Tensor:
        """Apply batch normalisation, with statistics of the batch in training and running ones otherwise."""
        norm = self.norm
        return nn.functional.batch_norm(
            values, norm.running_mean, norm.running_var, norm.weight, norm.bias, training, eps=norm.eps
        )


def _layer(layer: GraphConvolution, values: Tensor | FeatureMatrix, propagation: SparseMatrix | None) -> Tensor:
    """Return S X W + b, or X W + b where there is no S."""
    if propagation is None:
        return layer.finish(project(values, layer.weight))
    output: Tensor = layer(values, propagation)
    return output
