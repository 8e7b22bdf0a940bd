"""Logistic regression on an embedding, for many splits and strengths at once.

`fit_probe` minimises, for every split and every strength C,

    sum of cross-entropies over the training rows + ||W||² / (2 C)        (the bias is not penalised)

which is the objective of scikit-learn's `LogisticRegression(C=C)`; with two classes left, the penalty counts the
difference of the two weight rows, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fossil.evaluation.probes.newton import Problems, follow
from fossil.graph.graph import Array
from fossil.ops.eigen import eigh
from fossil.ops.precision import full_float32
from fossil.progress import Progress, silent

_EXCLUDED = -1e30  # logit of a class without training rows; finite, because 0 · inf is not 0
_BLOCK = 4096  # nodes predicted at once
_FINEST_OF_FLOAT32 = 1e-6  # tolerance below which rounding decides


@dataclass(frozen=True, eq=False)
class Probes:
    """Fitted probes of S splits and L strengths, in the units of the embedding they were fitted on.

    Attributes:
        weight: S×L×C×D.
        bias: S×L×C; -1e30 for a class without training rows in that split.
        scale: S numbers by which the embedding was divided before fitting (already undone in `weight`).
        iterations: S×L Newton steps.
        converged: S×L, whether the gradient fell below the tolerance.
    """

    weight: Tensor
    bias: Tensor
    scale: Tensor
    iterations: Array
    converged: Array

    def probabilities(self, embedding: Array, split: int) -> Array:
        """Return L×N×C class probabilities under the probes of one split."""
        rows = torch.tensor(embedding, dtype=self.weight.dtype, device=self.weight.device)
        logits = rows @ self.weight[split].mT + self.bias[split].unsqueeze(1)
        softmax: Array = logits.softmax(dim=-1).cpu().numpy()
        return softmax

    def predict(self, embedding: Array) -> Array:
        """Return S×L×N predicted classes."""
        rows = torch.tensor(embedding, dtype=self.weight.dtype, device=self.weight.device)
        weight, bias = self.weight.flatten(0, 2).T, self.bias.flatten()
        with full_float32():
            # One product for all splits and strengths; blocks, because logits of all nodes would take much memory.
            blocks = [
                torch.addmm(bias, block, weight).view(len(block), *self.bias.shape).argmax(dim=-1).int()
                for block in rows.split(_BLOCK)
            ]
        classes: Array = torch.cat(blocks).permute(1, 2, 0).contiguous().cpu().numpy()
        return classes


def fit_probe(
    embedding: Array,
    labels: Array,
    train: Sequence[Array],
    strengths: Sequence[float],
    *,
    scale: bool = True,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    progress: Progress = silent,
) -> Probes:
    """Fit multinomial logistic regression for every split and strength together.

    Args:
        embedding: N×D.
        labels: N class numbers; only those of training rows are read.
        train: the training positions of each of S splits; sizes may differ.
        strengths: L values of C, larger is a weaker penalty.
        scale: divide the embedding by the root mean square norm of the split's training rows first, so that a
            strength means the same for embeddings of any size.
        tolerance: length of the gradient at which a fit ends, that of the objective divided by the number of training
            rows. scikit-learn stops when no entry of it is above 1e-4.
        max_iterations: Newton steps of each problem.
        device: where to compute.
        dtype: precision; by default float32, and float64 where that cannot reach the tolerance.
        progress: told which share of the strengths is done.

    Returns:
        Probes that apply to rows of `embedding` as they are.
    """
    fit = partial(_fit, embedding, labels, train, strengths, scale, tolerance, max_iterations, torch.device(device))
    with full_float32():
        probes = fit(dtype or (torch.float32 if tolerance > _FINEST_OF_FLOAT32 else torch.float64), progress)
        return probes if dtype or probes.converged.all() else fit(torch.float64, silent)


def _fit(
    embedding: Array,
    labels: Array,
    train: Sequence[Array],
    strengths: Sequence[float],
    scale: bool,
    tolerance: float,
    max_iterations: int,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress,
) -> Probes:
    matrix = torch.tensor(embedding, device=device)
    matrix = matrix.to(torch.promote_types(matrix.dtype, dtype))
    index, mask = (padded_positions if _apart(train, matrix.shape[1]) else shared_positions)(train, device)
    counts, present = mask.sum(dim=1), torch.ones_like(index)[:, None] if index.ndim == 1 else mask[:, :, None]
    rows = matrix[index] * present
    norms = ((rows.square().sum(dim=-1) * mask).sum(dim=1) / counts).sqrt()
    norms = torch.where(norms > 0, norms, 1.0) if scale else torch.ones_like(norms)
    frame = _frame(rows, present)

    classes = torch.tensor(labels, dtype=torch.int64, device=device)[index].expand(mask.shape)
    num_classes = int(classes[mask].max()) + 1
    weights = mask.to(dtype).unsqueeze(1)
    targets = torch.nn.functional.one_hot(torch.where(mask, classes, 0), num_classes).mT.contiguous() * weights
    seen = targets.sum(dim=2, keepdim=True) > 0
    excluded = torch.where(seen, 0.0, _EXCLUDED).to(dtype)
    # Rows are in the unit of the frame; the penalty is meant for rows divided by the norm of their split.
    ratio = norms / frame.unit.flatten()
    penalty = torch.where(seen.sum(dim=(1, 2)) == 2, 2.0, 1.0) * ratio.square()
    penalties = torch.zeros(len(train), 1, frame.rows.shape[-1] + 1, dtype=dtype, device=device)
    penalties[..., :-1] = penalty[:, None, None]
    framed = torch.cat([frame.rows, present], dim=-1).to(dtype)
    problems = Problems(framed, targets, weights, excluded, penalties)
    target = (tolerance * counts * ratio.clamp(max=1)).to(dtype)  # the gradient of the bias has no unit
    rising = sorted(strengths)
    path = follow(problems, rising, target, max_iterations, progress)

    optima = [path[rising.index(strength)] for strength in strengths]
    solved = torch.stack([optimum.parameters for optimum in optima], dim=1).to(matrix.dtype)  # S×L×C×R
    weight, bias = (part.unflatten(1, solved.shape[1:3]) for part in frame.leave(solved.flatten(1, 2)))
    # What all classes have in common changes no probability, and is wherever the search left it.
    bias = bias.squeeze(3) - ((bias.squeeze(3) * seen.mT).sum(dim=2) / seen.sum(dim=1)).unsqueeze(2)
    steps, converged = (
        torch.stack([getattr(optimum, name) for optimum in optima], dim=1).cpu().numpy()
        for name in ("steps", "converged")
    )
    return Probes(weight, bias + excluded.mT, norms, steps, converged)


@dataclass(frozen=True, eq=False)
class _Frame:
    """Coordinates in which a fit is well conditioned: centred, in one unit, along uncorrelated axes.

    The bias absorbs any shift, and the penalty does not notice a rotation: a fit keeps its solution. Weights off the
    span of the rows are zero at the optimum, so that no more axes are needed than there are rows. Axes are span · turn,
    a product that is never made: it would cost as much as the rest where there are many columns.

    Attributes:
        centre: …×1×D.
        unit: …×1×1.
        span: …×D×R, orthonormal, holds every row; None where that is every direction (R = D).
        turn: …×R×R, orthonormal.
        rows: …×n×R, the rows in these coordinates, of which no two columns are correlated; zero where none is present.
    """

    centre: Tensor
    unit: Tensor
    span: Tensor | None
    turn: Tensor
    rows: Tensor

    def leave(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights (S×P×D) and biases (S×P×1) for rows as they are, of parameters whose last one is the bias."""
        turned = parameters[..., :-1] @ self.turn.mT
        weight = (turned if self.span is None else turned @ self.span.mT) / self.unit
        return weight, parameters[..., -1:] - weight @ self.centre.mT


