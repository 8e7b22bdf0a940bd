"""The batched sampler against a plain one that keeps Python sets, on graphs with every kind of neighbourhood."""

import random as plain_random
from collections import Counter
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.stats import chi2_contingency
from small_graphs import CASES, GRAPHS, csr, sampler
from torch import Tensor

from fossil.errors import GraphError
from fossil.sampling.frontiers import Reach
from fossil.sampling.subgraphs import Subgraphs, SubgraphSampler

Neighbours = dict[int, set[int]]


def neighbours(name: str) -> Neighbours:
    nodes, edges = GRAPHS[name]
    found: Neighbours = {node: set() for node in range(nodes)}
    for a, b in edges:
        found[a].add(b)
    return found


def pick(pool: set[int], count: int, random: plain_random.Random) -> set[int]:
    return set(random.sample(sorted(pool), count))


def two_hop(graph: Neighbours, anchor: int, size: int, random: plain_random.Random) -> set[int] | None:
    """Breadth first: all nodes of a hop before any of the next, a random choice within the hop that overflows."""
    near = graph[anchor] - {anchor}
    if len(near) >= size - 1:
        return pick(near, size - 1, random)
    far = set().union(*(graph[node] for node in near)) - near - {anchor}
    if len(near) + len(far) < size - 1:
        return None
    return near | pick(far, size - 1 - len(near), random)


def six_hop(graph: Neighbours, anchor: int, size: int, random: plain_random.Random) -> set[int] | None:
    """The released rule: a hop that reaches too few replaces the set, the first that reaches enough completes it."""
    current = set(graph[anchor])
    if len(current) >= size:
        return pick(current - {anchor}, size - 1, random)
    for _ in range(5):
        reached = set().union(*(graph[node] for node in current))
        if len(reached) >= size:
            complete = current | pick(reached - current, size - len(current), random)
            return pick(complete - {anchor}, size - 1, random)
        current = reached
    return None


REFERENCE = {"two_hop": two_hop, "six_hop": six_hop}
DRAWS = 3000


@cache
def reference_draws(name: str, size: int, reach: Reach) -> dict[int, list[frozenset[int]]]:
    """DRAWS sets of others for each anchor that can be filled."""
    graph, random = neighbours(name), plain_random.Random(0)
    draws = {anchor: [REFERENCE[reach](graph, anchor, size, random) for _ in range(DRAWS)] for anchor in sorted(graph)}
    assert all(len({found is None for found in sets}) == 1 for sets in draws.values())
    return {
        anchor: [frozenset(found) for found in sets if found is not None]
        for anchor, sets in draws.items()
        if sets[0] is not None
    }


@cache
def sampled(name: str, size: int, reach: Reach) -> tuple[Tensor, int, int]:
    """The same number of draws around every node of the graph, skipped ones included."""
    anchors = torch.arange(GRAPHS[name][0]).repeat(DRAWS)
    found = sampler(name, size, reach).sample(anchors, torch.Generator().manual_seed(1)).compact()
    return found.nodes, int(found.isolated), int(found.too_small)


def by_anchor(nodes: Tensor) -> dict[int, list[frozenset[int]]]:
    grouped: dict[int, list[frozenset[int]]] = {}
    for *others, anchor in nodes.tolist():
        grouped.setdefault(anchor, []).append(frozenset(others))
    return grouped


@pytest.mark.parametrize(("name", "size", "reach"), CASES)
def test_every_subgraph_has_distinct_nodes_with_the_anchor_last(name: str, size: int, reach: Reach) -> None:
    nodes, _, _ = sampled(name, size, reach)
    assert nodes.shape[1] == size
    in_order = nodes.sort(1).values
    assert (in_order[:, 1:] > in_order[:, :-1]).all()
    # Skipped anchors leave no gap: the last column runs through the others in the order they were given.
    kept = sorted(reference_draws(name, size, reach))
    assert nodes[:, -1].tolist() == kept * DRAWS


@pytest.mark.parametrize(("name", "size", "reach"), CASES)
def test_skipped_anchors_are_those_of_the_reference(name: str, size: int, reach: Reach) -> None:
    graph = neighbours(name)
    skipped = set(graph) - set(reference_draws(name, size, reach))
    lonely = {node for node, found in graph.items() if not found}
    assert lonely <= skipped
    _, isolated, too_small = sampled(name, size, reach)
    assert (isolated, too_small) == (len(lonely) * DRAWS, len(skipped - lonely) * DRAWS)


@pytest.mark.parametrize("size", [3, 4])
def test_the_hubs_have_more_neighbours_than_a_draw_looks_at(size: int) -> None:
    assert csr("hubs").sum(1)[:2].sum() > 2 * size * size


