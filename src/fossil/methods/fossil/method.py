"""FOSSIL from top to bottom, in the order of Section 4 of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from fossil.graph.graph import Graph
from fossil.graph.structure import centrality, symmetric_normalized
from fossil.methods.base import Cost, NodeVectors, Objective, ParameterGroup, Phase, Record
from fossil.methods.fossil.contrast import SubgraphContrast
from fossil.methods.fossil.inference import FossilInference
from fossil.methods.fossil.memory import sampled_bytes, step_bytes
from fossil.methods.fossil.parts import make_encoder, make_gate, make_generator
from fossil.methods.fossil.records import describe_pairs, describe_step
from fossil.methods.fossil.sampled import SampledGraph, propagation_rule, refuse_whole
from fossil.methods.fossil.settings import PRESETS, FossilSettings
from fossil.methods.fossil.stages import FossilGraph, UniformSample
from fossil.nn.encoders import Branches, activation_module
from fossil.nn.fusion import fuse, structure_share
from fossil.nn.tensors import GraphTensors
from fossil.ops.features import FeatureMatrix
from fossil.ops.fusion_gate import Gate
from fossil.ops.fusion_penalty import FusionPenalty, fusion_penalty
from fossil.ops.rows import rows_of
from fossil.ops.sparse import SparseMatrix
from fossil.ops.streams import side
from fossil.sampling.store import EdgeDirection, GraphStore
from fossil.sampling.subgraphs import SubgraphSampler

# After the last epoch the fusion layer takes a step for every so many: 30 after 300, of which 10 can be too few
# (decision 22).
_EPOCHS_A_CLOSING_STEP = 10
_HOPS = 3  # that a step reads around a node: two of the encoder's, one of the generator's


class Fossil(SubgraphContrast[FossilGraph | SampledGraph]):
    """Views of a subgraph should be close in the fused Gromov-Wasserstein distance; a node is contrasted with all."""

    name = "fossil"
    title = "FOSSIL"
    paper = "Sangare et al., TMLR 2025, arXiv 2502.20885"
    cost = Cost("1, and the generator", "nnz(X)·D + E·D + N·D² + S·T·K³ + N²·D", "N·D + E + S·K·(K + D)")
    Config = FossilSettings
    config: FossilSettings
    presets = PRESETS
    edge_directions: ClassVar[tuple[EdgeDirection, ...]] = ("out",)
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
        # One module, as in the released code: encoder and generator share the slope of a PReLU.
        activation = activation_module(config.activation)
        self.encoder = make_encoder(config, num_features, activation)
        self.generator = make_generator(config, num_features, activation, self.encoder)
        self.fusion = make_gate(config)

    @property
    def row_width(self) -> int:
        """D."""
        return self.config.width

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
        node_centrality = centrality(graph.adjacency, self.config.centrality)
        tensors = GraphTensors(
            features=FeatureMatrix.from_host(graph.features, device),
            adjacency=adjacency,
            propagation=self._propagation(graph, adjacency, device),
            centrality=None if node_centrality is None else torch.from_numpy(node_centrality).to(device)[:, None],
        )
        sampler = SubgraphSampler(adjacency.crow, adjacency.col, self.config.subgraph_size, self.config.reach)
        return FossilGraph(tensors, sampler)

    def check_trainable(self, prepared: FossilGraph | SampledGraph) -> None:
        """Raise GraphError unless at least two anchors of a trial draw can fill a subgraph."""
        prepared.sampler.check_fillable("Lower subgraph_size, or symmetrize the edges if the graph is directed.")

    def step(self, prepared: FossilGraph | SampledGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield L_ot + L_node + L_θ; or L_θ after them, where the fusion layer has a pass of its own."""
        batch = None
        if isinstance(prepared, SampledGraph):  # subgraphs first, because they say what there is to encode
            batch = self.draw_batch(prepared, random)
            graph = self.surroundings(prepared, batch.targets, _HOPS, random)
        else:
            graph = prepared.tensors
        branches = self.encoder(graph.features, graph.propagation, random)  # Section 4.2
        generated = graph.from_all_ranks(self.generator(branches, graph, random))  # 4.3
        branches = graph.from_all_ranks(branches.leading(graph.num_nodes))  # the generator alone reads the others
        H, gate = self.fuse(branches, graph.centrality, random)  # 4.4
        H_hat, _ = self.fuse(generated, graph.centrality, random)
        pairs = side(self.sample, prepared.sampler, random) if batch is None else batch.pairs  # 4.5
        compared = self.compared(H, H_hat, pairs.subgraphs)
        ot, solution = side(self.subgraph_loss, compared, pairs)  # 4.6.1
        node = self.node_loss(compared)  # 4.6.2
        fusion_learns = gate is not None and not self._has_second_pass  # from this forward pass
        sample = None if batch is None else batch.anchors
        penalty = side(self.fusion_loss, gate, branches, sample, urgent=False) if fusion_learns else None  # 4.6.3

        def diagnose() -> Record:
            return {
                "contrast": ot if node is None else torch.stack([ot, node]).sum(),
                **({} if penalty is None else penalty.parts()),
                **describe_step(H, gate, pairs.subgraphs),
                **describe_pairs(solution, pairs.subgraphs, self.config.solver_iterations),
            }

        terms = {"ot": ot, "node": node, "fusion": None if penalty is None else penalty.total}
        present = {name: term for name, term in terms.items() if term is not None}
        yield Objective(present, ("encoder", "fusion") if fusion_learns else ("encoder",), diagnose)
        if self._has_second_pass:
            yield from self.fusion_step(prepared, random)

    def closing(self, steps: int) -> Sequence[Phase]:
        """Return the steps of its own that the fusion layer takes after shared passes, which may leave it behind."""
        if self.fusion is None or self.config.fusion_training == "joint" or self._has_second_pass:
            return ()
        return (Phase("closing", max(1, steps // _EPOCHS_A_CLOSING_STEP), self.fusion_step),)

    def fusion_step(self, prepared: FossilGraph | SampledGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield L_θ on a forward pass of its own."""
        assert self.fusion is not None
        sample = None
        if isinstance(prepared, SampledGraph):
            drawn = prepared.draw_nodes(self.config.num_anchors * self.config.subgraph_size, random)
            graph = self.surroundings(prepared, drawn, _HOPS - 1, random)
            sample = UniformSample(torch.arange(len(drawn), device=drawn.device), prepared.num_nodes)
        else:
            graph = prepared.tensors
        with torch.no_grad():
            branches: Branches = graph.from_all_ranks(self.encoder(graph.features, graph.propagation, random))
        penalty = self.penalty(self.fusion(branches, graph.centrality, random), branches, sample)
        yield Objective({"fusion": penalty.total}, ("fusion",), penalty.parts)

    @property
    def _has_second_pass(self) -> bool:
        config = self.config
        return self.fusion is not None and config.fusion_training == "separate" and config.fusion_pass == "second"

    # Section 4.4: fusion.

    def fuse(
        self, branches: Branches, centrality: Tensor | None, random: torch.Generator | None
    ) -> tuple[Tensor, Gate | None]:
        """Return H (N×D) of the encoder's branches, or Ĥ of the generator's, and λ where there is one."""
        if self.fusion is None:
            return fuse(branches, None), None
        if self.config.fusion_training == "separate":
            # The gate learns from its own loss alone: what it reads and says are constants to the encoder.
            return self.fusion.mix(branches, centrality, random)
        fusion: Tensor = self.fusion(branches, centrality, random)
        return fuse(branches, fusion), Gate(fusion.detach(), fusion)

    # Section 4.6.3: the loss of the fusion layer.

    def fusion_loss(self, gate: Gate, branches: Branches, sample: UniformSample | None = None) -> FusionPenalty:
        """Return L_θ (Eq. 15) of the λ that made H; estimated from a sample, where not all nodes were encoded."""
        joint = self.config.fusion_training == "joint"
        return self.penalty(gate.with_gradient(), branches if joint else branches.detached(), sample)

    def penalty(self, fusion: Tensor, branches: Branches, sample: UniformSample | None = None) -> FusionPenalty:
        """Return L_θ of λ (N×1), or its estimate from a sample of the nodes."""
        assert branches.feature is not None
        feature, structure, population = branches.feature, branches.structure, None
        if sample is not None:
            fusion, feature, structure = (rows_of(each, sample.rows) for each in (fusion, feature, structure))
            population = sample.population
        l2, mean = self.config.fusion_l2, self.config.fusion_mean
        return fusion_penalty(
            fusion, feature, structure, alpha=self.feature_weight, l2=l2, mean=mean, population=population
        )

    # A step, or vectors, from a part of the graph at a time.

    def check_sampled(self) -> None:
        """Raise SettingError, with what to set, where these settings need the whole graph."""
        refuse_whole(self.config)

    def prepare_sampled(self, store: GraphStore, device: torch.device, fan_out: int | None) -> SampledGraph:
        """Return what steps on parts of a graph read, from arrays that stay where they lie."""
        return SampledGraph.of(store, "out", self.config, device, fan_out)

    def surroundings(self, graph: SampledGraph, nodes: Tensor, hops: int, random: torch.Generator) -> GraphTensors:
        """Return the block around some nodes, or this rank's share of it, as encoder, then generator, read it."""
        block = graph.around(nodes, "out", hops, random)
        scaling, loops = propagation_rule(self.config)
        propagation = block.operator(scaling, loops=loops, dtype=graph.dtype)
        plain = propagation if scaling == "sum" else block.operator("sum", dtype=graph.dtype)
        features = graph.store.features.take(block.nodes, graph.device, graph.dtype)
        node_centrality = graph.centrality(block.degree[: len(nodes)], self.config.centrality)
        adjacency = plain.next.next  # of the generator's hop, after the two of the encoder
        return GraphTensors(features, adjacency, propagation, node_centrality).divided()

    def inference(self, prepared: SampledGraph) -> FossilInference:
        """Return what embeds one chunk of nodes after the other."""
        return FossilInference(self, prepared)

    @torch.no_grad()
    def encode(self, prepared: FossilGraph | SampledGraph) -> NodeVectors:
        """Return H and λ of every node."""
        if isinstance(prepared, SampledGraph):
            return self.inference(prepared).vectors(0, prepared.num_nodes)
        graph = prepared.tensors
        branches = self.encoder(graph.features, graph.propagation)
        H, gate = self.fuse(branches, graph.centrality, None)
        if gate is None:
            return NodeVectors(H)
        return NodeVectors(H, gate.values.squeeze(1), structure_share(branches, gate.values))

    def memory(self, prepared: FossilGraph | SampledGraph) -> float:
        """Return about how many bytes a step takes beside the prepared graph."""
        if isinstance(prepared, SampledGraph):
            return sampled_bytes(self.config, prepared, self.tile_rows)
        return step_bytes(self.config, prepared.tensors, self.tile_rows)

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
