import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fossil.graph.structure import symmetric_normalized
from fossil.nn.augment import drop_edges, mask_columns, shuffled, symmetric_scaled, with_self_loops
from fossil.ops.features import FeatureMatrix
from fossil.ops.sparse import SparseMatrix

NODES = 60


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_graph(*, loops: bool = False) -> sp.csr_array:
    edges = np.random.default_rng(0).random((NODES, NODES)) < 0.3
    np.fill_diagonal(edges, loops)
    edges[3] = edges[:, 3] = False
    return sp.csr_array(edges.astype(np.float32))


def dense(matrix: SparseMatrix) -> Tensor:
    return matrix.matmul(torch.eye(matrix.shape[1]))


def test_masking_zeroes_whole_columns_and_leaves_the_others() -> None:
    x = np.random.default_rng(1).random((5, 400), dtype=np.float32) + 1
    masked = mask_columns(FeatureMatrix.from_host(x), 0.3, seeded()).project(torch.eye(400))
    gone = (masked == 0).all(0)
    assert 80 < gone.sum() < 160  # 120 ± 9
    assert torch.equal(masked[:, ~gone], torch.from_numpy(x)[:, ~gone])


def test_masking_sparse_features_is_masking_dense_ones() -> None:
    x = np.random.default_rng(1).random((8, 30), dtype=np.float32)
    x[x < 0.5] = 0
    views = [
        mask_columns(FeatureMatrix.from_host(kind), 0.4, seeded()).project(torch.eye(30))
        for kind in (x, sp.csr_array(x))
    ]
    torch.testing.assert_close(views[0], views[1])


def test_masking_with_probability_zero_is_the_identity() -> None:
    features = FeatureMatrix.from_host(np.ones((2, 3), np.float32))
    assert mask_columns(features, 0, seeded()) is features


@pytest.mark.parametrize("probability", [0.0, 0.4])
def test_dropping_edges_is_pygs_normalisation_of_the_edges_left(probability: float) -> None:
    looped = with_self_loops(random_graph())
    found = dense(drop_edges(looped, probability, seeded()))
    left = (found != 0) & ~torch.eye(NODES, dtype=torch.bool)
    target, source = left.nonzero().T
    index, weight = gcn_norm(torch.stack([source, target]), num_nodes=NODES)
    expected = torch.zeros(NODES, NODES).index_put((index[1], index[0]), weight)
    torch.testing.assert_close(found, expected)


def test_each_direction_of_an_edge_is_dropped_with_the_probability_and_loops_never() -> None:
    adjacency = random_graph()
    both = sp.csr_array(((adjacency + adjacency.T) > 0).astype(np.float32))
    dropped = dense(drop_edges(with_self_loops(both), 0.25, seeded()))
    edges = torch.from_numpy(both.toarray()) > 0
    kept = (dropped != 0) & edges
    assert abs(kept.sum() / edges.sum() - 0.75) < 0.04  # three standard deviations
    one_way = (kept & ~kept.T).sum() / edges.sum()
    assert abs(one_way - 0.25 * 0.75) < 0.04
    assert (dropped.diagonal() > 0).all()


@pytest.mark.parametrize("loops", [False, True])
def test_nothing_dropped_is_the_normalisation_on_the_host(loops: bool) -> None:
    adjacency = random_graph(loops=loops)
    found = drop_edges(with_self_loops(adjacency), 0, seeded())
    expected = SparseMatrix.from_scipy(symmetric_normalized(adjacency, self_loops=True))
    torch.testing.assert_close(found.values, expected.values)
    assert torch.equal(found.col, expected.col) and torch.equal(found.crow, expected.crow)


def test_dropping_keeps_the_pattern_so_that_every_step_has_the_same_shapes() -> None:
    looped = with_self_loops(random_graph())
    dropped = drop_edges(looped, 0.9, seeded())
    assert dropped.col is looped.col and dropped.values.shape == looped.values.shape


def test_scaling_gives_rows_without_entries_zeros() -> None:
    scaled = symmetric_scaled(SparseMatrix.from_scipy(random_graph()))
    assert scaled.values.isfinite().all() and not dense(scaled)[3].any()


def test_shuffling_gives_every_number_once_and_differs_by_seed() -> None:
    assert shuffled(50, seeded()).sort().values.tolist() == list(range(50))
    assert not torch.equal(shuffled(50, seeded(0)), shuffled(50, seeded(1)))
