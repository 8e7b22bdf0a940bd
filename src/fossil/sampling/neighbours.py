"""A fixed number of sampled neighbours for every node, as one table."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Array
from fossil.seeding import numpy_generator


def neighbour_table(adjacency: sp.csr_array, count: int, seed: int) -> Array:
    """Return `count` neighbours of each node, drawn once, N×count (int64).

    A node with at least `count` neighbours gets different ones, each set of them equally likely; one with fewer gets
    all of them, in random order, over and over; one without any stands as its own neighbour. The work is one sort of
    the E edges.

    Args:
        adjacency: N×N CSR; row i lists the neighbours of i.
        count: neighbours per node, at least one.
        seed: decides the draw.
    """
    nodes = adjacency.shape[0]
    degree = np.diff(adjacency.indptr)
    row = np.repeat(np.arange(nodes), degree)
    # Random keys sorted within each row put its neighbours in random order; the first of them are a uniform sample.
    keys = numpy_generator(seed, "neighbours").random(len(row))
    shuffled = adjacency.indices[np.lexsort((keys, row))].astype(np.int64)
    turn = np.arange(count) % np.maximum(degree, 1)[:, None]
    table = np.repeat(np.arange(nodes)[:, None], count, axis=1)
    linked = degree > 0
    table[linked] = shuffled[adjacency.indptr[:-1][linked, None] + turn[linked]]
    return table
