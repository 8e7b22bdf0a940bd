"""How fast a FOSSIL step could be at best: the arithmetic and the memory traffic it cannot do without.

Each part takes at least as long as the slowest of its products, its exponentials and its bytes at the full rate of the
device; the floor is the sum over the parts. Products count forward and backward:

- encoder: X W₁ once for both branches and again for the gradient of W₁, by the stored entries of X as if they cost no
  more than those of a dense matrix; two products N×H×D and the two gradients of each; sums over neighbours;
- generator: two products N×D×D and the two gradients of each; fusion layer: two maps for each view, one gradient;
- node loss: 16 n² D, with the symmetry of the similarities used and every tile computed twice, and 4 n² exponentials;
  12 n² D and half the exponentials where the similarities are few enough to be kept, whose bytes are not counted; on a
  GPU at the rate of 16-bit numbers, which `tf32` takes there too;
- costs: 5S products K×D×K and the two gradients of each;
- transport: 8 K³ for each iteration of each of the 3S pairs, in float32 whatever the precision; 2 K² exponentials.

Bytes count each tensor that must be written, as written once and read once in either direction: hidden activations,
embeddings and, for Adam, weights, gradients and moments. Sums over neighbours are charged for what they read and write,
not for the gathers, which a cache may serve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from fossil.graph.graph import Graph
from fossil.methods.fossil.settings import FossilSettings
from fossil.ops.infonce import node_contrast_memory
from fossil.ops.precision import Products, arithmetic
from measuring import milliseconds

_FLOAT = 4  # bytes


class Rates(NamedTuple):
    """What a device does in a second at best.

    Attributes:
        products: FLOP of products at the precision asked for.
        node_loss: FLOP of the products of the node loss at that precision.
        float32: FLOP of float32 products.
        exponentials: number of them.
        bytes: read and written.
        origin: where the rates come from.
    """

    products: float
    node_loss: float
    float32: float
    exponentials: float
    bytes: float
    origin: str


# Data sheet for float32 and tf32; bfloat16 and copies as measured; 132 SMs × 16 exponentials a clock at 1.98 GHz.
_H200 = {"float32": 67e12, "tf32": 495e12, "bfloat16": 790e12}


def rates_of(device: torch.device, precision: Products) -> Rates:
    """Return the stated rates of an H200; of any other device those measured now."""
    if device.type == "cuda" and "H200" in torch.cuda.get_device_name(device):
        narrow = _H200["float32" if precision == "float32" else "bfloat16"]
        return Rates(_H200[precision], narrow, _H200["float32"], 4.2e12, 4.3e12, "stated: H200")
    narrow_ones: Products = "bfloat16" if precision == "tf32" and device.type == "cuda" else precision
    return Rates(
        _product_rate(device, precision),
        _product_rate(device, narrow_ones),
        _product_rate(device, "float32"),
        _exponential_rate(device),
        _copy_rate(device),
        "measured",
    )


def _product_rate(device: torch.device, precision: Products) -> float:
    size = 4096 if device.type == "cuda" else 1024
    matrix = torch.ones(size, size, device=device, dtype=torch.bfloat16 if precision == "bfloat16" else torch.float32)
    with arithmetic("tf32" if precision == "tf32" else "float32", device):
        return 2 * size**3 / _seconds(lambda: matrix @ matrix, device)


def _exponential_rate(device: torch.device) -> float:
    if device.type == "cuda":  # a loop over memory would measure the memory
        return torch.cuda.get_device_properties(device).multi_processor_count * 16 * 1.9e9
    values = torch.zeros(1 << 16)  # small enough for a cache
    result = torch.empty_like(values)
    return values.numel() / _seconds(lambda: torch.exp(values, out=result), device)


def _copy_rate(device: torch.device) -> float:
    source = torch.zeros(1 << 25, device=device)
    target = torch.empty_like(source)
    return 2 * _FLOAT * source.numel() / _seconds(lambda: target.copy_(source), device)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    call()
    return milliseconds(call, device, 5) / 1e3


@dataclass(frozen=True)
class Work:
    """What one part of a step cannot do without.

    Attributes:
        products: FLOP of products at the precision of the step.
        node_loss: FLOP of products of the node loss.
        float32: FLOP of products in float32.
        exponentials: number of them.
        bytes: read and written.
    """

    products: float = 0.0
    node_loss: float = 0.0
    float32: float = 0.0
    exponentials: float = 0.0
    bytes: float = 0.0

    def milliseconds(self, rates: Rates) -> float:
        """Return the time of the slowest of the four."""
        product_time = self.products / rates.products + self.node_loss / rates.node_loss + self.float32 / rates.float32
        return 1e3 * max(product_time, self.exponentials / rates.exponentials, self.bytes / rates.bytes)


def work_of(config: FossilSettings, graph: Graph, device: torch.device) -> dict[str, Work]:
    """Return the work of each part of a step on a graph, as it is done on a device."""
    N, E, F, H, D = graph.num_nodes, graph.num_edges, graph.num_features, config.hidden, config.width
    S, K, T = min(config.num_anchors, N), config.subgraph_size, config.solver_iterations
    entries = graph.features.nnz if graph.has_sparse_features else N * F
    n = N if config.node_contrast == "all_nodes" else min(N, S * K)
    keeps = device.type == "cpu" or config.node_contrast == "all_nodes"
    times = 1 if keeps and node_contrast_memory(n, device) else 2
    weights = F * H + H * D + D * D + 2 * D * config.fusion_hidden
    both_ways = 2 * 2 * _FLOAT  # written and read, forward and backward
    return {
        "encoder": Work(
            products=2 * 2 * entries * H + 3 * 2 * (2 * N * H * D),
            float32=2 * 2 * E * (H + D),
            bytes=both_ways * N * (2 * H + 2 * D) + 2 * _FLOAT * entries,
        ),
        "generator": Work(products=3 * 2 * (2 * N * D * D), float32=2 * 2 * E * D, bytes=both_ways * N * 2 * D),
        "fusion": Work(products=3 * 2 * (2 * N * D * config.fusion_hidden), bytes=both_ways * N * 2 * D),
        "node loss": Work(
            node_loss=(8 + 4 * times) * n**2 * D, exponentials=2 * times * n**2, bytes=both_ways * 2 * n * D
        ),
        "costs": Work(float32=3 * 5 * S * 2 * K**2 * D, bytes=both_ways * 2 * S * K * D),
        "transport": Work(
            float32=3 * S * (8 * K**3 * T + 6 * K**3), exponentials=3 * S * 2 * K**2 * T, bytes=both_ways * 9 * S * K**2
        ),
        "optimiser": Work(bytes=8 * _FLOAT * weights),
    }


def floor_of(config: FossilSettings, graph: Graph, rates: Rates, device: torch.device) -> dict[str, float]:
    """Return the least milliseconds of each part."""
    return {part: work.milliseconds(rates) for part, work in work_of(config, graph, device).items()}
