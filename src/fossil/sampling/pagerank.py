"""The most important nodes around every node, by personalised PageRank, and the edges among them.

A surfer who starts at v, follows a random edge and is sent back to v with probability r at each step is found at u with
probability π_v(u). The power iteration x ← r e_v + (1-r) A D⁻¹ x from x = e_v approaches π_v; cut off after T
iterations it looks T hops far. Nodes are ranked by x(u) / degree(u), so that hubs do not belong to every neighbourhood.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.graph.graph import Array

# Elements of the N×(centres) block of scores that is iterated on at once: what a CPU's cache holds, 1 GiB on a GPU.
_CHUNK_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 27}
# Elements of the pieces in which the N×K×K edges are looked up: 256 MiB of int64.
_LOOKUP_ELEMENTS = 1 << 25


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """K-node subgraphs, one around each node.

    Attributes:
        nodes: N×K node indices, the centre first, then by falling score; the centre again where there are no more.
        present: N×K, False where a row was filled up.
    """

    nodes: Tensor
    present: Tensor


def pagerank_neighbourhoods(
    adjacency: sp.csr_array,
    size: int,
    *,
    restart: float = 0.15,
    iterations: int = 10,
    tie_break: Array | None = None,
    device: torch.device | str = "cpu",
    chunk: int | None = None,
) -> Neighbourhoods:
    """Return for every node the `size` nodes of highest personalised PageRank by degree, itself included.

    Takes N·E·`iterations` operations and the memory of one chunk of centres.

    Args:
        adjacency: A, N×N zeros and ones, symmetric.
        size: K.
        restart: r, probability to be sent back to the centre.
        iterations: T.
        tie_break: N distinct numbers or strings; of nodes that score alike the lower comes first. By default the index.
        device: where to compute, and where the result lives.
        chunk: centres to treat at once; by memory when None.
    """
    count, size = int(adjacency.shape[0]), min(size, int(adjacency.shape[0]))
    degree = torch.from_numpy(np.asarray(adjacency.sum(axis=0), dtype=np.float64).ravel()).to(device)
    order = np.arange(count) if tie_break is None else np.argsort(np.argsort(tie_break))
    rank = torch.from_numpy(order).to(device, torch.float64)[:, None]
    step = _transition(adjacency, 1 - restart, device)
    chunk = chunk or max(1, _CHUNK_ELEMENTS.get(degree.device.type, 1 << 18) // max(1, count))
    nodes, present = [], []
    for centres in torch.split(torch.arange(count, device=device), chunk):
        scores = _power_iteration(step, centres, restart, iterations) / degree.clamp_min(1)[:, None]
        # Float32 calls equal what differs by rounding; shrinking by less than its precision then separates equals.
        keys = scores.float().double() * (1 - rank / count * 2.0**-25)
        keys[centres, torch.arange(len(centres), device=device)] = torch.inf
        values, found = keys.topk(size, dim=0)
        present.append(values.T > 0)
        nodes.append(torch.where(values > 0, found, centres).T)
    return Neighbourhoods(torch.cat(nodes).contiguous(), torch.cat(present).contiguous())


def _transition(adjacency: sp.csr_array, share: float, device: torch.device | str) -> Tensor:
    """Return A D⁻¹ times `share` (N×N, CSR, float64)."""
    degree = np.asarray(adjacency.sum(axis=0), dtype=np.float64).ravel()
    step = sp.csr_array(adjacency.astype(np.float64) @ sp.diags_array(share / np.maximum(degree, 1))).sorted_indices()
    crow, col = (torch.from_numpy(part.astype(np.int64)) for part in (step.indptr, step.indices))
    with warnings.catch_warnings():
        # PyTorch's remarks on its own CSR support: nothing a user could act on.
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        matrix = torch.sparse_csr_tensor(crow, col, torch.from_numpy(step.data), step.shape, check_invariants=False)
        return matrix.to(device)


def _power_iteration(step: Tensor, centres: Tensor, restart: float, iterations: int) -> Tensor:
    """Return x after T iterations for each of B centres, N×B; `step` is (1-r) A D⁻¹."""
    diagonal = centres, torch.arange(len(centres), device=step.device)
    x = torch.zeros(step.shape[0], len(centres), dtype=step.dtype, device=step.device)
    x[diagonal] = 1
    for _ in range(iterations):
        x = step @ x
        x[diagonal] += restart
    return x


def convolution_matrices(adjacency: sp.csr_array, neighbourhoods: Neighbourhoods) -> Tensor:
    """Return D^-1/2 (A + I) D^-1/2 of each induced subgraph, with its own degrees: N×K×K, zero where filled up.

    Args:
        adjacency: A, N×N zeros and ones, symmetric, without self-loops.
        neighbourhoods: the subgraphs.
    """
    nodes, present = neighbourhoods.nodes, neighbourhoods.present
    edges = sp.coo_array(adjacency.sorted_indices())
    count = int(adjacency.shape[0])
    # A number for each edge, rising; the last one is no edge's, so that every search ends at some entry.
    numbers = np.append(edges.row.astype(np.int64) * count + edges.col, count * count)
    known = torch.from_numpy(numbers).to(nodes.device)
    chunk = max(1, _LOOKUP_ELEMENTS // nodes.shape[1] ** 2)
    pieces = []
    for members, there in zip(torch.split(nodes, chunk), torch.split(present, chunk), strict=True):
        wanted = members[:, :, None] * count + members[:, None, :]
        joined = known[torch.searchsorted(known, wanted)] == wanted
        joined |= torch.eye(nodes.shape[1], dtype=torch.bool, device=nodes.device)
        looped = (joined & there[:, :, None] & there[:, None, :]).float()
        scale = looped.sum(2).clamp_min(1).rsqrt()
        pieces.append(scale[:, :, None] * looped * scale[:, None, :])
    return torch.cat(pieces)