def test_the_cases_hold_skipped_and_filled_anchors_of_every_kind() -> None:
    filled = {case: set(reference_draws(*case)) for case in CASES}
    assert filled["mixed", 4, "two_hop"] == set(range(10))  # triangle, pair and isolated node fail
    assert filled["hub", 9, "two_hop"] != filled["hub", 9, "six_hop"] != set()


@pytest.mark.parametrize(("name", "size", "reach"), CASES)
def test_inclusion_frequencies_are_those_of_the_reference(name: str, size: int, reach: Reach) -> None:
    expected, found = reference_draws(name, size, reach), by_anchor(sampled(name, size, reach)[0])
    assert set(found) == set(expected)
    for anchor in expected:
        theirs, ours = (Counter(node for others in sets[anchor] for node in others) for sets in (expected, found))
        for node in theirs | ours:
            share = (theirs[node] + ours[node]) / (2 * DRAWS)
            spread = (2 * share * (1 - share) / DRAWS) ** 0.5
            assert abs(theirs[node] - ours[node]) / DRAWS <= 5 * spread, (anchor, node)


@pytest.mark.parametrize(("name", "size", "reach"), CASES)
def test_whole_sets_are_drawn_as_often_as_by_the_reference(name: str, size: int, reach: Reach) -> None:
    expected, found = reference_draws(name, size, reach), by_anchor(sampled(name, size, reach)[0])
    lowest = 1.0
    for anchor in expected:
        theirs, ours = Counter(expected[anchor]), Counter(found[anchor])
        sets = [key for key in theirs | ours if theirs[key] + ours[key] >= 20]
        rare = [2 * DRAWS - sum(theirs[key] + ours[key] for key in sets)]
        table = [[count[key] for key in sets] for count in (theirs, ours)]
        if rare[0] >= 20:
            table = [[*row, DRAWS - sum(row)] for row in table]
        if len(table[0]) > 1:
            lowest = min(lowest, chi2_contingency(np.array(table)).pvalue)
    assert lowest > 1e-5  # at most 39 tests in each of 26 cases


def test_five_expansions_reach_six_hops_and_no_further() -> None:
    """On a directed path every hop has one node, until the last one fans out."""
    for hops, reached in ((6, True), (7, False)):
        edges = [(i, i + 1) for i in range(hops - 1)] + [(hops - 1, hops + i) for i in range(3)]
        source, target = np.array(edges).T
        nodes = hops + 3
        matrix = sp.csr_array((np.ones(len(edges)), (source, target)), shape=(nodes, nodes))
        crow, col = (torch.from_numpy(array.astype(np.int64)) for array in (matrix.indptr, matrix.indices))
        found = SubgraphSampler(crow, col, 3, "six_hop").sample(torch.tensor([0]), torch.Generator().manual_seed(0))
        assert bool(found.count == 1) is reached


def test_all_anchors_skipped_gives_an_empty_batch() -> None:
    found = sampler("mixed", 4, "six_hop").sample(torch.tensor([13, 15, 14]), torch.Generator().manual_seed(0))
    assert found.nodes.shape == (3, 4) and not found.filled.any()
    found = found.compact()
    assert found.nodes.shape == (0, 4) and found.count == 0 and (found.isolated, found.too_small) == (1, 2)
    found = sampler("mixed", 4, "two_hop").sample(torch.tensor([], dtype=torch.int64), torch.Generator().manual_seed(0))
    assert found.nodes.shape == (0, 4) and (found.isolated, found.too_small) == (0, 0)


