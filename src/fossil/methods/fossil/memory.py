"""How much memory a step of FOSSIL takes, and how it makes do with less."""

from __future__ import annotations

import torch

from fossil.methods.fossil.sampled import SampledGraph
from fossil.methods.fossil.settings import ContrastSettings, FossilSettings
from fossil.nn.tensors import GraphTensors
from fossil.ops.infonce import node_contrast_memory

# Tensors of N×hidden and N×D that live at the two moments when a step takes most, counted from measured peaks: when
# the encoder's first layer is differentiated, and when the losses are. On a GPU the node loss over all nodes runs
# beside the transport, and both keep what they need.
_IN_THE_ENCODER = (6, 4)
_IN_THE_LOSSES = (2, 20)
_IN_LOSSES_OF_ALL_ON_A_GPU = (2, 32)
_LOADED = {"cpu": 1 << 28, "cuda": 1 << 27}  # what the first step loads, compiles or records
_MOST_TILE_ROWS, _FEWEST_TILE_ROWS = 4096, 256


def step_bytes(config: FossilSettings, graph: GraphTensors, tile_rows: int | None) -> float:
    """Return about what the activations of both views, their gradients and the losses take."""
    device, nodes = graph.adjacency.crow.device, graph.num_nodes
    everywhere = config.node_contrast == "all_nodes"
    losses = _IN_LOSSES_OF_ALL_ON_A_GPU if everywhere and device.type == "cuda" else _IN_THE_LOSSES
    moments = (_IN_THE_ENCODER, losses)
    per_node = max(hidden * config.hidden + width * config.width for hidden, width in moments)
    floats = nodes * per_node + 8 * graph.adjacency.num_entries
    return 4.0 * floats + contrast_bytes(config, nodes, config.width, tile_rows, device)


def sampled_bytes(config: FossilSettings, graph: SampledGraph, tile_rows: int | None) -> float:
    """Return about what a step on the surroundings of the sampled nodes takes."""
    targets = config.num_anchors * (config.subgraph_size + 1)
    encoded, hidden, rim = graph.block_sizes(targets, 3)[1:]
    floats = hidden * (_IN_THE_ENCODER[0] * config.hidden + _IN_THE_ENCODER[1] * config.width)
    floats += rim * 3 * graph.store.features.shape[1] + encoded * _IN_THE_LOSSES[1] * config.width
    return 4.0 * floats + contrast_bytes(config, graph.num_nodes, config.width, tile_rows, graph.device)


def contrast_bytes(
    config: ContrastSettings, nodes: int, width: int, tile_rows: int | None, device: torch.device
) -> float:
    """Return about what the contrasts of rows of this width take, and whatever the first step loads."""
    drawn = config.num_anchors * config.subgraph_size
    kept = 0
    if config.node_contrast != "none" and tile_rows is None:
        everywhere = config.node_contrast == "all_nodes"
        kept = node_contrast_memory(nodes if everywhere else min(nodes, drawn), device)
    return 48.0 * drawn * width + kept + _LOADED[device.type]


def smaller_tiles(config: ContrastSettings, tile_rows: int | None) -> int | None:
    """Return half as many rows for the tiles of the node loss; None where they cannot be smaller, or there is none."""
    if config.node_contrast == "none" or tile_rows == _FEWEST_TILE_ROWS:
        return None
    return max(_FEWEST_TILE_ROWS, (tile_rows or _MOST_TILE_ROWS) // 2)
