"""GSC: contrast subgraphs with generated copies of themselves by optimal transport, on features and on structure.

Han, Hui, Jiang, Qian and Xie, "Generative subgraph contrast for self-supervised graph representation learning",
ECCV 2022. A GCN encodes the graph; one attention layer interpolates each node's embedding from its neighbours. The
same K nodes, read from the encoder and from the generator, are a positive pair; other subgraphs give the negatives. No
augmentation and no projection head. GSC+Cheb, a comparison system of the FOSSIL paper, has Chebyshev convolutions in
place of the GCN's.

## Equations

- Embeddings Z = σ(Â σ(Â X W₁ + b₁) W₂ + b₂), generated ones Ẑ = σ(GAT(Z)), attention over neighbours alone.
- Subgraphs: the anchor's neighbourhood grows hop by hop until it holds K nodes; K-1 random ones and the anchor stay.
- Pairs: (Z_i, Ẑ_i) against 1; (Z_i, Z_j) and (Z_i, Ẑ_j) against 0, j another subgraph.
- Costs: C = exp(-cos/τ) between nodes, C_s = exp(-A/τ) within the first subgraph, C_t = exp(-cos/τ) within the second;
  each lowered by t = min + 0.1 (max - min) over all pairs of the step, and cut at zero.
- Wasserstein distance WD = <C, T>, T by 40 proximal point iterations with step 0.5.
- Gromov-Wasserstein distance GWD = <L(g), g> with L(g) = C_s² p 1ᵀ + 1 (C_t² q)ᵀ - 2 C_s g C_tᵀ; g starts as p qᵀ and
  is replaced five times by the plan that 20 proximal iterations with step 0.1 find for the cost L(g).
- Loss: ½ BCE(exp(-WD/0.01)) + ½ BCE(exp(-GWD/0.1)), the exponentials being logits.

## Cost

A step takes nnz(X) D₁ + E D₁ + N D₁ D for the encoder, N D² + E D for the generator, and S (K² D + 140 K²) for 3 S
transport problems in one batch. `solver_gradient=unrolled` keeps all 140 iterations for the backward pass: about 450 MB
for S = 300 and K = 15. Nothing is N×N: edges within subgraphs are looked up in the sorted list of edges.

## Differences from the official code

- The official GWD is <L(g), T> with T the plan of the Wasserstein part, and the gradient goes through all iterations:
  preset `released`. By default GWD is valued under its own plan g, as the paper presents it, and plans are constants in
  the gradient, which is exact where they are optimal.
- Subgraphs may grow over six hops, officially over four; anchors that fill none drop out here as there.
- j is uniform over all other subgraphs; officially not quite, the last one comes up for one i alone.
- Directed graphs are made undirected, without which the sampler sees out-neighbours alone, and self-loops are left out.
- The official model selection by test accuracy has no place here: training ends after a fixed number of epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from fossil.graph.graph import Graph
from fossil.graph.structure import row_normalized, symmetric_normalized, undirected
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup, Record
from fossil.nn.augment import with_self_loops
from fossil.nn.convolution import GraphConvolution
from fossil.nn.effective_rank import sampled_rank
from fossil.nn.encoders import Activation, Branches, activation_module
from fossil.nn.filters import ChebyshevConvolution
from fossil.nn.generators import GATOnEmbeddings
from fossil.nn.tensors import GraphTensors
from fossil.ops.costs import exponential_cost
from fossil.ops.features import FeatureMatrix
from fossil.ops.precision import full_float32
from fossil.ops.sparse import SparseMatrix
from fossil.ops.unit import unit_vectors
from fossil.sampling.subgraphs import Subgraphs, SubgraphSampler
from fossil.settings import Settings, setting
from fossil.transport import FusedProblem, NestedGW, ProximalPoint


class GSCSettings(Settings):
    """Settings of GSC. The defaults are the official ones for Cora, the only graph with any."""

    hidden: int = setting(2048, "width of the encoder's first layer", ge=1, search=[512, 1024, 2048])
    width: int = setting(1024, "D, width of the embeddings", ge=1, search=[256, 512, 1024])
    activation: Activation = setting("relu", "σ; a PReLU's slope is shared by encoder and generator")
    normalize_features: bool = setting(
        False, "divide each node's features by the sum of their absolute values", search=[False, True]
    )
    num_anchors: int = setting(300, "S, anchors drawn per step, with replacement", ge=2, search=[100, 200, 300, 500])
    subgraph_size: int = setting(15, "K, nodes of a subgraph, anchor included", ge=2, search=list(range(5, 21)))
    temperature: float = setting(5.0, "τ of the costs", gt=0, search=[1.0, 2.0, 5.0, 10.0])
    cost_threshold: float = setting(0.1, "share of their range that costs are lowered by", ge=0, lt=1)
    feature_temperature: float = setting(0.01, "temperature of WD in its logit", gt=0, origin="released code")
    structure_temperature: float = setting(0.1, "temperature of GWD in its logit", gt=0, origin="released code")
    structure_weight: float = setting(0.5, "share of the GWD part in the loss", ge=0, le=1, origin="released code")
    structure_plan: Literal["own", "features"] = setting(
        "own", "plan that GWD is valued with: its own (paper), or the one of the features (released code)"
    )
    solver_gradient: Literal["envelope", "unrolled"] = setting(
        "envelope", "hold the plans constant in the gradient, or differentiate through all iterations (released code)"
    )
    learning_rate: float = setting(1e-4, "Adam's rate", gt=0, search=[1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 1e-2])
    weight_decay: float = setting(1e-5, "weight decay", ge=0, search=[0.0, 1e-5, 5e-4])


class GSCChebSettings(GSCSettings):
    """Settings of GSC+Cheb."""

    polynomial_terms: int = setting(
        3, "Chebyshev polynomials in each convolution, the identity included", ge=1, le=100, search=[2, 3, 4]
    )


@dataclass(frozen=True, eq=False)
class GSCGraph:
    """A graph as GSC trains on it; the sampler's graph has self-loops, so that each hop contains the ones before."""

    tensors: GraphTensors
    sampler: SubgraphSampler


