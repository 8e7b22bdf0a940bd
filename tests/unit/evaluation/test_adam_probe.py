"""The released probe against a plain training loop."""

import numpy as np
import pytest
import torch

from fossil.evaluation.probes.adam import fit_adam_probe
from fossil.graph.splits import Split, ratio_split
from fossil.seeding import torch_generator


@pytest.fixture
def cloud() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = np.arange(150) % 3
    return generator.normal(size=(150, 6)) + generator.normal(size=(3, 6))[labels], labels


def test_the_probe_equals_a_plain_training_loop(cloud):
    rows, labels = cloud
    splits, seeds = [ratio_split(labels, seed) for seed in (0, 1)], [5, 6]
    scores = fit_adam_probe(rows, labels, splits, seeds, dtype=torch.float64)
    assert scores.steps == tuple(range(20, 501, 20))
    assert scores.train.shape == scores.validation.shape == scores.test.shape == (2, 25)
    for row, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        layer = torch.nn.Linear(6, 3, dtype=torch.float64)
        torch.nn.init.xavier_uniform_(layer.weight, generator=torch_generator(seed, "probe"))
        torch.nn.init.zeros_(layer.bias)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
        x, y = torch.as_tensor(rows), torch.as_tensor(labels)
        for step in range(1, 501):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(x[split.train.copy()]), y[split.train.copy()]).backward()
            optimizer.step()
            if step % 20 == 0:
                right = (layer(x).argmax(dim=1) == y).numpy()
                look = step // 20 - 1
                assert scores.train[row, look] == pytest.approx(right[split.train].mean())
                assert scores.validation[row, look] == pytest.approx(right[split.validation].mean())
                assert scores.test[row, look] == pytest.approx(right[split.test].mean())


@pytest.mark.parametrize(("steps", "every", "looks"), [(3, 1, (1, 2, 3)), (7, 3, (3, 6)), (6, 3, (3, 6))])
def test_looks_are_every_few_steps_and_no_later_than_the_last(cloud, steps, every, looks):
    rows, labels = cloud
    probe = fit_adam_probe(rows, labels, [ratio_split(labels, 0)], [0], steps=steps, every=every)
    assert probe.steps == looks and probe.predictions.shape == (1, len(looks), 150)


def test_splits_of_differing_sizes_are_treated_alone(cloud):
    rows, labels = cloud
    short = Split(np.arange(20), np.arange(20, 80), np.arange(80, 150))
    long = Split(np.arange(70), np.arange(70, 80), np.arange(80, 150))
    together = fit_adam_probe(rows, labels, [short, long], [1, 2], steps=60, dtype=torch.float64)
    alone = fit_adam_probe(rows, labels, [short], [1], steps=60, dtype=torch.float64)
    assert np.array_equal(together.predictions[0], alone.predictions[0])


@pytest.mark.filterwarnings("error")
def test_read_only_arrays_are_taken_without_a_warning(cloud):
    rows, labels = cloud
    rows.flags.writeable = labels.flags.writeable = False
    fit_adam_probe(rows, labels, [ratio_split(labels, 0)], [0], steps=20)
