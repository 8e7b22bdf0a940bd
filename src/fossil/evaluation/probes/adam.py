"""The probe of the released code: a linear layer trained by Adam and looked at every few steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fossil.evaluation.probes.logistic import padded_positions
from fossil.graph.graph import Array
from fossil.graph.splits import Split
from fossil.progress import Progress, silent
from fossil.seeding import torch_generator
from fossil.training.capture import Captured


@dataclass(frozen=True, eq=False)
class AdamProbe:
    """The released probe, looked at K times during training, for S splits.

    Attributes:
        steps: K numbers of training steps.
        train: S×K accuracies.
        validation: S×K accuracies.
        test: S×K accuracies.
        predictions: S×K×N predicted classes.
    """

    steps: tuple[int, ...]
    train: Array
    validation: Array
    test: Array
    predictions: Array


def fit_adam_probe(
    embedding: Array,
    labels: Array,
    splits: Sequence[Split],
    seeds: Sequence[int],
    *,
    steps: int = 500,
    every: int = 20,
    learning_rate: float = 0.01,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    progress: Progress = silent,
) -> AdamProbe:
    """Train the authors' probe for every split together and look at it every few steps.

    A linear layer (Xavier-uniform weights, zero bias) under softmax, trained with Adam without weight decay on
    the whole training part, on the embedding as it is.

    Args:
        embedding: N×D.
        labels: N class numbers, -1 where unknown.
        splits: S splits.
        seeds: S seeds of the initial weights.
        steps: full-batch steps.
        every: steps between two looks.
        learning_rate: of Adam.
        device: where to compute.
        dtype: precision.
        progress: told which share of the looks is done.
    """
    device = torch.device(device)
    matrix = torch.tensor(embedding, dtype=dtype, device=device)
    index, mask = padded_positions([split.train for split in splits], device)
    rows, known = matrix[index], torch.tensor(labels, dtype=torch.int64, device=device)
    targets, sizes = torch.where(mask, known[index], -1), mask.sum(dim=1)
    num_classes, width = int(labels.max()) + 1, matrix.shape[1]
    bound = (6 / (width + num_classes)) ** 0.5
    # Drawn on the host so that every device starts from the same weights.
    draws = [torch.rand(num_classes, width, generator=torch_generator(seed, "probe"), dtype=dtype) for seed in seeds]
    weight = ((2 * torch.stack(draws) - 1) * bound).to(device).requires_grad_()
    bias = torch.zeros(len(splits), 1, num_classes, dtype=dtype, device=device, requires_grad=True)
    capturable = device.type == "cuda"
    optimizer = torch.optim.Adam([weight, bias], lr=learning_rate, fused=True, capturable=capturable)

    def train_and_look() -> Tensor:
        for _ in range(every):
            optimizer.zero_grad()
            losses = torch.nn.functional.cross_entropy(
                (rows @ weight.mT + bias).mT, targets, ignore_index=-1, reduction="none"
            )
            # A sum of means: each split sees only its own gradient, as if it were trained alone.
            torch.autograd.backward((losses.sum(dim=1) / sizes).sum())
            optimizer.step()
        with torch.no_grad():
            # One product for all splits, and no waiting: what was seen is fetched at the end.
            scores = (matrix @ weight.flatten(0, 1).T).view(len(matrix), len(splits), num_classes)
            classes: Tensor = (scores + bias.mT.squeeze(2)).argmax(dim=-1)
            return classes.to(torch.int16)

    looks = tuple(range(every, steps + 1, every))
    again = Captured(train_and_look, device, warm_up=1)
    views = []
    for look in looks:
        views.append(again().clone())
        progress(look / looks[-1])
    seen = torch.stack(views).permute(2, 0, 1)  # S×K×N
    right = (seen == known).to(dtype)
    train, validation, test = (
        _accuracies(right, [getattr(split, part) for split in splits]) for part in ("train", "validation", "test")
    )
    return AdamProbe(looks, train, validation, test, seen.cpu().numpy())


def _accuracies(right: Tensor, positions: Sequence[Array]) -> Array:
    """Return how much of each split's positions is right: S×K.

    Args:
        right: S×K×N ones and zeros.
        positions: S sets of rows.
    """
    chosen = right.new_zeros(len(positions), right.shape[2])
    for row, nodes in zip(chosen, positions, strict=True):
        row[torch.tensor(nodes, device=right.device)] = 1
    counts = torch.einsum("skn,sn->sk", right, chosen).cpu().double().numpy()
    shares: Array = counts / np.array([[len(nodes)] for nodes in positions])
    return shares
