"""Properties of logistic regression that no other library is needed to fix."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from fossil.evaluation.probes import logistic
from fossil.evaluation.probes.logistic import fit_probe


@pytest.fixture
def cloud() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = np.arange(150) % 3
    return generator.normal(size=(150, 6)) + generator.normal(size=(3, 6))[labels], labels


def objective(rows, labels, weight, bias, strength):
    loss = torch.nn.functional.cross_entropy(rows @ weight.T + bias, labels, reduction="sum")
    return loss + weight.square().sum() / (2 * strength)


@pytest.mark.parametrize("strength", [0.05, 20.0])
def test_the_gradient_vanishes_at_the_solution(cloud, strength):
    rows, labels = cloud
    train = np.arange(70)
    probes = fit_probe(rows, labels, [train], [strength], scale=False, tolerance=1e-8)
    weight, bias = (part[0, 0].clone().requires_grad_() for part in (probes.weight, probes.bias))
    objective(torch.as_tensor(rows[train]), torch.as_tensor(labels[train]), weight, bias, strength).backward()
    assert weight.grad.abs().max() < 1e-6
    assert bias.grad.abs().max() < 1e-6


def test_an_optimum_depends_neither_on_where_the_search_began_nor_on_other_problems(cloud):
    """Together, each strength begins where the weaker ones point to; alone, it begins at zero."""
    rows, labels = cloud
    train, strengths = [np.arange(30), np.arange(40, 120)], [0.01, 0.1, 1.0, 1000.0, 4000.0]
    together = fit_probe(rows, labels, train, strengths, tolerance=1e-10)
    assert together.converged.all()
    for split, nodes in enumerate(train):
        for index, strength in enumerate(strengths):
            alone = fit_probe(rows, labels, [nodes], [strength], tolerance=1e-10)
            assert torch.allclose(together.weight[split, index], alone.weight[0, 0], atol=1e-5)
            assert torch.allclose(together.bias[split, index], alone.bias[0, 0], atol=1e-5)


def test_a_good_guess_saves_steps(cloud):
    rows, labels = cloud
    strengths = [4.0**power for power in range(-3, 7)]
    together = fit_probe(rows, labels, [np.arange(100)], strengths)
    alone = fit_probe(rows, labels, [np.arange(100)], strengths[-1:])
    assert together.iterations[0, -1] < alone.iterations[0, 0]


def test_a_search_that_rounding_has_stopped_ends(cloud):
    rows, labels = cloud
    probes = fit_probe(rows, labels, [np.arange(100)], [1.0], tolerance=1e-300, max_iterations=200)
    assert not probes.converged.any() and probes.iterations[0, 0] < 100


def test_the_order_of_strengths_is_kept(cloud):
    rows, labels = cloud
    mixed, rising = (fit_probe(rows, labels, [np.arange(60)], order) for order in ([5.0, 0.1, 80.0], [0.1, 5.0, 80.0]))
    assert torch.equal(mixed.weight[:, [1, 0, 2]], rising.weight)
    assert (mixed.iterations[:, [1, 0, 2]] == rising.iterations).all()


@pytest.mark.parametrize("scale", [True, False])
def test_rows_shared_by_all_splits_give_what_rows_of_each_split_give(cloud, scale, monkeypatch):
    rows, labels = cloud
    train = [np.arange(50), np.arange(20, 120), np.flatnonzero(labels != 1)[:40]]
    found = []
    for apart in (False, True):
        monkeypatch.setattr(logistic, "_apart", lambda *_, answer=apart: answer)
        found.append(fit_probe(rows, labels, train, [0.1, 10.0], scale=scale, tolerance=1e-10))
    shared, own = found
    assert torch.allclose(shared.weight, own.weight, atol=1e-6)
    assert torch.allclose(shared.bias, own.bias, atol=1e-6)
    assert torch.allclose(shared.scale, own.scale)


@pytest.mark.parametrize("nodes", [25, 600], ids=["fewer rows than columns", "more rows than columns"])
def test_float32_meets_the_tolerance_measured_in_float64(nodes):
    rows, labels = load_digits(return_X_y=True)
    train, strengths = np.random.default_rng(0).permutation(len(rows))[:nodes], [1 / 64, 1.0, 64.0, 4096.0]
    probes = fit_probe(rows.astype(np.float32), labels, [train], strengths)
    assert probes.weight.dtype == torch.float32
    for index, strength in enumerate(strengths):
        scale = probes.scale[0].double()
        weight = (probes.weight[0, index].double() * scale).requires_grad_()
        bias = probes.bias[0, index].double().requires_grad_()
        scaled = torch.as_tensor(rows[train]) / scale
        objective(scaled, torch.as_tensor(labels[train]), weight, bias, strength).backward()
        gradient = weight.grad - bias.grad[:, None] * scaled.mean(dim=0)  # rows are centred where it is measured
        assert gradient.norm() / nodes < 1.2e-5


def test_what_float32_has_not_fitted_is_fitted_in_float64(cloud):
    rows, labels = cloud
    given = {"embedding": rows.astype(np.float32), "labels": labels, "train": [np.arange(60)], "strengths": [1e3]}
    assert fit_probe(**given).weight.dtype == torch.float32
    assert fit_probe(**given, max_iterations=2).weight.dtype == torch.float64
    assert fit_probe(**given, tolerance=1e-9).weight.dtype == torch.float64
    assert fit_probe(**given, max_iterations=2, dtype=torch.float32).weight.dtype == torch.float32


def test_progress_rises_to_one(cloud):
    rows, labels = cloud
    shares: list[float] = []
    fit_probe(rows, labels, [np.arange(60)], [0.1, 1.0, 10.0, 100.0], progress=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]


def test_predictions_are_the_most_probable_classes(cloud, monkeypatch):
    rows, labels = cloud
    monkeypatch.setattr(logistic, "_BLOCK", 37)  # the last block is smaller
    probes = fit_probe(rows, labels, [np.arange(30), np.arange(40, 120)], [0.1, 1.0, 10.0])
    expected = np.stack([probes.probabilities(rows, split).argmax(axis=-1) for split in range(2)])
    assert np.array_equal(probes.predict(rows), expected)


def test_scaling_makes_predictions_independent_of_the_size_of_the_embedding(cloud):
    rows, labels = cloud
    train, strengths = [np.arange(60)], [0.01, 1.0]
    small, large = (fit_probe(rows * factor, labels, train, strengths) for factor in (1e-3, 1e3))
    assert small.probabilities(rows * 1e-3, 0) == pytest.approx(large.probabilities(rows * 1e3, 0), abs=1e-6)
    unscaled = fit_probe(rows * 1e-3, labels, train, strengths, scale=False)
    assert abs(unscaled.probabilities(rows * 1e-3, 0) - small.probabilities(rows * 1e-3, 0)).max() > 0.05


def test_scale_is_the_root_mean_square_norm_of_the_training_rows(cloud):
    rows, labels = cloud
    train = [np.arange(60), np.arange(20, 50)]
    expected = [np.sqrt((rows[nodes] ** 2).sum(axis=1).mean()) for nodes in train]
    assert fit_probe(rows, labels, train, [1.0]).scale.numpy() == pytest.approx(np.array(expected))


def test_an_embedding_of_zeros_gives_class_frequencies(cloud):
    _, labels = cloud
    train = np.flatnonzero((labels != 2) | (np.arange(150) < 30))
    probes = fit_probe(np.zeros((150, 4)), labels, [train], [1.0])
    frequencies = np.bincount(labels[train]) / len(train)
    assert probes.probabilities(np.zeros((1, 4)), 0)[0, 0] == pytest.approx(frequencies, abs=1e-5)


def test_stopping_early_is_reported(cloud):
    rows, labels = cloud
    probes = fit_probe(rows, labels, [np.arange(60)], [1e-6, 1e3], max_iterations=2)
    assert probes.converged.tolist() == [[True, False]]
    assert probes.iterations[0, 1] == 2


@pytest.mark.filterwarnings("error")
def test_read_only_arrays_are_taken_without_complaint(cloud):
    rows, labels = cloud
    rows.flags.writeable = labels.flags.writeable = False
    fit_probe(rows, labels, [np.arange(60)], [1.0]).predict(rows)


def test_labels_outside_the_training_rows_are_not_read(cloud):
    rows, labels = cloud
    hidden = labels.copy()
    hidden[60:] = -1
    first, second = (fit_probe(rows, known, [np.arange(60)], [1.0]) for known in (labels, hidden))
    assert torch.equal(first.weight, second.weight)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("tolerance", "allowed"), [(1e-10, 1e-5), (2e-6, 0.02)], ids=["float64", "float32"])
def test_the_gpu_gives_the_same_probes(cloud, tolerance, allowed):
    rows, labels = cloud
    train = [np.arange(60), np.arange(50, 120)]
    host, device = (
        fit_probe(rows, labels, train, [0.1, 100.0], tolerance=tolerance, device=place) for place in ("cpu", "cuda")
    )
    assert device.converged.all()
    assert torch.allclose(host.weight, device.weight.cpu(), atol=allowed)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_split_of_many_rows_is_fitted_to_the_tolerance_asked_for(size):
    generator = np.random.default_rng(0)
    labels, strength, tolerance = generator.integers(0, 3, 20_000), 4096.0, 1e-7
    rows = size * (generator.normal(size=(20_000, 3)) + 1.5 * np.eye(3)[labels])
    probes = fit_probe(rows, labels, [np.arange(20_000)], [strength], scale=False, tolerance=tolerance)
    found = [each[0, 0].clone().requires_grad_() for each in (probes.weight, probes.bias)]
    gradients = torch.autograd.grad(objective(torch.tensor(rows), torch.tensor(labels), *found, strength), found)
    # The tolerance is that of the mean objective: the sum over rows has a gradient 20,000 times as long.
    assert float(torch.cat([each.flatten() for each in gradients]).norm()) <= 1.1 * tolerance * len(rows)
