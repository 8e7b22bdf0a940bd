"""Graphs with every kind of neighbourhood, and the subgraphs that tests of the sampler draw from them."""

import numpy as np
import scipy.sparse as sp
import torch

from fossil.sampling.frontiers import Reach
from fossil.sampling.subgraphs import SubgraphSampler


def both(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return edges + [(b, a) for a, b in edges]


HUB = both([(0, i) for i in range(1, 10)] + [(9, 10), (10, 11), (11, 12), (12, 13)])  # a star with a tail
MIXED = both(  # a ring with chords, a triangle of its own, an edge of its own; node 15 has no neighbour
    [(i, (i + 1) % 10) for i in range(10)] + [(0, 4), (2, 7), (3, 8)] + [(10, 11), (11, 12), (10, 12)] + [(13, 14)]
)
DIRECTED = [(i, (3 * i + step) % 12) for i in range(10) for step in (1, 2, 5) if (3 * i + step) % 12 != i]
LOOPS = [*both([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]), (0, 0), (2, 2)]
# Two hubs with more neighbours than a draw looks at, a third of them in common, and a node that knows both hubs only.
HUBS = both([(0, i) for i in range(2, 24)] + [(1, i) for i in range(16, 38)] + [(0, 38), (1, 38)])
GRAPHS: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "hub": (14, HUB),
    "mixed": (16, MIXED),
    "hubs": (39, HUBS),
    "directed": (12, DIRECTED),
    "self loops": (4, LOOPS),
}
CASES: list[tuple[str, int, Reach]] = [
    (name, size, reach)
    for name, sizes in (
        ("hub", (3, 6, 9)),
        ("hubs", (3, 4)),
        ("mixed", (2, 4, 7)),
        ("directed", (3, 5, 8)),
        ("self loops", (3, 4)),
    )
    for size in sizes
    for reach in ("two_hop", "six_hop")
]


def csr(name: str) -> sp.csr_array:
    nodes, edges = GRAPHS[name]
    source, target = np.array(sorted(set(edges))).T
    return sp.csr_array((np.ones(len(source), np.float32), (source, target)), shape=(nodes, nodes))


def sampler(name: str, size: int, reach: Reach) -> SubgraphSampler:
    matrix = csr(name)
    crow, col = (torch.from_numpy(array.astype(np.int64)) for array in (matrix.indptr, matrix.indices))
    made = SubgraphSampler(crow, col, size, reach)
    if name == "hubs":
        # So that a graph this small has hubs that are not looked at as a whole.
        vars(made.plan).update(places=2 * size * size)
    return made
