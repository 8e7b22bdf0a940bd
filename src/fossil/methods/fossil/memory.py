"""How much memory a step of FOSSIL takes, and how it makes do with less."""

from __future__ import annotations

from fossil.methods.fossil.settings import FossilSettings
from fossil.nn.tensors import GraphTensors
from fossil.ops.infonce import node_contrast_memory

# Tensors of N×hidden and N×D that live at the peak of a step, counted from measured peaks.
_HIDDEN_COPIES, _WIDTH_COPIES = 12, 40
_MOST_TILE_ROWS, _FEWEST_TILE_ROWS = 4096, 256


def step_bytes(config: FossilSettings, graph: GraphTensors, tile_rows: int | None) -> float:
    """Return about what the activations of both views, their gradients and the node loss take."""
    per_node = _HIDDEN_COPIES * config.hidden + _WIDTH_COPIES * config.width
    drawn = 3 * config.num_anchors * config.subgraph_size * config.width
    kept = 0
    if config.node_contrast == "all_nodes" and tile_rows is None:
        kept = node_contrast_memory(graph.num_nodes, graph.adjacency.crow.device)
    return 4.0 * (graph.num_nodes * per_node + 8 * graph.adjacency.num_entries + 4 * drawn) + kept


def smaller_tiles(config: FossilSettings, tile_rows: int | None) -> int | None:
    """Return half as many rows for the tiles of the node loss; None where they cannot be smaller, or there is none."""
    if config.node_contrast == "none" or tile_rows == _FEWEST_TILE_ROWS:
        return None
    return max(_FEWEST_TILE_ROWS, (tile_rows or _MOST_TILE_ROWS) // 2)
