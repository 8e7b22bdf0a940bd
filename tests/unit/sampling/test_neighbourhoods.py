"""Blocks around nodes, held to the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fossil.graph.channels import operator
from fossil.graph.structure import symmetric_normalized
from fossil.ops.sparse import SparseMatrix
from fossil.sampling.feature_rows import FeatureRows
from fossil.sampling.neighbourhoods import Adjacency, Neighbourhood, Scaling, neighbourhood, part_around
from fossil.sampling.rows import CHUNK_NEIGHBOURS, RowOperator, chunks, neighbours_at_once
from fossil.sampling.subgraphs import SubgraphSampler


def adjacency(nodes: int = 60, seed: int = 0) -> sp.csr_array:
    """Return directed edges with a hub that sees everybody, and three nodes that see nobody."""
    edges = np.random.default_rng(seed).random((nodes, nodes)) < 0.08
    edges[0] = True
    edges[-3:] = False
    np.fill_diagonal(edges, False)
    return sp.csr_array(edges.astype(np.float32))


def edges_of(matrix: sp.csr_array) -> Adjacency:
    return Adjacency(
        torch.from_numpy(matrix.indptr.astype(np.int64)), torch.from_numpy(matrix.indices.astype(np.int32))
    )


def block_of(
    matrix: sp.csr_array, targets: list[int], hops: int, fan_out: int | None = None, seed: int = 0
) -> Neighbourhood:
    random = torch.Generator().manual_seed(seed)
    return neighbourhood(edges_of(matrix), torch.tensor(targets), hops, fan_out, random)


def test_a_block_holds_the_neighbours_of_each_hop_and_nobody_else() -> None:
    matrix = adjacency()
    targets = [7, 58, 3]
    block = block_of(matrix, targets, 3)
    reached = set(targets)
    assert block.nodes[: block.sizes[0]].tolist() == targets
    for size in block.sizes[1:]:
        reached |= {int(each) for node in reached for each in matrix[[node]].indices}
        assert set(block.nodes[:size].tolist()) == reached
    assert len(block.nodes) == block.sizes[-1]


@pytest.mark.parametrize("fan_out", [None, 2])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_part_of_a_block_is_what_some_of_its_targets_need(hops: int, fan_out: int | None) -> None:
    block = block_of(adjacency(), list(range(20, 60, 3)), hops, fan_out)
    whole = block.operator("symmetric", loops=True, dtype=torch.float64)
    targets = torch.tensor([4, 9, 2])
    part = part_around(whole, targets)
    expected = torch.randn(len(block.nodes), 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = expected[part.nodes]
    matrix, mine = whole, part.matrix
    for _ in range(hops):
        expected, found = matrix.matmul(expected), mine.matmul(found)
        matrix, mine = matrix.next, mine.next
    torch.testing.assert_close(found, expected[targets], rtol=0, atol=1e-12)
    assert torch.equal(part.matrix.values, whole.values[part.entries])
    assert fan_out is None or len(part.nodes) < len(block.nodes)


@pytest.mark.parametrize(
    ("scaling", "loops"), [("sum", False), ("mean", False), ("symmetric", False), ("symmetric", True)]
)
def test_products_along_a_block_are_those_of_the_whole_matrix(scaling: Scaling, loops: bool) -> None:
    matrix = adjacency()
    whole = {
        "sum": lambda: matrix,
        "mean": lambda: operator(matrix, "out"),
        "symmetric": lambda: symmetric_normalized(matrix, self_loops=loops),
    }[scaling]()
    dense = np.random.default_rng(1).standard_normal((60, 4))
    targets = [5, 59, 11, 0]
    block = block_of(matrix, targets, 2)
    found = block.operator(scaling, loops=loops, dtype=torch.float64)
    values = found.next.matmul(found.matmul(torch.from_numpy(dense)[block.nodes]))
    np.testing.assert_allclose(
        values.numpy(), (whole.astype(np.float64) @ (whole.astype(np.float64) @ dense))[targets], atol=1e-12
    )
    rows = RowOperator(edges_of(matrix), scaling, loops, torch.device("cpu"))
    single = torch.cat([rows.times(*part, torch.from_numpy(dense)) for part in chunks(rows.adjacency, 0, 60, 7, 30)])
    np.testing.assert_allclose(single.numpy(), whole @ dense, rtol=1e-5, atol=1e-6)


def test_sums_over_a_fan_out_are_right_on_average() -> None:
    matrix = adjacency()
    dense = torch.from_numpy(np.random.default_rng(1).standard_normal((60, 3)))
    targets, draws = [0, 4, 9, 58], 1000
    exact = torch.from_numpy((matrix.astype(np.float64) @ (matrix.astype(np.float64) @ dense.numpy()))[targets])
    sums = []
    for seed in range(draws):
        block = block_of(matrix, targets, 2, fan_out=2, seed=seed)
        assert int(block.crow.diff().max()) <= 2
        found = block.operator("sum", dtype=torch.float64)
        sums.append(found.next.matmul(found.matmul(dense[block.nodes])))
    values = torch.stack(sums)
    error = values.std(0) / draws**0.5
    assert ((values.mean(0) - exact).abs() <= 4.5 * error + 1e-9).all()


def test_every_neighbour_of_a_hub_is_drawn_alike() -> None:
    matrix = adjacency()
    seen = torch.zeros(60)
    for seed in range(1000):
        block = block_of(matrix, [0], 1, fan_out=4, seed=seed)
        seen += torch.bincount(block.nodes[block.col], minlength=60)
    expected = 1000 * 4 / 59
    assert ((seen[1:] - expected).abs() < 5 * expected**0.5).all() and seen[0] == 0


@pytest.mark.parametrize("reach", ["six_hop", "two_hop"])
def test_subgraphs_drawn_without_keeping_frontiers_are_the_same(reach: str) -> None:
    matrix = sp.csr_array((adjacency(seed=3) + adjacency(seed=3).T > 0).astype(np.float32))
    kept = SubgraphSampler(edges_of(matrix).crow, edges_of(matrix).col.long(), 5, reach)  # type: ignore[arg-type]
    lean = SubgraphSampler(*edges_of(matrix), 5, reach, ahead=False)  # type: ignore[arg-type]
    assert lean.plan.frontiers is None and not lean.plan.has_keys
    anchors = torch.arange(0, 60, 2)
    first, second = (each.sample(anchors, torch.Generator().manual_seed(1)) for each in (kept, lean))
    assert torch.equal(first.nodes, second.nodes) and int(first.count) == int(second.count) > 20
    assert torch.equal(kept.adjacency(first.nodes), lean.adjacency(first.nodes))


def test_a_chunk_has_fewer_neighbours_where_their_features_are_wide() -> None:
    card, data = torch.device("cuda"), torch.zeros(1, dtype=torch.float16)
    usual, wide = (FeatureRows(data.expand(10, columns)) for columns in (128, 8192))
    assert neighbours_at_once(usual, 64, card) == CHUNK_NEIGHBOURS["cuda"] // 2
    assert neighbours_at_once(usual, 2048, card) == neighbours_at_once(wide, 64, card) * 4 == 1 << 20
    words = FeatureRows(SparseMatrix.from_scipy(sp.csr_array((10, 1 << 20), dtype=np.float32)))
    assert neighbours_at_once(words, 64, card) == CHUNK_NEIGHBOURS["cuda"]  # only their words are read
