"""The table of sampled neighbours, against the adjacency it is drawn from."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.sampling.neighbours import neighbour_table


def star(leaves: int, isolated: int = 0) -> sp.csr_array:
    """Node 0 points to `leaves` others, which point back; then nodes without edges."""
    edges = np.zeros((1 + leaves + isolated, 1 + leaves + isolated), np.float32)
    edges[0, 1 : leaves + 1] = edges[1 : leaves + 1, 0] = 1
    return sp.csr_array(edges)


def directed(nodes: int = 60) -> sp.csr_array:
    edges = np.random.default_rng(0).random((nodes, nodes)) < np.linspace(0, 0.3, nodes)[:, None]
    return sp.csr_array(edges.astype(np.float32))


@pytest.mark.parametrize("count", [1, 5, 10])
def test_entries_are_true_neighbours_and_as_different_as_the_degree_allows(count: int) -> None:
    adjacency = directed()
    table = neighbour_table(adjacency, count, seed=3)
    assert table.shape == (60, count)
    degrees = adjacency.sum(axis=1)
    assert (degrees == 0).any() and (degrees > 10).any() and ((degrees > 0) & (degrees < 5)).any()
    for node, chosen in enumerate(table):
        neighbours = set(adjacency[[node]].indices.tolist())
        if neighbours:
            assert set(chosen.tolist()) <= neighbours
            assert len(set(chosen.tolist())) == min(count, len(neighbours))


def test_few_neighbours_are_repeated_in_turn() -> None:
    edges = np.zeros((4, 4), np.float32)
    edges[0, [1, 3]] = 1
    (first, second, *rest), *_ = neighbour_table(sp.csr_array(edges), 5, seed=0).tolist()
    assert {first, second} == {1, 3} and rest == [first, second, first]


def test_a_node_without_neighbours_is_its_own() -> None:
    table = neighbour_table(star(6, isolated=2), 5, seed=0)
    np.testing.assert_array_equal(table[-2:], [[7] * 5, [8] * 5])
    nothing = neighbour_table(sp.csr_array((3, 3), dtype=np.float32), 2, seed=0)
    np.testing.assert_array_equal(nothing, [[0, 0], [1, 1], [2, 2]])


def test_every_set_of_neighbours_is_equally_likely() -> None:
    hubs, leaves = 6000, 5
    edges = sp.hstack([sp.csr_array((hubs + leaves, hubs)), sp.csr_array(np.ones((hubs + leaves, leaves)))])
    chosen = np.sort(neighbour_table(sp.csr_array(edges), 2, seed=1)[:hubs], axis=1) - hubs
    pairs = list(combinations(range(leaves), 2))
    shares = np.array([(chosen == pair).all(1).mean() for pair in pairs])
    assert shares.sum() == pytest.approx(1)
    assert np.abs(shares - 0.1).max() < 5 * (0.1 * 0.9 / hubs) ** 0.5


def test_a_seed_decides_the_draw_and_another_seed_draws_anew() -> None:
    first, again, other = (neighbour_table(star(40), 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert set(first[0]) != set(other[0])
