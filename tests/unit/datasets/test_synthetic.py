import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fossil.datasets.synthetic import BlockModel, _pair, csbm, digits_graph
from fossil.errors import SettingError
from fossil.graph.homophily import edge_homophily


def test_digits_carry_features_labels_and_ids():
    graph = digits_graph(5)
    assert np.array_equal(np.bincount(graph.labels), np.bincount(load_digits().target))
    assert np.array_equal(graph.features * 16, load_digits().data)
    assert (graph.ids[0], graph.ids[-1]) == ("digit-0000", "digit-1796")
    assert not graph.is_directed
    assert graph.adjacency.diagonal().sum() == 0


def test_digits_are_joined_to_their_nearest():
    graph = digits_graph(10)
    images = load_digits().data.astype(np.int64)
    for node in range(0, 1797, 150):
        distance = ((images - images[node]) ** 2).sum(axis=1)
        distance[node] = np.iinfo(np.int64).max
        tenth = np.sort(distance)[9]
        joined = graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]]
        assert np.isin(np.flatnonzero(distance < tenth), joined).all()
        # Any other neighbour has this node among its own ten nearest.
        for other in joined[distance[joined] > tenth]:
            back = ((images - images[other]) ** 2).sum(axis=1)
            back[other] = np.iinfo(np.int64).max
            assert back[node] <= np.sort(back)[9]


@pytest.mark.parametrize("neighbours", [0, 1797, 2.5, "ten"])
def test_impossible_neighbour_counts_are_refused(neighbours):
    with pytest.raises(SettingError, match="neighbours="):
        digits_graph(neighbours)


@pytest.mark.parametrize("homophily", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_csbm_has_the_expected_homophily_and_degree(homophily):
    graph = csbm(20_000, degree=10, features=2, homophily=homophily, seed=3)
    assert edge_homophily(graph) == pytest.approx(homophily, abs=0.01)
    assert graph.num_edges / graph.num_nodes == pytest.approx(10, rel=0.02)
    assert np.bincount(graph.labels).tolist() == [10_000, 10_000]


def test_csbm_degrees_are_poisson():
    """Independent sparse pairs: the variance of the degrees equals their mean."""
    degrees = np.diff(csbm(20_000, degree=6, features=1).adjacency.indptr)
    assert degrees.var() == pytest.approx(6, rel=0.05)


def test_csbm_is_undirected_without_loops_or_duplicates():
    graph = csbm(500, degree=20, features=3)
    assert not graph.is_directed
    assert graph.findings == ()


def test_csbm_where_every_pair_is_certain_is_the_complete_graph():
    graph = csbm(6, degree=5, features=2, homophily=0.4)
    assert np.array_equal(graph.adjacency.toarray(), 1 - np.eye(6))


def test_csbm_features_separate_the_classes_as_the_signal_says():
    nodes, width = 4000, 400
    graph = csbm(nodes, degree=2, features=width, signal=100 * nodes)
    means = [graph.features[graph.labels == label].mean(axis=0, dtype=np.float64) for label in (0, 1)]
    # The class means are +- sqrt(mu/n) u with u of length about 1: 2 * 10 apart.
    assert np.linalg.norm(means[1] - means[0]) == pytest.approx(20, rel=0.15)
    inside = graph.features[graph.labels == 0] - means[0]
    assert inside.std() == pytest.approx(1 / math.sqrt(width), rel=0.01)


def test_csbm_depends_on_the_seed_alone():
    first, again, other = (csbm(300, features=4, seed=seed) for seed in (5, 5, 6))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert np.array_equal(first.labels, again.labels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"homophily": 1.2}, "homophily=1.2"),
        ({"nodes": 2}, "nodes=2"),
        ({"degree": 0}, "degree=0"),
        ({"homofily": 0.5}, "Did you mean 'homophily'"),
        ({"nodes": 10, "degree": 9, "homophily": 1.0}, "more edges than there are pairs"),
    ],
)
def test_impossible_models_are_refused(parameters, message):
    with pytest.raises(SettingError, match=message):
        csbm(**parameters)


@pytest.mark.parametrize("phi", [-1, -0.5, 0, 0.25, 1])
def test_phi_lies_on_the_curve_of_the_gpr_gnn_paper(phi):
    model = BlockModel.from_phi(phi, nodes=800, degree=5, features=200)
    strength = (2 * model.homophily - 1) * math.sqrt(5)  # lambda
    ratio = 800 / 200  # xi
    assert strength**2 + model.signal**2 / ratio == pytest.approx(1 + 3.25)
    assert 2 / math.pi * math.atan2(strength * math.sqrt(ratio), model.signal) == pytest.approx(phi)


def test_phi_out_of_range_is_refused():
    with pytest.raises(SettingError, match=r"phi=1\.5"):
        BlockModel.from_phi(1.5)


def test_pairs_are_numbered_as_in_the_lower_triangle():
    larger, smaller = _pair(np.arange(50 * 49 // 2))
    assert np.array_equal(np.stack([larger, smaller]), np.stack(np.tril_indices(50, -1)))


def test_pairs_are_exact_for_large_numbers():
    corners = [i * (i - 1) // 2 for i in (10**6, 10**7 + 1, 3 * 10**7)]
    number = np.array([corner + step for corner in corners for step in (-1, 0, 1)])
    larger, smaller = _pair(number)
    assert all(
        0 <= j < i and i * (i - 1) // 2 + j == n
        for i, j, n in zip(*map(np.ndarray.tolist, (larger, smaller, number)), strict=True)
    )
