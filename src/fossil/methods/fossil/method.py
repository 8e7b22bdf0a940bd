"""FOSSIL from top to bottom, in the order of Section 4 of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.graph.structure import centrality, symmetric_normalized
from fossil.methods.base import Cost, Method, NodeVectors, Objective, ParameterGroup, Phase, Record
from fossil.methods.fossil.memory import smaller_tiles, step_bytes
from fossil.methods.fossil.parts import make_encoder, make_gate, make_generator, make_solver
from fossil.methods.fossil.records import describe_pairs, describe_step
from fossil.methods.fossil.settings import PRESETS, FossilSettings
from fossil.methods.fossil.stages import Compared, FossilGraph, Pairs
from fossil.nn.contrast import subgraph_contrast
from fossil.nn.encoders import Branches, activation_module
from fossil.nn.fusion import fuse, structure_share
from fossil.nn.tensors import GraphTensors
from fossil.ops.costs import exponential_cost
from fossil.ops.features import FeatureMatrix
from fossil.ops.fusion_gate import Gate
from fossil.ops.fusion_penalty import FusionPenalty, fusion_penalty
from fossil.ops.infonce import node_contrast, node_contrast_seconds
from fossil.ops.rows import rows_of
from fossil.ops.sparse import SparseMatrix
from fossil.ops.streams import side
from fossil.ops.subgraph_costs import SubgraphCosts, costs_between, gathered_costs, subgraph_costs
from fossil.ops.unit import unit_vectors
from fossil.sampling.subgraphs import Subgraphs, SubgraphSampler
from fossil.transport import FusedProblem, Solution, pooled_cosine

# After the last epoch the fusion layer takes a step for every so many: 30 after 300, of which 10 can be too few
# (decision 22).
_EPOCHS_A_CLOSING_STEP = 10
_MANY_NODES = 20_000  # from which on the node loss over all of them takes a CPU a minute or more


class Fossil(Method[FossilGraph]):
    """Views of a subgraph should be close in the fused Gromov-Wasserstein distance; a node is contrasted with all."""

    name = "fossil"
    title = "FOSSIL"
    paper = "Sangare et al., TMLR 2025, arXiv 2502.20885"
    cost = Cost("1, and the generator", "nnz(X)·D + E·D + N·D² + S·T·K³ + N²·D", "N·D + E + S·K·(K + D)")
    Config = FossilSettings
    presets = PRESETS
    # At this temperature raw inner products (the paper's letter) stay within float32 even with sums over neighbours.
    small: ClassVar[Mapping[str, Any]] = {
        "hidden": 16,
        "width": 8,
        "fusion_hidden": 5,
        "num_anchors": 20,
        "subgraph_size": 4,
        "gcnii_layers": 2,
        "temperature": 2.0,
    }

    def __init__(self, config: FossilSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.config = config
        # One module, as in the released code: encoder and generator share the slope of a PReLU.
        activation = activation_module(config.activation)
        self.encoder = make_encoder(config, num_features, activation)
        self.generator = make_generator(config, num_features, activation, self.encoder)
        self.fusion = make_gate(config)
        self.solver = make_solver(config)
        self.tile_rows: int | None = None  # of the node loss; it knows best until memory runs out

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
        prepared.sampler.check_fillable("Lower subgraph_size, or symmetrize the edges if the graph is directed.")

    def step(self, prepared: FossilGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield L_ot + L_node + L_θ; or L_θ after them, where the fusion layer has a pass of its own."""
        graph, second_pass = prepared.tensors, self._has_second_pass
        branches = self.encoder(graph.features, graph.propagation, random)  # Section 4.2
        generated = self.generator(branches, graph, random)  # 4.3
        H, gate = self.fuse(branches, graph, random)  # 4.4
        H_hat, _ = self.fuse(generated, graph, random)
        pairs = side(self.sample, prepared.sampler, random)  # 4.5
        compared = self.compared(H, H_hat, pairs.subgraphs)
        ot, solution = side(self.subgraph_loss, compared, pairs)  # 4.6.1
        node = self.node_loss(compared)  # 4.6.2
        shared = gate is not None and not second_pass
        penalty = side(self.fusion_loss, gate, branches, urgent=False) if shared else None  # 4.6.3

        def diagnose() -> Record:
            return {
                "contrast": ot if node is None else torch.stack([ot, node]).sum(),
                **({} if penalty is None else penalty.parts()),
                **describe_step(H, gate, pairs.subgraphs),
                **describe_pairs(solution, pairs.subgraphs, self.config.solver_iterations),
            }

        terms = {"ot": ot, "node": node, "fusion": None if penalty is None else penalty.total}
        present = {name: term for name, term in terms.items() if term is not None}
        yield Objective(present, ("encoder", "fusion") if shared else ("encoder",), diagnose)
        if second_pass:
            yield from self.fusion_step(prepared, random)

    def closing(self, steps: int) -> Sequence[Phase]:
        """Return the steps of its own that the fusion layer takes after shared passes, which may leave it behind."""
        if self.fusion is None or self.config.fusion_training == "joint" or self._has_second_pass:
            return ()
        return (Phase("closing", max(1, steps // _EPOCHS_A_CLOSING_STEP), self.fusion_step),)

    def fusion_step(self, prepared: FossilGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield L_θ on a forward pass of its own."""
        assert self.fusion is not None
        graph = prepared.tensors
        with torch.no_grad():
            branches: Branches = self.encoder(graph.features, graph.propagation, random)
        penalty = self.penalty(self.fusion(branches, graph.centrality, random), branches)
        yield Objective({"fusion": penalty.total}, ("fusion",), penalty.parts)

    @property
    def _has_second_pass(self) -> bool:
        config = self.config
        return self.fusion is not None and config.fusion_training == "separate" and config.fusion_pass == "second"

    # Section 4.4: fusion.

    def fuse(
        self, branches: Branches, graph: GraphTensors, random: torch.Generator | None
    ) -> tuple[Tensor, Gate | None]:
        """Return H (N×D) of the encoder's branches, or Ĥ of the generator's, and λ where there is one."""
        if self.fusion is None:
            return fuse(branches, None), None
        if self.config.fusion_training == "separate":
            # The gate learns from its own loss alone: what it reads and says are constants to the encoder.
            return self.fusion.mix(branches, graph.centrality, random)
        fusion: Tensor = self.fusion(branches, graph.centrality, random)
        return fuse(branches, fusion), Gate(fusion.detach(), fusion)

    # Section 4.5: subgraphs.

    def sample(self, sampler: SubgraphSampler, random: torch.Generator) -> Pairs:
        """Draw anchors, a subgraph around each, and what it is compared with."""
        anchors = sampler.draw_anchors(self.config.num_anchors, random)
        return self.pair(sampler.sample(anchors, random).compact(), sampler, random)

    def pair(self, subgraphs: Subgraphs, sampler: SubgraphSampler, random: torch.Generator) -> Pairs:
        """Draw the negatives of each subgraph and look up the edges within it."""
        config = self.config
        a = subgraphs.others(random)
        b = a if config.negatives == "shared" else subgraphs.others(random)
        if config.similarity == "pooled_cosine":
            return Pairs(subgraphs, a, b, None)
        return Pairs(subgraphs, a, b, torch.exp(-sampler.adjacency(subgraphs.nodes) / config.temperature))

    def compared(self, H: Tensor, H_hat: Tensor, subgraphs: Subgraphs) -> Compared:
        """Return what the contrasts look at: all nodes, or, where the node loss is over the subgraphs (v2), theirs.

        Picked out once for both losses, whose cost then does not depend on the size of the graph.
        """
        if self.config.node_contrast != "subgraph_nodes":
            return Compared(H, H_hat, subgraphs.nodes, None)
        nodes, number, places = subgraphs.distinct_nodes()
        return Compared(rows_of(H, nodes), rows_of(H_hat, nodes), places, number)

    # Section 4.6.1: contrast of subgraphs.

    def subgraph_loss(self, compared: Compared, pairs: Pairs) -> tuple[Tensor, Solution | None]:
        """Return L_ot (Eq. 11), and the plans behind it where something was transported."""
        count = len(pairs.subgraphs.nodes)
        if count < 2:  # nothing to tell a subgraph from; it must still be a loss
            return 0 * compared.first.sum(), None
        alike, solution = self.similarity(compared, pairs)
        return subgraph_contrast(alike, count, pairs.subgraphs.usable.repeat(3)), solution

    def similarity(self, compared: Compared, pairs: Pairs) -> tuple[Tensor, Solution | None]:
        """Return the similarity of S positive pairs and 2S negative ones, 3S in all, and their plans.

        Pair i is (G_i, Ĝ_i); its negatives are (G_i, G_a) and (G_i, Ĝ_b) with a and b other subgraphs. Pairs of rows
        that are no subgraph are compared like the others, and count nowhere.
        """
        config = self.config
        if pairs.within is None:
            X, Y = (rows_of(view, compared.places) for view in compared[:2])  # S×K×D
            cosines = pooled_cosine(torch.cat([X] * 3), torch.cat([Y, rows_of(X, pairs.a), rows_of(Y, pairs.a)]))
            return torch.exp(cosines / config.temperature), None
        solution = self.solver(self.problem(compared, pairs, pairs.within), check=False)
        return torch.exp(-solution.value / (config.contrast_temperature or config.temperature)), solution

    def problem(self, compared: Compared, pairs: Pairs, within: Tensor) -> FusedProblem:
        """Return the transport problems of all pairs (Eq. 1 and 10)."""
        _, a, b, _ = pairs
        if self.config.structure_cost == "product":
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

    # Section 4.6.2: contrast of nodes.

    def node_loss(self, compared: Compared) -> Tensor | None:
        """Return L_node (Eq. 12 to 14)."""
        if self.config.node_contrast == "none":
            return None
        first, second, _, number = compared
        return node_contrast(first, second, self.config.temperature, count=number, tile_rows=self.tile_rows)

    # Section 4.6.3: the loss of the fusion layer.

    def fusion_loss(self, gate: Gate, branches: Branches) -> FusionPenalty:
        """Return L_θ (Eq. 15) of the λ that made H."""
        joint = self.config.fusion_training == "joint"
        return self.penalty(gate.learnt(), branches if joint else branches.detached())

    def penalty(self, fusion: Tensor, branches: Branches) -> FusionPenalty:
        """Return L_θ of λ (N×1)."""
        assert branches.feature is not None
        l2, mean = self.config.fusion_l2, self.config.fusion_mean
        return fusion_penalty(fusion, branches.feature, branches.structure, alpha=self.feature_weight, l2=l2, mean=mean)

    @torch.no_grad()
    def encode(self, prepared: FossilGraph) -> NodeVectors:
        """Return H and λ of every node."""
        graph = prepared.tensors
        branches = self.encoder(graph.features, graph.propagation)
        H, gate = self.fuse(branches, graph, None)
        if gate is None:
            return NodeVectors(H)
        return NodeVectors(H, gate.values.squeeze(1), structure_share(branches, gate.values))

    def memory(self, prepared: FossilGraph) -> float:
        """Return about how many bytes a step takes beside the prepared graph."""
        return step_bytes(self.config, prepared.tensors, self.tile_rows)

    def seconds(self, prepared: FossilGraph) -> float | None:
        """Return about how many seconds the node loss over all nodes of a large graph takes on a CPU."""
        nodes, device = prepared.tensors.num_nodes, prepared.tensors.adjacency.crow.device
        if self.config.node_contrast != "all_nodes" or device.type != "cpu" or nodes < _MANY_NODES:
            return None
        return node_contrast_seconds(nodes, self.config.width)

    def lighter(self) -> str | None:
        """Return what takes less time on a large graph, if the node loss is over all pairs of nodes."""
        if self.config.node_contrast != "all_nodes":
            return None
        return "method fossil_v2, whose node loss is over the sampled nodes alone, takes less on large graphs"

    def shrink(self) -> bool:
        """Work with smaller tiles of the node loss from now on; return whether that was possible."""
        smaller = smaller_tiles(self.config, self.tile_rows)
        self.tile_rows = smaller or self.tile_rows
        return smaller is not None

    def _propagation(self, graph: Graph, adjacency: SparseMatrix, device: torch.device) -> SparseMatrix:
        """Return what the encoder multiplies with; the plain GCNs keep their own usual normalisation."""
        if self.config.encoder != "decoupled":
            return SparseMatrix.from_scipy(symmetric_normalized(graph.adjacency, self_loops=True), device)
        if self.config.aggregation == "symmetric":
            return SparseMatrix.from_scipy(symmetric_normalized(graph.adjacency, self_loops=False), device)
        return adjacency


class FossilV2(Fossil):
    """The same, but a node is contrasted with the nodes of the sampled subgraphs, however large the graph is."""

    name = "fossil_v2"
    title = "FOSSIL v2"
    cost = Cost("1, and the generator", "nnz(X)·D + E·D + N·D² + S·T·K³ + (S·K)²·D", "N·D + E + S·K·(K + D)")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        preset: {"node_contrast": "subgraph_nodes", **values} for preset, values in PRESETS.items()
    }
