"""Properties of logistic regression that no other library is needed to fix."""

import numpy as np
import pytest
import torch

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
    probes = fit_probe(rows, labels, [train], [strength], scale=False)
    weight, bias = (part[0, 0].clone().requires_grad_() for part in (probes.weight, probes.bias))
    objective(torch.as_tensor(rows[train]), torch.as_tensor(labels[train]), weight, bias, strength).backward()
    assert weight.grad.abs().max() < 1e-4
    assert bias.grad.abs().max() < 1e-4


def test_problems_do_not_influence_each_other(cloud):
    rows, labels = cloud
    train = [np.arange(30), np.arange(40, 120)]
    together = fit_probe(rows, labels, train, [0.1, 1000.0])
    for split in range(2):
        for index, strength in enumerate([0.1, 1000.0]):
            alone = fit_probe(rows, labels, [train[split]], [strength])
            assert torch.allclose(together.weight[split, index], alone.weight[0, 0], atol=1e-4)


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
    fit_probe(rows, labels, [np.arange(60)], [1.0]).predict(rows, 0)


def test_labels_outside_the_training_rows_are_not_read(cloud):
    rows, labels = cloud
    hidden = labels.copy()
    hidden[60:] = -1
    first, second = (fit_probe(rows, known, [np.arange(60)], [1.0]) for known in (labels, hidden))
    assert torch.equal(first.weight, second.weight)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_gpu_gives_the_same_probes(cloud):
    rows, labels = cloud
    train = [np.arange(60), np.arange(50, 120)]
    host, device = (fit_probe(rows, labels, train, [0.1, 100.0], device=place) for place in ("cpu", "cuda"))
    assert torch.allclose(host.weight, device.weight.cpu(), atol=1e-5)