def _frame(rows: Tensor, present: Tensor) -> _Frame:
    """Return the coordinates of rows (…×n×D), along which the diagonal of a Hessian is a good picture of the whole."""
    number = present.sum(dim=-2, keepdim=True)
    unit = (rows.square().sum(dim=(-2, -1), keepdim=True) / number).sqrt()
    unit = torch.where(unit > 0, unit, 1.0)
    centre = rows.sum(dim=-2, keepdim=True) / number
    inside, span = (rows - centre) * present / unit, None
    if inside.shape[-2] < inside.shape[-1]:
        span, triangle = torch.linalg.qr(inside.mT)
        inside = triangle.mT
    turn = eigh(inside.mT @ inside)[1]
    return _Frame(centre, unit, span, turn, inside @ turn)


def numbers_in_rows(train: Sequence[Array], width: int) -> tuple[int, int | None]:
    """Return how many numbers rows take, turned and squared too: those of one split, and those that all splits share.

    The second is None where each split has rows of its own.

    Args:
        train: the training positions of each split.
        width: D.
    """
    of_one, of_all = max(len(nodes) for nodes in train), len(np.unique(np.concatenate(train)))
    return 3 * of_one * width, None if _apart(train, width) else 3 * of_all * width


def _apart(train: Sequence[Array], width: int) -> bool:
    """Tell whether each split should have rows of its own, not all of them the same with some left out.

    A product of all splits with the same rows reads them once, and is about three times as fast for its size.
    """
    rows = max(len(nodes) for nodes in train)
    union = len(np.unique(np.concatenate(train)))
    return union * min(union, width) > 3 * rows * min(rows, width)


def shared_positions(train: Sequence[Array], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the n positions that any split has, and S×n whether each split has them."""
    union = np.unique(np.concatenate(train))
    mask = np.stack([np.isin(union, nodes) for nodes in train])
    return torch.as_tensor(union, device=device), torch.as_tensor(mask, device=device)


def padded_positions(train: Sequence[Array], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return S×n positions and whether each is a real one, for splits that may differ in size."""
    longest = max(len(nodes) for nodes in train)
    index = np.zeros((len(train), longest), dtype=np.int64)
    mask = np.zeros((len(train), longest), dtype=bool)
    for row, nodes in enumerate(train):
        index[row, : len(nodes)] = nodes
        mask[row, : len(nodes)] = True
    return torch.as_tensor(index, device=device), torch.as_tensor(mask, device=device)
