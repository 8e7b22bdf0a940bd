"""FOSSIL: fused Gromov-Wasserstein subgraph contrastive learning, versions 1 and 2.

Sangare, Dunou, Giraldo and Malliaros, TMLR 2025. The file follows Section 4 of the paper: encoder, generator, fusion,
subgraphs, loss. The parts live in `fossil.nn`, `fossil.graph.subgraphs` and `fossil.transport`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fossil.accelerate import Beside
from fossil.errors import GraphError
from fossil.graph.graph import Graph
from fossil.graph.structure import centrality, symmetric_normalized
from fossil.graph.subgraphs import Subgraphs, SubgraphSampler
from fossil.methods.base import Encoding, Method, Objective, ParameterGroup
from fossil.methods.fossil_records import Record, describe_pairs, describe_step
from fossil.methods.fossil_settings import PRESETS, FossilSettings
from fossil.methods.fossil_stages import Compared, Contrast, Pairs, View
from fossil.nn.contrast import node_contrast, node_contrast_memory, subgraph_contrast
from fossil.nn.costs import exponential_cost
from fossil.nn.encoders import Branches, DecoupledEncoder, Encoder, GCNEncoder, GCNIIEncoder, activation_module
from fossil.nn.fusion import FusionGate, fuse, fusion_penalty, gated_fusion
from fossil.nn.generators import (
    FeatureAttention,
    GATOnEmbeddings,
    GATOnFeatures,
    GCNOnEmbeddings,
    Generator,
    RandomEdgeDropping,
)
from fossil.nn.sparse import FeatureMatrix, SparseMatrix, rows_of
from fossil.nn.subgraph_costs import SubgraphCosts, costs_between, gathered_costs, subgraph_costs
from fossil.nn.tensors import GraphTensors
from fossil.nn.unit import unit_vectors
from fossil.seeding import torch_generator
from fossil.transport import FusedProblem, Solution, pooled_cosine, solve

# Tensors of N×hidden and N×D that live at the peak of a step, counted from measured peaks.
_HIDDEN_COPIES, _WIDTH_COPIES = 12, 40
_MOST_TILE_ROWS, _FEWEST_TILE_ROWS = 4096, 256
# After the last epoch the fusion layer takes a step for every so many: 30 after 300, of which 10 can be too few
# (decision 22).
_EPOCHS_A_CLOSING_STEP = 10


@dataclass(frozen=True, eq=False)
class FossilGraph:
    """A graph as FOSSIL trains on it."""

    tensors: GraphTensors
    sampler: SubgraphSampler


class Fossil(Method[FossilGraph]):
    """FOSSIL with the exact node loss over all nodes (v1)."""

    name: ClassVar[str] = "fossil"
    title: ClassVar[str] = "FOSSIL"
    paper: ClassVar[str] = "Sangare et al., TMLR 2025, arXiv 2502.20885"
    capturable: ClassVar[bool] = True
    Config = FossilSettings
    presets = PRESETS

    def __init__(self, config: FossilSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        self.tile_rows: int | None = None  # of the node loss; it knows best until memory runs out
        # One module, as in the released code: encoder and generator share the slope of a PReLU.
        activation = activation_module(config.activation)
        self.encoder = _make_encoder(config, num_features, activation)
        self.generator = _make_generator(config, num_features, activation, self.encoder)
        self.fusion = (
            FusionGate(
                config.width,
                config.fusion_hidden,
                with_centrality=config.centrality != "none",
                drop=config.fusion_dropout,
                nonlinear=config.fusion_nonlinear,
                drop_logit=config.fusion_drop_logit,
            )
            if isinstance(self.encoder, DecoupledEncoder)
            else None
        )

    @property
    def feature_weight(self) -> float:
        """α of Eq. 1; Wasserstein looks at the features alone, Gromov-Wasserstein at the structure alone."""
        return {"wasserstein": 1.0, "gromov_wasserstein": 0.0}.get(self.config.similarity, self.config.alpha)

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return encoder and generator as one group, the fusion layer as another."""
        config = self.config
        # A shared activation appears under both modules; the dictionary keeps one copy of it.
        shared = {id(p): p for module in (self.encoder, self.generator) for p in module.parameters()}
        groups = {"encoder": ParameterGroup(list(shared.values()), config.learning_rate, config.weight_decay)}
        if self.fusion is not None:
            gate = list(self.fusion.parameters())
            groups["fusion"] = ParameterGroup(gate, config.fusion_learning_rate, config.weight_decay)
        return groups

    def prepare(self, graph: Graph, device: torch.device) -> FossilGraph:
        """Move the graph to `device`."""
        adjacency = SparseMatrix.from_scipy(graph.adjacency, device)
        of_node = centrality(graph.adjacency, self.config.centrality)
        tensors = GraphTensors(
            features=FeatureMatrix.from_host(graph.features, device),
            adjacency=adjacency,
            propagation=self._propagation(graph, adjacency, device),
            centrality=None if of_node is None else torch.from_numpy(of_node).to(device)[:, None],
        )
        sampler = SubgraphSampler(adjacency.crow, adjacency.col, self.config.subgraph_size, self.config.reach)
        return FossilGraph(tensors, sampler)

    def check_trainable(self, prepared: FossilGraph) -> None:
        """Raise GraphError unless at least two anchors of a trial draw can fill a subgraph."""
        sampler = prepared.sampler
        random = torch_generator(0, "trial", device=sampler.crow.device)
        trial = sampler.sample(sampler.draw_anchors(2000, random), random)
        if int(trial.count) < 2:
            tried, isolated = len(trial.nodes), int(trial.isolated)
            raise GraphError(
                f"subgraph_size={self.config.subgraph_size} cannot be filled around two nodes or more: of {tried} "
                f"tried, {isolated} have no neighbour and {int(trial.too_small)} have too few nodes in reach.",
                remedy="Lower subgraph_size, or symmetrize the edges if the graph is directed."
                if isolated < tried
                else "Add edges: a subgraph is made of neighbours.",
            )

    def memory(self, prepared: FossilGraph) -> float:
        """Return about what the activations of both views, their gradients and the node loss take."""
        config, graph = self.config, prepared.tensors
        per_node = _HIDDEN_COPIES * config.hidden + _WIDTH_COPIES * config.width
        drawn = 3 * config.num_anchors * config.subgraph_size * config.width
        kept = 0
        if config.node_contrast == "all_nodes" and self.tile_rows is None:
            kept = node_contrast_memory(graph.num_nodes, graph.adjacency.crow.device)
        return 4.0 * (graph.num_nodes * per_node + 8 * graph.adjacency.num_entries + 4 * drawn) + kept

    def spare_memory(self) -> bool:
        """Halve the tiles of the node loss."""
        if self.config.node_contrast == "none" or self.tile_rows == _FEWEST_TILE_ROWS:
            return False
        self.tile_rows = max(_FEWEST_TILE_ROWS, (self.tile_rows or _MOST_TILE_ROWS) // 2)
        return True

    def objectives(self, prepared: FossilGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the contrastive loss, then the fusion layer's own loss on a second pass; or both on one pass."""
        config, graph, sampler = self.config, prepared.tensors, prepared.sampler
        beside = Beside(random.device)
        branches: Branches = self.encoder(graph.features, graph.propagation, random)
        original = self.view(graph, branches, random, beside)
        generated = self.view(graph, self.generator(branches, graph, random), random)
        with beside.running():
            subgraphs = sampler.sample(sampler.draw_anchors(config.num_anchors, random), random)
            if subgraphs.nodes.device.type == "cpu":
                subgraphs = subgraphs.trimmed()  # a GPU is faster with fixed shapes than with fewer subgraphs
            pairs = self.pair(subgraphs, sampler, random)
        beside.join(subgraphs.nodes, subgraphs.count)
        joint = config.fusion_training == "joint"
        fusion = original.fusion if joint or config.fusion_pass == "shared" else None
        if fusion is not None:
            # Before the contrast, so that its gradient comes after: nothing waits for that.
            with beside.running(fusion, branches.structure):
                penalty, penalties = self.penalty(fusion, branches if joint else branches.detached())
        loss, parts, solution = self.contrast(original, generated, pairs, beside)
        later = Beside(random.device, urgent=False)
        groups, terms = ["encoder"], [*parts.values()] or [loss]
        record: Record = {"contrast": loss, **parts}
        if fusion is not None:
            # Trained apart, the two losses have no parameter in common, and a step on their sum is a step on each.
            with beside.running():
                loss = loss + penalty
            groups.append("fusion")
            terms.append(penalty)
            record |= penalties
        yield Objective(loss, tuple(groups), record, terms=tuple(terms))
        # Only now, so that no gradient waits for what is merely written down.
        with later.running():
            record |= describe_step(original.embeddings, original.fusion, subgraphs)
        with beside.running():
            if solution is not None:
                record |= {"solver_iterations": float(config.solver_iterations)} | describe_pairs(solution, subgraphs)
        if original.fusion is not None and fusion is None:
            yield self._fusion_after_a_pass(graph, random)
        for queue in (beside, later):
            queue.join(*(value for value in record.values() if isinstance(value, Tensor)))

    def closing_steps(self, epochs: int) -> int:
        """Return how many steps of its own the fusion layer takes after shared passes, which may leave it behind."""
        config = self.config
        if self.fusion is None or config.fusion_training != "separate" or config.fusion_pass != "shared":
            return 0
        return max(1, epochs // _EPOCHS_A_CLOSING_STEP)

    def closing(self, prepared: FossilGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield the fusion layer's loss."""
        yield self._fusion_after_a_pass(prepared.tensors, random)

    def _fusion_after_a_pass(self, graph: GraphTensors, random: torch.Generator) -> Objective:
        assert self.fusion is not None
        with torch.no_grad():
            branches: Branches = self.encoder(graph.features, graph.propagation, random)
        penalty, parts = self.penalty(self.fusion(branches, graph.centrality, random), branches)
        return Objective(penalty, ("fusion",), parts)

    def view(
        self, graph: GraphTensors, branches: Branches, random: torch.Generator | None, beside: Beside | None = None
    ) -> View:
        """Fuse the branches of the encoder or of the generator (Section 4.4)."""
        if self.fusion is None:
            return View(fuse(branches, None), branches, None)
        if self.config.fusion_training == "joint":
            fusion = self.fusion(branches, graph.centrality, random)
            return View(fuse(branches, fusion), branches, fusion)
        # Trained apart, the gate learns from its own loss alone: what it reads and says are constants to the encoder.
        embeddings, fusion = gated_fusion(self.fusion, branches, graph.centrality, random, beside)
        return View(embeddings, branches, fusion)

    def pair(self, subgraphs: Subgraphs, sampler: SubgraphSampler, random: torch.Generator) -> Pairs:
        """Draw the negatives of each subgraph and look up the edges within it."""
        config = self.config
        a = subgraphs.others(random)
        b = a if config.negatives == "shared" else subgraphs.others(random)
        if config.similarity == "pooled_cosine":
            return Pairs(subgraphs, a, b, None)
        return Pairs(subgraphs, a, b, torch.exp(-sampler.adjacency(subgraphs.nodes) / config.temperature))

    def contrast(self, original: View, generated: View, pairs: Pairs, beside: Beside) -> Contrast:
        """Return L_contrast = L_ot + L_node (Section 4.6).

        The two do not need one another, so that a GPU can work on both at once, `beside` one another. The solver takes
        all registers that it can get: it waits for the products of the node loss, whose gradient first moves memory.
        """
        subgraphs, losses, solution = pairs.subgraphs, dict[str, Tensor](), None
        compared, enough = self.compared(original, generated, subgraphs), len(subgraphs.nodes) >= 2
        with beside.running(*(each for each in compared if each is not None), original.embeddings, subgraphs.count):
            problem = self.problem(compared, pairs) if enough else None
        node = None
        if self.config.node_contrast != "none" and len(compared.first):
            node = self.node_loss(compared)
        with beside.running(*([] if node is None else [node])):
            if enough:
                alike, solution = self.compare(compared, pairs, problem)
                losses["ot"] = subgraph_contrast(alike, len(subgraphs.nodes), subgraphs.usable.repeat(3))
        if node is not None:
            losses["node"] = node
        if not losses:  # a step that fills no subgraph has nothing to contrast; it must still be a step
            return Contrast(0 * original.embeddings.sum(), losses, solution)
        with beside.running(*losses.values()):
            return Contrast(torch.stack(list(losses.values())).sum(), losses, solution)

    def compared(self, original: View, generated: View, subgraphs: Subgraphs) -> Compared:
        """Return what the losses look at: all nodes, or, where the node loss is over the subgraphs (v2), theirs alone.

        Picked out once for both losses, whose cost then does not depend on the size of the graph.
        """
        first, second = original.embeddings, generated.embeddings
        if self.config.node_contrast != "subgraph_nodes":
            return Compared(first, second, subgraphs.nodes, None)
        nodes, number, places = subgraphs.distinct_nodes()
        return Compared(rows_of(first, nodes), rows_of(second, nodes), places, number)

    def node_loss(self, compared: Compared) -> Tensor:
        """Return L_node (Section 4.6.2)."""
        first, second, _, number = compared
        return node_contrast(first, second, self.config.temperature, count=number, tile_rows=self.tile_rows)

    def problem(self, compared: Compared, pairs: Pairs) -> FusedProblem | None:
        """Return the transport problems of S positive pairs and 2S negative ones (Section 4.6.1), 3S in all.

        Pair i is (G_i, Ĝ_i); its negatives are (G_i, G_a) and (G_i, Ĝ_b) with a and b other subgraphs. Pairs of rows
        that are no subgraph are compared like the others, and count nowhere. None where nothing is transported.
        """
        config, (_, a, b, within) = self.config, pairs
        if within is None:
            return None
        if config.structure_cost == "product":
            feature, of_first, of_second = self.costs(compared, a, b)
            source, target = of_first * within, of_first
        else:
            feature, of_second = self.adjacency_costs(compared, a, b)
            source = target = within
        return FusedProblem.uniform(
            feature_cost=feature,
            source_structure=torch.cat([source] * 3),
            target_structure=torch.cat([of_second, rows_of(target, a), rows_of(of_second, b)]),
            alpha=self.feature_weight,
        )

    def compare(self, compared: Compared, pairs: Pairs, problem: FusedProblem | None) -> tuple[Tensor, Solution | None]:
        """Return the similarity of all pairs, 3S, and the plans of their `problem`."""
        config, (_, a, _, _) = self.config, pairs
        if problem is None:
            X, Y = (rows_of(view, compared.places) for view in compared[:2])  # S×K×D
            cosines = pooled_cosine(torch.cat([X] * 3), torch.cat([Y, rows_of(X, a), rows_of(Y, a)]))
            return torch.exp(cosines / config.temperature), None
        solution = solve(
            problem,
            step=config.bapg_step,
            iterations=config.solver_iterations,
            constant_terms=config.solver_constant_terms,
            marginals=config.solver_marginals,
            gradient=config.solver_gradient,
            symmetric=True,
            check=False,
        )
        temperature = config.contrast_temperature or config.temperature
        return torch.exp(-solution.value / temperature), solution

    def costs(self, compared: Compared, a: Tensor, b: Tensor) -> SubgraphCosts:
        """Return the costs between and within subgraphs (Eq. 10), all made of embeddings in one way."""
        config, (first, second, places, _) = self.config, compared
        if config.cost_similarity == "cosine":
            return subgraph_costs(first, second, places, a, b, config.temperature, config.cost_threshold)
        X, Y = rows_of(first, places), rows_of(second, places)  # S×K×D
        return gathered_costs(X, Y, a, b, config.temperature, config.cost_threshold)

    def adjacency_costs(self, compared: Compared, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return the costs between subgraphs (3S×K×K) and the structure of the generated ones (Â, S×K×K)."""
        config = self.config
        X, Y = (rows_of(view, compared.places) for view in compared[:2])  # S×K×D
        # Â is made of cosines, whatever the feature costs are made of.
        U, V = unit_vectors(X), unit_vectors(Y)
        first, second = (U, V) if config.cost_similarity == "cosine" else (X, Y)
        feature = costs_between(first, second, a, b, config.temperature, config.cost_threshold)
        return feature, exponential_cost(V, V, config.temperature)

    def penalty(self, fusion: Tensor, branches: Branches) -> tuple[Tensor, Record]:
        """Return the embedding fusion loss L_θ (Section 4.6.3)."""
        config = self.config
        total, parts = fusion_penalty(
            fusion, branches, alpha=self.feature_weight, l2=config.fusion_l2, mean=config.fusion_mean
        )
        return total, {"fusion": total, **parts}

    @torch.no_grad()
    def encode(self, prepared: FossilGraph) -> Encoding:
        """Return H and λ of every node."""
        graph = prepared.tensors
        view = self.view(graph, self.encoder(graph.features, graph.propagation), None)
        return Encoding(view.embeddings, None if view.fusion is None else view.fusion.squeeze(1))

    def _propagation(self, graph: Graph, adjacency: SparseMatrix, device: torch.device) -> SparseMatrix:
        """Return what the encoder multiplies with; the plain GCNs keep their own usual normalisation."""
        if self.config.encoder != "decoupled":
            return SparseMatrix.from_scipy(symmetric_normalized(graph.adjacency, self_loops=True), device)
        if self.config.aggregation == "symmetric":
            return SparseMatrix.from_scipy(symmetric_normalized(graph.adjacency, self_loops=False), device)
        return adjacency


class FossilV2(Fossil):
    """FOSSIL with the node loss over the sampled subgraphs' nodes (v2): that loss does not grow with the graph."""

    name: ClassVar[str] = "fossil_v2"
    title: ClassVar[str] = "FOSSIL v2"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        preset: {"node_contrast": "subgraph_nodes", **values} for preset, values in PRESETS.items()
    }


def _make_encoder(config: FossilSettings, features: int, activation: nn.Module) -> Encoder:
    if config.encoder == "gcnii":
        return GCNIIEncoder(features, config.width, config.gcnii_layers, config.dropout)
    kind = DecoupledEncoder if config.encoder == "decoupled" else GCNEncoder
    return kind(features, config.hidden, config.width, activation, config.dropout)


def _make_generator(config: FossilSettings, features: int, activation: nn.Module, encoder: Encoder) -> Generator:
    match config.generator:
        case "gat_embeddings":
            return GATOnEmbeddings(config.width, activation)
        case "gat_features":
            return GATOnFeatures(features, config.width, activation)
        case "feature_attention":
            return FeatureAttention(features, config.width, activation)
        case "gcn_embeddings":
            return GCNOnEmbeddings(config.width, activation)
        case "random_edges":
            return RandomEdgeDropping(encoder, config.edge_drop)
