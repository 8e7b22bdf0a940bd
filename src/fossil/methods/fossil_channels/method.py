"""FOSSIL with channels from top to bottom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.graph.channels import CHANNELS, Channel, called_for, channels_of, operators_of, reference_channels
from fossil.graph.graph import Graph
from fossil.graph.structure import undirected
from fossil.methods.base import Cost, NodeVectors, Objective, ParameterGroup, Record
from fossil.methods.fossil.contrast import SubgraphContrast
from fossil.methods.fossil.memory import contrast_bytes
from fossil.methods.fossil.records import describe_pairs, describe_step
from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil.stages import Batch, Compared, Pairs, Transported
from fossil.methods.fossil_channels.inference import COMPARED_COLUMNS, ChannelInference
from fossil.methods.fossil_channels.sampled import channel_block
from fossil.methods.fossil_channels.settings import ChannelSettings
from fossil.nn.agreement import agreement, channel_weights, landmarks_of
from fossil.nn.channel_encoder import ChannelEncoder
from fossil.nn.channel_tensors import ChannelBlock, ChannelTensors, untrained_rows
from fossil.nn.feature_scale import ordinary_scale, scale_of
from fossil.nn.reduction import Reduction
from fossil.ops.sparse import SparseMatrix
from fossil.ops.streams import side
from fossil.sampling.store import EdgeDirection, GraphStore
from fossil.sampling.subgraphs import SubgraphSampler
from fossil.settings import Settings

_UNKNOWN = 1 << 10  # an exponent beyond all that float32 has
_LARGEST_EDGE_DROPOUT = 0.5
# Tensors of N×hidden for each operator, and of N×D for each channel, that live when a step takes most, counted from
# measured peaks; and of the rows of all channels when vectors are made.
_HIDDEN_TENSORS, _ROW_TENSORS, _ENCODING_TENSORS = 5, 11, 3


class ChannelGraph(NamedTuple):
    """A graph as FOSSIL with channels trains on it: subgraphs are drawn along edges of either direction.

    Attributes:
        tensors: features and operators.
        sampler: of subgraphs.
        scale: what features were multiplied by.
    """

    tensors: ChannelTensors
    sampler: SubgraphSampler
    scale: float = 1.0


class FossilChannels(SubgraphContrast[ChannelGraph | SampledGraph]):
    """FOSSIL with a channel for each way to see a node's surroundings, weighed by how far the others confirm it."""

    name = "fossil_channels"
    title = "FOSSIL channels"
    paper = "this library, after Sangare et al., TMLR 2025"
    cost = Cost("2", "nnz(X)·D + E·D + N·D² + S·T·K³ + N²·D", "N·D + E + S·K·(K + D)")
    epochs = 100
    most_epochs = 400
    Config = ChannelSettings
    config: ChannelSettings
    edge_directions: ClassVar[tuple[EdgeDirection, ...]] = ("out", "in", "both")
    small: ClassVar[Mapping[str, Any]] = {
        "hidden": 12, "width": 6, "untrained": 4, "num_anchors": 20, "subgraph_size": 4,
    }  # fmt: skip

    def __init__(self, config: ChannelSettings, num_features: int) -> None:
        super().__init__(config, num_features)
        self.channels = self.chosen(config)
        self.reduction = Reduction(num_features, max(config.untrained, COMPARED_COLUMNS))
        self.encoder = ChannelEncoder(num_features, self.channels, config.hidden, config.width, config.dropout)
        self.weights: Tensor
        self.register_buffer("weights", torch.full((len(self.channels),), len(self.channels) ** -0.5))
        self.subgraph_weight: Tensor
        self.register_buffer("subgraph_weight", torch.tensor(1.0))
        self.edge_dropout: Tensor
        self.register_buffer("edge_dropout", torch.tensor(0.0))
        self.exponent: Tensor  # a whole number, because checkpoints are wary of large weights
        self.register_buffer("exponent", torch.tensor(_UNKNOWN))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        state_dict.setdefault(f"{prefix}exponent", torch.tensor(_UNKNOWN))  # runs of earlier versions have none
        super()._load_from_state_dict(state_dict, prefix, *others)

    @classmethod
    def complete(cls, config: Settings, graph: Graph, seed: int) -> Settings:
        """Return the settings with the channels that the graph calls for, or those of the given names that it has."""
        assert isinstance(config, ChannelSettings)
        channels = called_for(graph) if config.channels is None else channels_of(graph, config.channels)
        return config.updated({"channels": tuple(channel.name for channel in channels)})

    @classmethod
    def vector_columns(cls, config: Settings, num_features: int) -> int:
        """Return the trained and the untrained columns of all channels."""
        assert isinstance(config, ChannelSettings)
        return len(cls.chosen(config)) * (config.width + min(config.untrained, num_features))

    @staticmethod
    def chosen(config: ChannelSettings) -> tuple[Channel, ...]:
        """Return the channels of complete settings; of others, those of an undirected graph."""
        return tuple(CHANNELS[name] for name in config.channels) if config.channels else reference_channels(())

    @property
    def row_width(self) -> int:
        """Columns of H: D for each channel."""
        return len(self.channels) * self.config.width

    @property
    def scale(self) -> float:
        """What the features it was trained on were multiplied by, and so are those of other graphs; 0 before that."""
        exponent = int(self.exponent)
        return 0.0 if exponent == _UNKNOWN else 2.0**exponent

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """Return the encoder."""
        config = self.config
        return {"encoder": ParameterGroup(list(self.encoder.parameters()), config.learning_rate, config.weight_decay)}

    def prepare(self, graph: Graph, device: torch.device) -> ChannelGraph:
        """Move the graph to `device`."""
        scale = self.scale or scale_of(graph)
        tensors = ChannelTensors.of(graph, reference_channels(self.channels), device, scale)
        edges = SparseMatrix.from_scipy(undirected(graph.adjacency), device)
        sampler = SubgraphSampler(edges.crow, edges.col, self.config.subgraph_size, self.config.reach)
        return ChannelGraph(tensors, sampler, scale)

    def check_trainable(self, prepared: ChannelGraph | SampledGraph) -> None:
        """Raise GraphError unless at least two anchors of a trial draw can fill a subgraph."""
        prepared.sampler.check_fillable("Lower subgraph_size, or take method prop, which trains nothing.")

    # A step, or vectors, from a part of the graph at a time.

    def check_sampled(self) -> None:
        """Raise SettingError, with what to set, where these settings need the whole graph."""
        if self.config.node_contrast == "all_nodes":
            raise SettingError(
                "node_contrast=all_nodes needs the whole graph at every step, and cannot be trained on samples.",
                remedy="Use method fossil_channels_v2, or train on the whole graph.",
            )

    def prepare_sampled(self, store: GraphStore, device: torch.device, fan_out: int | None) -> SampledGraph:
        """Return what steps on parts of a graph read, from arrays that stay where they lie."""
        scaled = store.scaled(self.scale or ordinary_scale(store.features.largest()))
        return SampledGraph.of(scaled, "both", self.config, device, fan_out)

    def surroundings(self, graph: SampledGraph, nodes: Tensor, random: torch.Generator) -> ChannelBlock:
        """Return the block around some nodes along every channel, or this rank's share of it."""
        return channel_block(graph, nodes, self.channels, random).divided()

    def inference(self, prepared: SampledGraph) -> ChannelInference:
        """Return what embeds one chunk of nodes after the other."""
        return ChannelInference(self, prepared)

    # Weights of the channels and of the subgraph loss, and the dropout of edges.

    @torch.no_grad()
    def fit(self, prepared: ChannelGraph | SampledGraph, random: torch.Generator) -> None:
        """Find V of wide features, and from the agreement of untrained rows w of the channels, ω and q."""
        scale = prepared.store.features.scale if isinstance(prepared, SampledGraph) else prepared.scale
        self.exponent.fill_(round(math.log2(scale)))
        if isinstance(prepared, SampledGraph):
            self.reduction.fit(prepared.store.features, random)
            agreed = self.inference(prepared).landmark_agreement().mean(0)
        else:
            self.reduction.fit(prepared.tensors.features, random)
            landmarks = landmarks_of(prepared.sampler.num_nodes, self.weights.device)
            agreed = self.node_agreement(prepared, landmarks).mean(0)
        if self.config.weighting != "equal":
            self.weights.copy_(self.weights_from(agreed))
        # The transport compares a node's surroundings; where they do not resemble the node, it has little to say of it.
        # And where they do, what an edge says is said elsewhere too, and may be left out of a view.
        of_identity = agreed[reference_channels(self.channels).index(CHANNELS["identity"])].clamp_min(0)
        weight, rate = self.config.subgraph_weight, self.config.edge_dropout
        self.subgraph_weight.copy_((2 * of_identity) ** 2 if weight is None else torch.tensor(weight))
        self.edge_dropout.copy_(of_identity.clamp_max(_LARGEST_EDGE_DROPOUT) if rate is None else torch.tensor(rate))

    def node_agreement(self, prepared: ChannelGraph, nodes: Tensor | None = None) -> Tensor:
        """Return the agreement of others with each reference channel, for these nodes (all when None): N×R."""
        references = reference_channels(self.channels)
        reduced = self.reduction(prepared.tensors.features)[:, :COMPARED_COLUMNS]
        rows = untrained_rows(reduced, references, prepared.tensors)
        return agreement(rows, references, landmarks_of(len(rows), rows.device), nodes)

    def weights_from(self, agreed: Tensor) -> Tensor:
        """Return the weights of the channels (…×C, of length one), given the agreement about all references (…×R)."""
        references = reference_channels(self.channels)
        of_channels = agreed[..., [references.index(channel) for channel in self.channels]]
        return channel_weights(of_channels, self.channels, self.config.sharpness)

    # Two views, and the losses that compare them.

    def view(self, graph: ChannelTensors, random: torch.Generator) -> Tensor:
        """Return H (N×CD) under fresh dropout: cosines of two nodes are weighted means of those of their channels."""
        if self.config.edge_dropout != 0:
            graph = graph.drop_edges(self.edge_dropout, self.channels, random)
        rows = graph.from_all_ranks(self.encoder(graph, random))
        return (rows * self.weights[:, None]).flatten(1)

    def step(self, prepared: ChannelGraph | SampledGraph, random: torch.Generator) -> Iterator[Objective]:
        """Yield ω L_ot + L_node."""
        batch: Batch | None = None
        graph: ChannelTensors
        if isinstance(prepared, SampledGraph):  # subgraphs first, because they say what there is to encode
            batch = self.draw_batch(prepared, random)
            graph = self.surroundings(prepared, batch.targets, random)
        else:
            graph = prepared.tensors
        H, H_hat = self.view(graph, random), self.view(graph, random)
        pairs = side(self.sample, prepared.sampler, random) if batch is None else batch.pairs  # Section 4.5
        compared = self.compared(H, H_hat, pairs.subgraphs)
        ot, solution = None, None
        if self.config.subgraph_weight != 0:
            ot, solution = side(self.subgraph_loss, compared, pairs)  # 4.6.1
        node = self.node_loss(compared)  # 4.6.2
        terms = {name: term for name, term in (("ot", ot), ("node", node)) if term is not None}

        def diagnose() -> Record:
            return {
                "contrast": torch.stack(list(terms.values())).sum(),
                **describe_step(H, None, pairs.subgraphs),
                **describe_pairs(solution, pairs.subgraphs, self.config.solver_iterations),
            }

        yield Objective(terms, ("encoder",), diagnose)

    def subgraph_loss(self, compared: Compared, pairs: Pairs) -> tuple[Tensor, Transported | None]:
        """Return ω L_ot, and the plans behind it; weighed here because only a backward pass waits for a loss aside."""
        loss, solution = super().subgraph_loss(compared, pairs)
        return self.subgraph_weight * loss, solution

    # What comes out.

    @torch.no_grad()
    def encode(self, prepared: ChannelGraph | SampledGraph) -> NodeVectors:
        """Return the trained rows of every channel and the untrained ones beside them, and what each node trusts."""
        if isinstance(prepared, SampledGraph):
            return self.inference(prepared).vectors(0, prepared.num_nodes)
        rows = [self.encoder(prepared.tensors)]
        if self.config.untrained:
            reduced = self.reduction(prepared.tensors.features)[:, : self.config.untrained]
            rows.append(untrained_rows(reduced, self.channels, prepared.tensors))
        return self.node_vectors(rows, self.weights_from(self.node_agreement(prepared)))

    def node_vectors(self, rows: list[Tensor], node_weights: Tensor) -> NodeVectors:
        """Return trained and untrained rows (N×C×… each) as vectors, given the weights by each node's agreement (N×C).

        The vectors have the weights of the whole graph, or with `weighting=node` those of the node.
        """
        weights = node_weights if self.config.weighting == "node" else self.weights.expand_as(node_weights)
        vectors = (torch.cat(rows, 2) * weights[..., None]).flatten(1)
        names = [channel.name for channel in self.channels]
        trusted = dict(zip(names, node_weights.square().unbind(1), strict=True))
        shares = dict(zip(names, weights.square().mean(0).tolist(), strict=True))
        return NodeVectors(vectors, channels=trusted, channel_shares=shares)

    def memory(self, prepared: ChannelGraph | SampledGraph) -> float:
        """Return about how many bytes a step takes beside the prepared graph, or encoding, whichever is more."""
        if isinstance(prepared, SampledGraph):
            return self._sampled_memory(prepared)
        config, nodes = self.config, prepared.sampler.num_nodes
        channels, operators = len(self.channels), len({channel.operator for channel in self.channels})
        entries = sum(matrix.num_entries for matrix in prepared.tensors.operators.values())
        step = _HIDDEN_TENSORS * operators * config.hidden + _ROW_TENSORS * self.row_width
        compared = len(reference_channels(self.channels)) * min(COMPARED_COLUMNS, self.num_features)
        encoding = _ENCODING_TENSORS * (channels * (config.width + min(config.untrained, self.num_features)) + compared)
        device = prepared.sampler.degree.device
        contrast = contrast_bytes(config, nodes, self.row_width, self.tile_rows, device)
        return 4.0 * (nodes * max(step, encoding) + 8 * entries) + contrast

    def _sampled_memory(self, graph: SampledGraph) -> float:
        config, operators = self.config, len(operators_of(self.channels))
        targets = config.num_anchors * (config.subgraph_size + 1)
        near, read = graph.block_sizes(targets, 2)[1:]  # nodes of the hidden layer, and of the features
        floats = operators * near * _HIDDEN_TENSORS * (config.hidden + config.width)
        floats += _ROW_TENSORS * targets * self.row_width + 3 * operators * read * self.num_features
        contrast = contrast_bytes(config, graph.num_nodes, self.row_width, self.tile_rows, graph.device)
        return 4.0 * 2 * floats + contrast


class FossilChannelsV2(FossilChannels):
    """The same, but a node is contrasted with the nodes of the sampled subgraphs, however large the graph is."""

    name = "fossil_channels_v2"
    title = "FOSSIL channels v2"
    cost = Cost("2", "nnz(X)·D + E·D + N·D² + S·T·K³ + (S·K)²·D", "N·D + E + S·K·(K + D)")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {"node_contrast": "subgraph_nodes"}}
