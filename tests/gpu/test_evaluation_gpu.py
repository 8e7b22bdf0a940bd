"""The released probe on a GPU, where its steps are captured, against the same probe on the CPU."""

import numpy as np
import pytest
import torch

from fossil.evaluation.probes.adam import fit_adam_probe
from fossil.graph.splits import SplitRule

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


def test_the_captured_probe_sees_what_the_plain_one_sees() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(4, size=2000)
    embedding = (random.normal(size=(4, 24))[labels] + 2 * random.normal(size=(2000, 24))).astype(np.float32)
    splits = [SplitRule("released", 20).draw(labels, seed) for seed in range(3)]
    plain, captured = (
        fit_adam_probe(embedding, labels, splits, [0, 1, 2], device=device) for device in ("cpu", "cuda")
    )
    assert captured.steps == plain.steps
    assert (captured.predictions == plain.predictions).mean() > 0.999  # but for rounding at a tie
    for part in ("train", "validation", "test"):
        np.testing.assert_allclose(getattr(captured, part), getattr(plain, part), atol=5e-3)
    assert len({tuple(row) for row in captured.test.T}) > 5  # the looks are not all the same one
