r"""MUSE: a node is contrasted by its features, by its context and by a mixture of both that a gate sets for each node.

Yuan, Chen and Li, CIKM 2023. Three contrasts share one encoder: the semantic view reads features alone, the contextual
view aggregates over the graph, the fused view is their sum with a weight λ per node. Encoder and gate are trained in
turn. FOSSIL took over encoder, gate and this alternation.

## Equations

X' is X with feature columns masked, A' is A with edges dropped. One encoder of two layers PReLU(S X W + b), with a ReLU
in between, gives

    h₁ = enc(X, I),   h₂ = enc(X', I),   h₃ = enc(X, A),   h₄ = enc(X, A'),      λ = gate(h₁, h₃, degree)

and with g the symmetric InfoNCE of GRACE, after a projection head that all three terms share,

    L       = g(h₁, h₂) + α₁ g(h₃, h₄) + α₂ g(h₁ + λ h₃, h₂ + λ h₄)              λ a constant
    L_gate  = Σ_i λ_i cos(h₁ᵢ, h₃ᵢ) + α₃ |mean(λ) - target| + α₄ ||λ||₂          h₁, h₃ constants

A step on L is followed by a step of the gate on L_gate. The embedding is h₁ + λ h₃.

## Cost

Time O(F·D·N + E·D + N²·D) for an epoch, the three contrasts being the last term; memory O(N·D), because they stream
over tiles of the similarities. The product with I is never made.

## Differences from the official code

Preset `released` follows it, with its defaults; epochs are those of the graph's recipe unless `--no-recipe` is said.

- `aggregation`: there A is neither normalised nor has self-loops, so that the length of h₃ grows with the square of the
  degree. The default here is the mean over neighbours.
- `fusion_pull`: there α₃ acts on the mean of λ alone, a pull of α₃/N on each node against a cosine near one, and
  λ falls to zero at inference whatever the target. The default here multiplies α₃ by N.
- `fusion_drop_logit`: there dropout reaches the logit of λ, so that λ = 1/2 on a share of the nodes in training and
  its mean differs between training and inference. The default here leaves the logit alone.
- α₁ and α₂ are 0.01 there, for a graph where context misleads. They are 1 here; recipes lower them.
- There a fixed share of edges is removed, here each edge with that probability; there each encoding draws its own
  input dropout, here h₁ and h₃ share one, as they share X W.
- There all four encodings are made again for the gate, which reads two; and test accuracy after each epoch is
  maximised over epochs, which no protocol here does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import centrality, row_normalized
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup, Record
from fossil.nn.augment import mask_columns, symmetric_scaled
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.encoders import Branches, DecoupledEncoder, activation_module
from fossil.nn.fusion import FusionGate, fuse, structure_share
from fossil.nn.tensors import GraphTensors
from fossil.ops.features import FeatureMatrix
from fossil.ops.fusion_penalty import FusionPenalty, fusion_penalty
from fossil.ops.infonce import node_contrast
from fossil.ops.sparse import SparseMatrix
from fossil.settings import Settings, setting

Aggregation = Literal["mean", "symmetric", "sum"]

_RATES = [5e-4, 1e-3, 5e-3, 1e-2]
_SHARES = [0.1, 0.2, 0.3, 0.4]
_WEIGHTS = [0.0, 0.01, 0.1, 1.0]


class MuseSettings(Settings):
    """Settings of MUSE."""

    # Shape.
    hidden: int = setting(1024, "width of the encoder's first layer", ge=1, search=[512, 1024], origin="code")
    width: int = setting(512, "D, width of the embeddings", ge=1, search=[256, 512], origin="code")
    fusion_hidden: int = setting(30, "width of the gate's two maps", ge=1, origin="code")
    normalize_features: bool = setting(
        False, "divide each node's features by the sum of their absolute values", search=[False, True]
    )

    # Views and contrasts.
    feature_mask: float = setting(
        0.2, "probability of a feature column to be masked in X'", ge=0, lt=1, search=_SHARES, origin="code"
    )
    edge_drop: float = setting(
        0.2, "probability of an edge to be dropped in A'", ge=0, lt=1, search=_SHARES, origin="code"
    )
    temperature: float = setting(0.5, "τ of the contrasts", ge=0.05, search=[0.2, 0.4, 0.5, 0.8, 1.0], origin="code")
    context_weight: float = setting(1.0, "α₁, weight of the contextual contrast", ge=0, search=_WEIGHTS)
    fused_weight: float = setting(1.0, "α₂, weight of the fused contrast", ge=0, search=_WEIGHTS)

    # Gate.
    fusion_target: float = setting(
        0.3,
        "average that λ is drawn to, called homo in the code",
        ge=0,
        le=1,
        search=[0.0, 0.3, 0.6, 0.9],
        origin="code",
    )
    fusion_mean: float = setting(2.0, "α₃, weight of |mean(λ) - target|", ge=0, search=[0.1, 1.0, 2.0, 10.0, 100.0])
    fusion_l2: float = setting(1.0, "α₄, weight of ||λ||₂", ge=0, search=[0.0, 0.01, 0.1, 1.0, 10.0], origin="code")
    fusion_dropout: float = setting(0.4, "dropout in the gate", ge=0, lt=1, search=_SHARES, origin="code")

    # Optimisation.
    learning_rate: float = setting(5e-3, "Adam's rate for encoder and head", gt=0, search=_RATES, origin="code")
    fusion_learning_rate: float = setting(5e-3, "Adam's rate for the gate", gt=0, search=_RATES, origin="code")
    weight_decay: float = setting(5e-4, "weight decay of both", ge=0, search=[0.0, 1e-5, 5e-4], origin="code")
    dropout: float = setting(0.2, "dropout of the input features", ge=0, lt=1, search=_SHARES, origin="code")

    # Where the released code does not do what it is meant to.
    aggregation: Aggregation = setting(
        "mean", "the contextual view averages over neighbours, weighs them by degrees, or sums (released)",
        search=["mean", "symmetric", "sum"],
    )  # fmt: skip
    fusion_pull: Literal["per_node", "per_graph"] = setting(
        "per_node", "α₃ is multiplied by the number of nodes, or acts on the mean alone (released)"
    )
    fusion_drop_logit: bool = setting(False, "dropout reaches the logit of λ (released)")


class Views(NamedTuple):
    """(h₁, h₃), (h₂, h₄), and λ (N×1) of the first as a constant."""

    original: Branches
    changed: Branches
    fusion: Tensor


class MUSE(Method[GraphTensors]):
    """Multi-view contrast of features, context and their mixture."""

    name = "muse"
    title = "MUSE"
    paper = "Yuan et al., CIKM 2023"
    whole_because = "its three contrasts compare every node with all others"
    cost = Cost("4, three with a gradient", "nnz(X)·D + E·D + N·D² + N²·D", "N·D + E")
    epochs = 300
    Config = MuseSettings
    small: ClassVar[Mapping[str, Any]] = {"hidden": 16, "width": 8, "fusion_hidden": 5}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        "released": {
            "aggregation": "sum",
            "context_weight": 0.01,
            "fused_weight": 0.01,
            "fusion_pull": "per_graph",
            "fusion_mean": 100.0,
            "fusion_target": 0.3,
            "fusion_drop_logit": True,
        },
    }

    def __init__(self, config: MuseSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        width = config.width
        self.encoder = DecoupledEncoder(num_features, config.hidden, width, activation_module("relu"), config.dropout)
        # A ReLU behind the first PReLU leaves the slope without effect and without gradient.
        self.encoder.first.prelu.requires_grad_(False)
        # Batch normalisation would take a first bias out again; its statistics are always those of the batch.
        self.head = nn.Sequential(
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width, track_running_stats=False),
            nn.ELU(),
            nn.Linear(width, width),
        )
        self.gate = FusionGate(
            width,
            config.fusion_hidden,
            with_centrality=True,
            drop=config.fusion_dropout,
            nonlinear=False,
            drop_logit=config.fusion_drop_logit,
        )

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return encoder and head as one group, the gate as another."""
        config = self.config
        encoder = [p for module in (self.encoder, self.head) for p in module.parameters() if p.requires_grad]
        gate = list(self.gate.parameters())
        return {
            "encoder": ParameterGroup(encoder, config.learning_rate, config.weight_decay),
            "gate": ParameterGroup(gate, config.fusion_learning_rate, config.weight_decay),
        }

    def prepare(self, graph: Graph, device: torch.device) -> GraphTensors:
        """Move the graph to `device`."""
        features = row_normalized(graph.features) if self.config.normalize_features else graph.features
        adjacency = SparseMatrix.from_scipy(graph.adjacency, device)
        return GraphTensors(
            features=FeatureMatrix.from_host(features, device),
            adjacency=adjacency,
            propagation=scaled(adjacency, self.config.aggregation),
            centrality=torch.from_numpy(centrality(graph.adjacency, "degree")).to(device)[:, None],
        )

    def check_trainable(self, prepared: GraphTensors) -> None:
        """Raise GraphError if there is no second node to contrast with."""
        if prepared.num_nodes < 2:
            raise GraphError("MUSE contrasts nodes, and this graph has one.", remedy="Give it at least two nodes.")

    def step(self, prepared: GraphTensors, random: torch.Generator) -> Iterator[Objective]:
        """Yield the three contrasts for the encoder, then the gate's loss on a fresh forward pass."""
        views = self.views(prepared, random)
        loss, parts = self.contrast(views)

        def diagnose() -> Record:
            rank = sampled_rank(fuse(views.original, views.fusion))
            return {**parts, "lambda_mean": views.fusion.mean(), "effective_rank": rank}

        yield Objective({"contrast": loss}, ("encoder",), diagnose)

        with torch.no_grad():
            branches: Branches = self.encoder(prepared.features, prepared.propagation, random)
        penalty = self.gate_loss(branches, prepared.centrality, random)
        yield Objective({"fusion": penalty.total}, ("gate",), penalty.parts)

    def views(self, graph: GraphTensors, random: torch.Generator) -> Views:
        """Encode the graph, its masked features and its thinned edges."""
        config = self.config
        original: Branches = self.encoder(graph.features, graph.propagation, random)
        masked = mask_columns(graph.features, config.feature_mask, random)
        thinned = scaled(thin(graph.adjacency, config.edge_drop, random), config.aggregation)
        changed = Branches(
            feature=self.encoder(masked, graph.propagation, random).feature,
            structure=self.encoder(graph.features, thinned, random).structure,
        )
        fusion = self.gate(original.detached(), graph.centrality, random).detach()
        return Views(original, changed, fusion)

    def contrast(self, views: Views) -> tuple[Tensor, Record]:
        """Return L and its three parts, unweighted."""
        first, second, fusion = views
        assert first.feature is not None and second.feature is not None
        semantic = self.alike(first.feature, second.feature)
        context = self.alike(first.structure, second.structure)
        fused = self.alike(fuse(first, fusion), fuse(second, fusion))
        total = semantic + self.config.context_weight * context + self.config.fused_weight * fused
        return total, {"semantic": semantic, "context": context, "fused": fused}

    def alike(self, first: Tensor, second: Tensor) -> Tensor:
        """Return g, the contrast of two views (N×D each) behind the projection head."""
        return node_contrast(self.head(first), self.head(second), self.config.temperature)

    def gate_loss(self, branches: Branches, degree: Tensor | None, random: torch.Generator) -> FusionPenalty:
        """Return L_gate and its three parts, weighted, for constant branches."""
        config = self.config
        assert branches.feature is not None
        pulled = len(branches.structure) if config.fusion_pull == "per_node" else 1
        return fusion_penalty(
            self.gate(branches, degree, random),
            branches.feature,
            branches.structure,
            alpha=1 - config.fusion_target,
            l2=config.fusion_l2,
            mean=config.fusion_mean * pulled,
        )

    @torch.no_grad()
    def encode(self, prepared: GraphTensors) -> NodeVectors:
        """Return h₁ + λ h₃ and λ of every node."""
        branches: Branches = self.encoder(prepared.features, prepared.propagation)
        fusion = self.gate(branches, prepared.centrality, None)
        return NodeVectors(fuse(branches, fusion), fusion.squeeze(1), structure_share(branches, fusion))


def thin(adjacency: SparseMatrix, probability: float, random: torch.Generator) -> SparseMatrix:
    """Return A (N×N) with each entry set to zero with `probability`; the directions of an edge are independent."""
    if probability == 0:
        return adjacency
    kept = torch.rand(adjacency.num_entries, generator=random, device=random.device) >= probability
    return adjacency.with_values(adjacency.values * kept)


def scaled(adjacency: SparseMatrix, aggregation: Aggregation) -> SparseMatrix:
    """Return A (N×N), D^-1 A or D^-1/2 A D^-1/2 with D the row sums; rows of sum zero stay zero."""
    if aggregation == "sum":
        return adjacency
    if aggregation == "symmetric":
        return symmetric_scaled(adjacency)
    degree = adjacency.values.new_zeros(adjacency.shape[0]).index_add(0, adjacency.row, adjacency.values)
    return adjacency.with_values(adjacency.values / degree.clamp_min(1)[adjacency.row])
