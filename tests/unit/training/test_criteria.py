"""Criteria against scikit-learn, SciPy and NumPy, and against closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize
from torch import Tensor

from fossil.training.criteria import (
    alignment,
    edges_found,
    features_found,
    linear_cka,
    loss_improvement,
    nearest,
    neighbours_kept,
    rankme,
    recent_loss,
    sampled,
    uniformity,
)

CPU = torch.device("cpu")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def everyone(nodes: int) -> Tensor:
    return torch.arange(nodes)


def test_nodes_are_sampled_once_each_and_the_same_ones_for_a_seed() -> None:
    found = sampled(100, 30, 1, CPU)
    assert len(found) == 30 == len(set(found.tolist()))
    assert torch.equal(found, sampled(100, 30, 1, CPU)) and not torch.equal(found, sampled(100, 30, 2, CPU))
    assert sorted(sampled(7, 30, 0, CPU).tolist()) == list(range(7))


# Two views.


def test_alignment_is_the_mean_squared_distance_of_directions() -> None:
    first, second = draw(20, 5), draw(20, 5, seed=1)
    expected = ((normalize(first.numpy()) - normalize(second.numpy())) ** 2).sum(1).mean()
    assert alignment(first, 3 * second) == pytest.approx(expected, rel=1e-6)
    assert alignment(first, 7 * first) == pytest.approx(0, abs=1e-12)
    assert alignment(first, -first) == pytest.approx(4)


def test_uniformity_is_that_of_all_pairs() -> None:
    vectors = draw(40, 6)
    expected = np.log(np.exp(-2 * pdist(normalize(vectors.double().numpy())) ** 2).mean())
    assert uniformity(5 * vectors) == pytest.approx(expected, rel=1e-5)


def test_uniformity_has_its_closed_forms() -> None:
    assert uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])) == pytest.approx(-8)  # opposite
    assert uniformity(torch.eye(6)) == pytest.approx(-4)  # at right angles
    assert uniformity(torch.ones(6, 3)) == pytest.approx(0, abs=1e-6)  # all alike


def test_uniformity_of_a_sample_is_near_that_of_all() -> None:
    vectors = draw(3000, 8)
    assert uniformity(vectors, most=1000) == pytest.approx(uniformity(vectors, most=3000), abs=0.03)
    assert uniformity(vectors, seed=1, most=100) != uniformity(vectors, seed=2, most=100)


# Ranks.


@pytest.mark.parametrize("shape", [(50, 8), (12, 30)])
def test_rankme_is_the_entropy_of_singular_values(shape: tuple[int, int]) -> None:
    vectors = draw(*shape) * torch.linspace(0.1, 3, shape[1])
    values = np.linalg.svd(vectors.double().numpy(), compute_uv=False)
    shares = values / values.sum()
    assert rankme(vectors) == pytest.approx(math.exp(-(shares * np.log(shares)).sum()), rel=1e-6)


def test_rankme_counts_directions() -> None:
    assert rankme(torch.eye(9)) == pytest.approx(9)
    assert rankme(draw(30, 1) @ draw(1, 10, seed=1)) == pytest.approx(1, abs=1e-2)
    assert rankme(draw(30, 10), most=4) <= 4 + 1e-9
    assert math.isfinite(rankme(torch.zeros(5, 3)))


# Neighbours.


def test_nearest_nodes_are_those_of_scikit_learn() -> None:
    vectors, nodes = draw(60, 4), torch.tensor([3, 59, 0, 17])
    index = NearestNeighbors(n_neighbors=6, metric="cosine").fit(vectors.numpy())
    expected = index.kneighbors(vectors[nodes].numpy(), return_distance=False)
    found = nearest(vectors, nodes, 5)
    for own, ours, theirs in zip(nodes.tolist(), found.tolist(), expected.tolist(), strict=True):
        assert ours == [node for node in theirs if node != own]


def test_a_graph_has_no_more_neighbours_than_other_nodes() -> None:
    assert sorted(nearest(draw(4, 3), everyone(4), 10)[0].tolist()) == [1, 2, 3]


def test_the_share_of_neighbours_kept_is_that_of_sets() -> None:
    first, second = nearest(draw(50, 3), everyone(50), 7), nearest(draw(50, 3, seed=1), everyone(50), 7)
    expected = np.mean([len({*a} & {*b}) / 7 for a, b in zip(first.tolist(), second.tolist(), strict=True)])
    assert neighbours_kept(first, second) == pytest.approx(expected)
    assert neighbours_kept(first, first.flip(1)) == 1
    assert neighbours_kept(torch.tensor([[1, 2]]), torch.tensor([[3, 4]])) == 0


def test_cka_is_that_of_cross_covariances() -> None:
    first, second = draw(40, 5), draw(40, 9, seed=1) + draw(40, 1)
    X, Y = (each.double().numpy() - each.double().numpy().mean(0) for each in (first, second))
    expected = (np.linalg.norm(Y.T @ X) ** 2) / (np.linalg.norm(X.T @ X) * np.linalg.norm(Y.T @ Y))
    assert linear_cka(first, second) == pytest.approx(expected, rel=1e-9)


def test_cka_of_columns_is_their_squared_correlation() -> None:
    first, second = draw(30, 1), draw(30, 1, seed=1)
    correlation = np.corrcoef(first.numpy().ravel(), second.numpy().ravel())[0, 1]
    assert linear_cka(first, second) == pytest.approx(correlation**2, rel=1e-5)


def test_cka_does_not_see_turns_scales_and_shifts() -> None:
    vectors, turn = draw(30, 6).double(), torch.linalg.qr(draw(6, 6, seed=2).double()).Q
    assert linear_cka(vectors, 4 * vectors @ turn + 1) == pytest.approx(1)
    assert linear_cka(vectors, torch.ones(30, 2)) == 0


# What was held out.


def test_edges_are_told_from_others_as_roc_auc_score_says() -> None:
    vectors = draw(40, 3).round()  # many equal cosines
    edges, non_edges = (torch.randint(40, (2, 90), generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    unit = normalize(vectors.numpy())
    scores = [(unit[pairs[0]] * unit[pairs[1]]).sum(1).round(5) for pairs in (edges.numpy(), non_edges.numpy())]
    expected = roc_auc_score([1] * 90 + [0] * 90, np.concatenate(scores))
    assert edges_found(vectors, edges, non_edges) == pytest.approx(expected, abs=2e-3)
    assert edges_found(torch.ones(4, 2), edges % 4, non_edges % 4) == 0.5


def test_edges_between_equal_vectors_are_all_found() -> None:
    vectors = torch.eye(3).repeat(2, 1)
    edges, non_edges = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[0, 1, 2, 0], [1, 2, 3, 5]])
    assert edges_found(vectors, edges, non_edges) == 1
    assert edges_found(vectors, non_edges, edges) == 0


@pytest.mark.parametrize("width", [4, 50])
@pytest.mark.parametrize("penalty", [0.1, 1.0])
def test_features_are_predicted_as_ridge_does(width: int, penalty: float) -> None:
    vectors = draw(60, width) + 2
    values = vectors[:, :3] @ draw(3, 5, seed=1) + draw(60, 5, seed=2)
    fitted, counted = (half.numpy() for half in sampled(60, 60, 3, CPU).tensor_split(2))
    X, Y = vectors.double().numpy(), values.double().numpy()
    length = ((X[fitted] - X[fitted].mean(0)) ** 2).sum(1).mean()
    model = Ridge(alpha=penalty * length).fit(X[fitted], Y[fitted])
    expected = r2_score(Y[counted], model.predict(X[counted]), multioutput="variance_weighted")
    assert features_found(vectors, values, seed=3, penalty=penalty) == pytest.approx(expected, rel=1e-6)


def test_features_that_vectors_hold_are_found_and_others_are_not() -> None:
    vectors = draw(2000, 5)
    assert features_found(vectors, vectors[:, :2], penalty=1e-6) == pytest.approx(1, abs=1e-6)
    assert features_found(vectors, draw(2000, 2, seed=1)) == pytest.approx(0, abs=0.02)
    assert features_found(torch.ones(2000, 5), vectors[:, :2]) == pytest.approx(0, abs=0.01)
    assert features_found(vectors, torch.ones(2000, 2)) == 0


def test_features_are_counted_on_nodes_that_were_not_fitted() -> None:
    vectors, values = draw(40, 100), draw(40, 3, seed=1)  # as many columns as would fit anything
    assert features_found(vectors, values, penalty=1e-6) < 0.1


# The loss.


def test_the_recent_loss_is_a_mean_and_its_improvement_a_share() -> None:
    losses = [9.0, 4.0, 4.0, 3.0, 3.0]
    assert recent_loss(losses, 2) == 3 and recent_loss(losses, 9) == pytest.approx(4.6)
    assert loss_improvement(losses, 2) == pytest.approx(0.25)
    assert loss_improvement([-3.0, -4.0], 1) == pytest.approx(1 / 3)
    assert loss_improvement(losses, 3) is None
    assert loss_improvement([0.0, 1.0], 1) == 0
