"""Where what is kept of every node goes: on the device, or where that is full, on the host."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.errors import GraphError
from fossil.guard.budget import in_bytes
from fossil.ops.memory import free_memory

_LARGEST_SHARE = 0.8  # of the free memory that one tensor may take


def allocate(nodes: int, width: int, device: torch.device, like: Tensor | None = None) -> Tensor:
    """Return an empty tensor with a row for each node, N×D: on the device, or where that is full, on the host.

    It is float32; beside something of half the size (`like`), or where memory is short, bfloat16, which holds sums over
    hubs that float16 does not.

    Raises:
        GraphError: neither has room for it.
    """
    needed = 2 * nodes * width  # bytes in bfloat16
    beside_half = like is not None and like.element_size() == 2
    free = free_memory(device)
    if not beside_half and (free is None or 2 * needed <= _LARGEST_SHARE * free):
        return torch.empty(nodes, width, dtype=torch.float32, device=device)
    full = []
    for place in dict.fromkeys((device, torch.device("cpu"))):
        free = free_memory(place)
        if free is None or needed <= _LARGEST_SHARE * free:
            return torch.empty(nodes, width, dtype=torch.bfloat16, device=place)
        full.append(f"{in_bytes(free)} on {'the host' if place.type == 'cpu' else place}")
    raise GraphError(
        f"To embed {nodes:,} nodes, {width:,} numbers of each are kept at once, which takes {in_bytes(needed)} in half "
        f"precision; free are {' and '.join(full)}.",
        remedy="Choose a smaller width, or use a machine with more memory. A training that is over is kept in its run "
        "folder: --resume embeds without training again.",
    )
