"""Logistic regression on an embedding, for many splits and strengths at once.

`fit_probe` minimises, for every split and every strength C,

    sum of cross-entropies over the training rows + ||W||² / (2 C)        (the bias is not penalised)

which is the objective of scikit-learn's `LogisticRegression(C=C)`; with two classes left, the penalty counts the
difference of the two weight rows, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fossil.evaluation.probes.lbfgs import Problems, minimise
from fossil.graph.graph import Array

_EXCLUDED = -1e30  # logit of a class without training rows; finite, because 0 · inf is not 0


@dataclass(frozen=True, eq=False)
class Probes:
    """Fitted probes of S splits and L strengths, in the units of the embedding they were fitted on.

    Attributes:
        weight: S×L×C×D.
        bias: S×L×C; -1e30 for a class without training rows in that split.
        scale: S numbers by which the embedding was divided before fitting (already undone in `weight`).
        iterations: S×L.
        converged: S×L, whether the gradient fell below the tolerance.
    """

    weight: Tensor
    bias: Tensor
    scale: Tensor
    iterations: Array
    converged: Array

    def probabilities(self, embedding: Array, split: int) -> Array:
        """Return L×N×C class probabilities under the probes of one split."""
        softmax: Array = self._logits(embedding, split).softmax(dim=-1).cpu().numpy()
        return softmax

    def predict(self, embedding: Array, split: int) -> Array:
        """Return L×N predicted classes under the probes of one split."""
        classes: Array = self._logits(embedding, split).argmax(dim=-1).cpu().numpy()
        return classes

    def _logits(self, embedding: Array, split: int) -> Tensor:
        rows = torch.tensor(embedding, dtype=self.weight.dtype, device=self.weight.device)
        return rows @ self.weight[split].mT + self.bias[split].unsqueeze(1)


def fit_probe(
    embedding: Array,
    labels: Array,
    train: Sequence[Array],
    strengths: Sequence[float],
    *,
    scale: bool = True,
    tolerance: float = 1e-5,
    max_iterations: int = 2000,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float64,
) -> Probes:
    """Fit multinomial logistic regression for every split and strength together.

    Args:
        embedding: N×D.
        labels: N class numbers; only those of training rows are read.
        train: the training positions of each of S splits; sizes may differ.
        strengths: L values of C, larger is a weaker penalty.
        scale: divide the embedding by the root mean square norm of the split's training rows first, so that a
            strength means the same for embeddings of any size.
        tolerance: bound on the error of a weight (exact for the penalised part of the objective).
        max_iterations: of each problem.
        device: where to compute.
        dtype: precision.

    Returns:
        Probes that apply to rows of `embedding` as they are.
    """
    matrix = torch.tensor(embedding, dtype=dtype, device=device)
    index, mask = padded_positions(train, matrix.device)
    weights = mask.to(dtype).unsqueeze(-1)
    rows = matrix[index]
    count = weights.sum(dim=1, keepdim=True)
    size = ((rows.square() * weights).sum(dim=(1, 2), keepdim=True) / count).sqrt()
    size = torch.where(size > 0, size, 1.0) if scale else torch.ones_like(size)
    rows = rows / size
    # The bias absorbs any shift, so centring changes nothing but the conditioning.
    centre = (rows * weights).sum(dim=1, keepdim=True) / count
    rows = (rows - centre) * weights
    basis = _principal_axes(rows)

    classes = torch.tensor(labels, dtype=torch.int64, device=device)[index]
    num_classes = int(classes[mask].max()) + 1
    targets = torch.nn.functional.one_hot(torch.where(mask, classes, 0), num_classes).to(dtype) * weights
    seen = targets.sum(dim=1, keepdim=True) > 0
    excluded = torch.where(seen, 0.0, _EXCLUDED).to(dtype)
    penalty = 1 / torch.as_tensor(strengths, dtype=dtype, device=device).expand(len(train), -1)
    penalty = torch.where(seen.sum(dim=-1) == 2, 2 * penalty, penalty)
    problems = Problems(torch.cat([rows @ basis, weights], dim=-1), targets, weights, excluded, penalty)
    solved, iterations, converged = minimise(problems, tolerance, max_iterations)

    weight = torch.einsum("sdr,srlc->slcd", basis, solved[:, :-1])
    bias = solved[:, -1] + excluded - torch.einsum("slcd,snd->slc", weight, centre)
    return Probes(weight / size.unsqueeze(-1), bias, size.flatten(), iterations.cpu().numpy(), converged.cpu().numpy())


def padded_positions(train: Sequence[Array], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return S×n positions and whether each is a real one, for splits that may differ in size."""
    longest = max(len(nodes) for nodes in train)
    index = np.zeros((len(train), longest), dtype=np.int64)
    mask = np.zeros((len(train), longest), dtype=bool)
    for row, nodes in enumerate(train):
        index[row, : len(nodes)] = nodes
        mask[row, : len(nodes)] = True
    return torch.as_tensor(index, device=device), torch.as_tensor(mask, device=device)


def _principal_axes(rows: Tensor) -> Tensor:
    """Return S×D×R orthonormal axes that hold every row, R at most n, along which the rows are uncorrelated.

    The penalty does not notice a rotation, and weights off these axes are zero at the optimum: the problem keeps
    its solution, shrinks when D > n, and the diagonal of its Hessian becomes a good picture of the whole.
    """
    _, count, width = rows.shape
    if count < width:
        span: Tensor = torch.linalg.qr(rows.mT)[0]
        return span @ _principal_axes(rows @ span)
    axes: Tensor = torch.linalg.eigh(rows.mT @ rows)[1]
    return axes