def test_a_graph_without_edges_gives_no_subgraph_and_empty_blocks() -> None:
    for reach in ("two_hop", "six_hop"):
        empty = SubgraphSampler(torch.zeros(6, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 3, reach)
        found = empty.sample(torch.arange(5), torch.Generator().manual_seed(0))
        assert (found.count, found.isolated, found.too_small) == (0, 5, 0)
        assert torch.equal(empty.adjacency(torch.tensor([[0, 1, 2]])), torch.zeros(1, 3, 3))


@pytest.mark.parametrize("name", GRAPHS)
def test_adjacency_blocks_are_slices_of_the_dense_matrix(name: str) -> None:
    dense = csr(name).toarray()
    random = np.random.default_rng(0)
    nodes = np.stack([random.choice(len(dense), 4, replace=False) for _ in range(50)])
    found = sampler(name, 4, "six_hop").adjacency(torch.from_numpy(nodes))
    expected = np.stack([dense[np.ix_(row, row)] for row in nodes])
    np.testing.assert_array_equal(found.numpy(), expected)


def test_anchors_are_drawn_uniformly_without_replacement() -> None:
    drawer, random = sampler("mixed", 4, "six_hop"), torch.Generator().manual_seed(0)
    counts = torch.zeros(16)
    for _ in range(2000):
        anchors = drawer.draw_anchors(5, random)
        assert len(set(anchors.tolist())) == 5
        counts[anchors] += 1
    expected = 2000 * 5 / 16
    assert ((counts - expected).abs() < 5 * (expected * (1 - 5 / 16)) ** 0.5).all()
    assert sorted(drawer.draw_anchors(99, random).tolist()) == list(range(16))


@pytest.mark.parametrize("reach", ["two_hop", "six_hop"])
def test_draws_follow_their_generator(reach: Reach) -> None:
    drawn = [
        sampler("hub", 6, reach).sample(torch.arange(14), torch.Generator().manual_seed(seed)).nodes
        for seed in (0, 0, 1)
    ]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_each_node_is_picked_out_once_and_found_again() -> None:
    nodes = torch.tensor([[7, 2, 9], [2, 7, 4], [5, 5, 5]])
    count = torch.tensor(2)  # the last row is no subgraph
    drawn, number, places = Subgraphs(nodes, count, count, count).distinct_nodes()
    assert drawn[:number].tolist() == [2, 4, 7, 9]
    assert torch.equal(drawn[places[:2]], nodes[:2]) and int(places.max()) < len(drawn) == 9


def test_a_graph_in_which_two_subgraphs_can_be_filled_passes_the_trial() -> None:
    sampler("mixed", 4, "two_hop").check_fillable("Lower subgraph_size.")


def test_a_graph_in_which_they_cannot_is_refused_with_what_was_tried_and_a_remedy_that_helps() -> None:
    with pytest.raises(GraphError, match="of 16 tried, 1 have no neighbour and 15 have too few") as refused:
        sampler("mixed", 12, "two_hop").check_fillable("Lower subgraph_size.")
    assert "subgraph_size=12" in str(refused.value) and refused.value.remedy == "Lower subgraph_size."
    loops = torch.arange(6), torch.arange(5)  # each node has itself for its only neighbour
    none = torch.zeros(6, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    for (crow, col), degree in ((none, 0), (loops, 1)):
        with pytest.raises(GraphError, match="of 5 tried, 5 have no neighbour and 0 have too few") as refused:
            SubgraphSampler(crow, col, 3).check_fillable("Lower subgraph_size.", lonely_degree=degree)
        assert refused.value.remedy == "Add edges: a subgraph is made of neighbours."


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(("name", "size", "reach"), [*CASES, ("mixed", 12, "two_hop"), ("hub", 13, "six_hop")])
def test_the_trial_counts_what_a_draw_fills_and_draws_nothing(
    name: str, size: int, reach: Reach, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draw of 2,000 anchors takes as long as many steps: minutes where K is above a hundred."""
    plan = sampler(name, size, reach).plan
    tried = SubgraphSampler(plan.crow, plan.col, size, reach, ahead=ahead)
    filled = int(tried.sample(torch.arange(tried.num_nodes), torch.Generator().manual_seed(0)).count)
    monkeypatch.delattr(SubgraphSampler, "sample")
    if filled >= 2:
        tried.check_fillable("Lower subgraph_size.")
    else:
        with pytest.raises(GraphError, match="cannot be filled around two nodes"):
            tried.check_fillable("Lower subgraph_size.")


def test_a_rule_that_looks_at_one_hop_alone_is_named_where_the_other_would_do() -> None:
    # Around a node of a cycle of four lie its two neighbours, then itself and the one across, then the two again.
    cycles = [(4 * c + i, 4 * c + (i + step) % 4) for c in range(5) for i in range(4) for step in (1, 3)]
    source, target = np.array(sorted(cycles)).T
    crow = torch.from_numpy(np.searchsorted(source, np.arange(21)))
    col = torch.from_numpy(target)
    with pytest.raises(GraphError, match=r"20 of these have enough within two hops; .* six hops reaches 3") as refused:
        SubgraphSampler(crow, col, 3, "six_hop").check_fillable("Lower subgraph_size.")
    assert "reach=two_hop" in refused.value.remedy and "Lower subgraph_size." in refused.value.remedy
    SubgraphSampler(crow, col, 3, "two_hop").check_fillable("Lower subgraph_size.")
    with pytest.raises(GraphError, match=r"too few nodes in reach\. Lower") as refused:  # no rule finds five of four
        SubgraphSampler(crow, col, 5, "six_hop").check_fillable("Lower subgraph_size.")
    assert refused.value.remedy == "Lower subgraph_size."