class Distances(NamedTuple):
    """Distances of 3S pairs of subgraphs: S positive ones, then twice S negative ones."""

    feature: Tensor
    structure: Tensor


class GSC(Method[GSCGraph]):
    """GSC: generated subgraphs as positives, compared by Wasserstein and Gromov-Wasserstein distances."""

    name = "gsc"
    title = "GSC"
    paper = "Han et al., ECCV 2022, arXiv 2207.11996"
    whole_because = "encoder and generator run over all nodes, before subgraphs are drawn from them"
    cost = Cost("1, and the generator", "nnz(X)·D + E·D + N·D² + S·K²·(T + K + D)", "N·D + E + S·K·(K + D)")
    undirected = True
    Config: ClassVar[type[Settings]] = GSCSettings
    small: ClassVar[Mapping[str, Any]] = {
        "hidden": 16,
        "width": 8,
        "num_anchors": 20,
        "subgraph_size": 4,
        "temperature": 2.0,
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {},
        "released": {"structure_plan": "features", "solver_gradient": "unrolled"},
    }

    def __init__(self, config: GSCSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.activation = activation_module(config.activation)
        self.first = self.convolution(num_features, config.hidden)
        self.second = self.convolution(config.hidden, config.width)
        self.generator = GATOnEmbeddings(config.width, self.activation)
        gradient = config.solver_gradient
        self.feature_solver = ProximalPoint(step=0.5, iterations=40, gradient=gradient)
        self.structure_solver = NestedGW(outer=5, inner=20, step=0.1, gradient=gradient)

    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        """Return a layer of the encoder."""
        return GraphConvolution(in_features, out_features)

    def propagation(self, both_ways: sp.csr_array) -> sp.csr_array:
        """Return what the encoder multiplies with, N×N."""
        return symmetric_normalized(both_ways, self_loops=True)

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return everything as one group."""
        return {"all": ParameterGroup(list(self.parameters()), self.config.learning_rate, self.config.weight_decay)}

    def prepare(self, graph: Graph, device: torch.device) -> GSCGraph:
        """Move the undirected graph to `device`."""
        both_ways = undirected(graph.adjacency)
        features = row_normalized(graph.features) if self.config.normalize_features else graph.features
        tensors = GraphTensors(
            features=FeatureMatrix.from_host(features, device),
            adjacency=SparseMatrix.from_scipy(both_ways, device),
            propagation=SparseMatrix.from_scipy(self.propagation(both_ways), device),
            centrality=None,
        )
        looped = with_self_loops(both_ways, device)
        return GSCGraph(tensors, SubgraphSampler(looped.crow, looped.col, self.config.subgraph_size, "six_hop"))

    def check_trainable(self, prepared: GSCGraph) -> None:
        """Raise GraphError unless at least two anchors of a trial draw can fill a subgraph."""
        prepared.sampler.check_fillable("Lower subgraph_size.", lonely_degree=1)  # the self-loop

    def embed(self, graph: GraphTensors) -> Tensor:
        """Return Z, N×D."""
        hidden = self.activation(self.first(graph.features, graph.propagation))
        embeddings: Tensor = self.activation(self.second(hidden, graph.propagation))
        return embeddings

    def step(self, prepared: GSCGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the loss of one draw of subgraphs."""
        config, graph, sampler = self.config, prepared.tensors, prepared.sampler
        embeddings = self.embed(graph)
        generated: Tensor = self.generator(Branches(None, embeddings), graph, random).structure
        anchors = torch.randint(graph.num_nodes, (config.num_anchors,), generator=random, device=random.device)
        subgraphs = sampler.sample(anchors, random)
        rows, others = pairing(subgraphs, random)
        nodes = subgraphs.nodes[rows]
        edges = sampler.adjacency(nodes) * (1 - torch.eye(config.subgraph_size, device=nodes.device))
        distances = self.compare(embeddings[nodes], generated[nodes], edges, others)
        loss, parts = self.contrast(distances, subgraphs)

        def diagnose() -> Record:
            return {**parts, "subgraphs": subgraphs.count, "effective_rank": sampled_rank(embeddings)}

        yield Objective({"loss": loss}, ("all",), diagnose)

    def compare(self, first: Tensor, second: Tensor, edges: Tensor, others: Tensor) -> Distances:
        """Return the distances of pairs (Z_i, Ẑ_i), (Z_i, Z_j) and (Z_i, Ẑ_j), 3S each.

        Args:
            first: Z of the subgraphs, S×K×D.
            second: Ẑ of the same nodes, S×K×D.
            edges: their adjacency A without self-loops, S×K×K.
            others: j for each i, S.
        """
        config = self.config
        source, generated = unit_vectors(first), unit_vectors(second)
        target = torch.cat([generated, source[others], generated[others]])
        with full_float32():
            between = self.lowered(exponential_cost(torch.cat([source] * 3), target, config.temperature))
            within_source = self.lowered(torch.exp(-edges / config.temperature)).repeat(3, 1, 1)
            within_target = self.lowered(exponential_cost(target, target, config.temperature))
            # With uniform masses these are means.
            squares = within_source.square().mean(2)[:, :, None] + within_target.square().mean(2)[:, None, :]
        features = self.feature_solver(FusedProblem.of_features(between), check=False)
        structures = self.structure_solver(
            FusedProblem.of_structures(within_source, within_target),
            check=False,
            squares=squares,
            evaluate_with=None if config.structure_plan == "own" else features.plan,
        )
        return Distances(features.value, structures.value)

    def lowered(self, costs: Tensor) -> Tensor:
        """Lower all costs by a point `cost_threshold` of the way from their least to their greatest, cut at zero."""
        if self.config.cost_threshold == 0:
            return costs
        low, high = costs.amin(), costs.amax()
        return torch.relu(costs - (low + self.config.cost_threshold * (high - low)))

    def contrast(self, distances: Distances, subgraphs: Subgraphs) -> tuple[Tensor, Record]:
        """Return the loss over the pairs of filled subgraphs, zero unless there are two, and its parts."""
        config = self.config
        counted = (subgraphs.filled & (subgraphs.count >= 2)).to(distances.feature.dtype)  # S
        share = counted / (3 * subgraphs.count).clamp_min(1)
        features = torch.exp(-distances.feature / config.feature_temperature)
        structures = torch.exp(-distances.structure / config.structure_temperature)
        of_features, of_structure = weighted_cross_entropy(features, share), weighted_cross_entropy(structures, share)
        loss = (1 - config.structure_weight) * of_features + config.structure_weight * of_structure
        return loss, {"wasserstein": of_features, "gromov_wasserstein": of_structure}

    @torch.no_grad()
    def encode(self, prepared: GSCGraph) -> NodeVectors:
        """Return Z; the generator serves training alone."""
        return NodeVectors(self.embed(prepared.tensors))


class GSCCheb(GSC):
    """GSC with Chebyshev convolutions of L̃ = -D^-1/2 A D^-1/2, which can also tell neighbours apart."""

    name = "gsc_cheb"
    title = "GSC+Cheb"
    cost = Cost("1, and the generator", "P·(nnz(X)·D + E·D + N·D²) + S·K²·(T + K + D)", "P·N·D + E + S·K·(K + D)")
    Config: ClassVar[type[Settings]] = GSCChebSettings
    config: GSCChebSettings

    def convolution(self, in_features: int, out_features: int) -> nn.Module:
        """Return a layer of the encoder."""
        return ChebyshevConvolution(in_features, out_features, self.config.polynomial_terms)

    def propagation(self, both_ways: sp.csr_array) -> sp.csr_array:
        """Return L̃, N×N."""
        return -symmetric_normalized(both_ways, self_loops=False)


def pairing(subgraphs: Subgraphs, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a filled subgraph for each of S rows, and another filled one for each.

    Rows beyond the filled ones repeat them, with the same partners: shapes stay the same, no cost appears that would
    change the extremes of a step, and the loss leaves the repeated rows out.
    """
    count = subgraphs.count.clamp_min(1)
    rows = torch.arange(len(subgraphs.nodes), device=count.device) % count
    drawn = torch.randint(1 << 62, rows.shape, generator=random, device=count.device)[rows]
    return rows, (rows + 1 + drawn % (count - 1).clamp_min(1)) % count


def weighted_cross_entropy(logits: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted binary cross-entropy of 3S logits, the first S against one; `weights` (S) serve thrice."""
    positive, *negatives = logits.chunk(3)
    losses = nn.functional.softplus(-positive) + sum(nn.functional.softplus(negative) for negative in negatives)
    return (weights * losses).sum()
