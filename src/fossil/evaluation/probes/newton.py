"""Newton's method for many penalised multinomial logistic regressions together.

Each step solves with the Hessian by preconditioned conjugate gradients: an inner iteration is two matrix products and
no exponential. All problems advance together; each has its own step length and stops on its own. Logits are linear in
the weights, so a line search costs no matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fossil.progress import Progress

_FORCING = 0.25  # how well, at least, a step is solved for
_MOST_PRODUCTS = 300  # with the Hessian, in one step
_SUFFICIENT_DECREASE = 1e-4
_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Problems:
    """P problems of C classes; parameters are P×C×R, their last column is the bias.

    Attributes:
        rows: n×R for all problems, or P×n×R; the last column is one (all columns are zero in padding).
        targets: P×C×n, one-hot; zero where a problem does not train on a row.
        weights: P×1×n, one where a problem trains on a row and zero elsewhere.
        offset: P×C×1, added to the logits.
        penalty: P×1×R, zero for the bias.
    """

    rows: Tensor
    targets: Tensor
    weights: Tensor
    offset: Tensor
    penalty: Tensor

    def take(self, kept: Tensor) -> Problems:
        """Return some of the problems."""
        rows = self.rows if self.rows.ndim == 2 else self.rows[kept]
        return Problems(rows, *(part[kept] for part in (self.targets, self.weights, self.offset, self.penalty)))

    def linear(self, parameters: Tensor) -> Tensor:
        """Return what parameters add to the logits, P×C×n."""
        return parameters @ self.rows.mT

    def logits(self, parameters: Tensor) -> Tensor:
        """Return P×C×n."""
        return self.linear(parameters) + self.offset

    def value(self, parameters: Tensor, logits: Tensor) -> Tensor:
        """Return the objective of each problem."""
        # Per row first: the sums over all rows are large and nearly cancel where the penalty is weak.
        losses = (logits.logsumexp(dim=1) - (logits * self.targets).sum(dim=1)) * self.weights.squeeze(1)
        return losses.sum(dim=1) + (parameters.square() * self.penalty).sum(dim=(1, 2)) / 2

    def chances(self, logits: Tensor) -> Tensor:
        """Return the class probabilities of the rows that a problem trains on, zero elsewhere."""
        return logits.softmax(dim=1) * self.weights

    def gradient(self, parameters: Tensor, chances: Tensor) -> Tensor:
        """Return the gradient of the objective."""
        return (chances - self.targets) @ self.rows + self.penalty * parameters

    def bend(self, direction: Tensor, chances: Tensor) -> Tensor:
        """Return the product of the Hessian with a direction."""
        change = chances * self.linear(direction)
        change -= chances * change.sum(dim=1, keepdim=True)
        return torch.addcmul(change @ self.rows, self.penalty, direction)

    def diagonal(self, chances: Tensor) -> Tensor:
        """Return the diagonal of the Hessian."""
        data = (chances - chances.square()) @ self.rows.square()
        # The bias has no penalty, and no curvature where every row is certain.
        return (data + self.penalty).clamp(min=torch.finfo(data.dtype).eps)


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where P problems ended.

    Attributes:
        parameters: P×C×R.
        steps: P numbers of Newton steps.
        converged: P, whether the gradient met its target.
    """

    parameters: Tensor
    steps: Tensor
    converged: Tensor


def follow(
    problems: Problems, strengths: Sequence[float], target: Tensor, max_steps: int, progress: Progress
) -> list[Optimum]:
    """Minimise under the penalty divided by each strength, beginning where the optima so far point to.

    Weights grow about linearly in the logarithm of the strength, so the line through two optima nearly meets the next.
    An optimum does not depend on where the search for it began.

    Args:
        problems: with the penalty of strength 1.
        strengths: in rising order.
        target: P norms of the gradient to reach.
        max_steps: Newton steps of each problem and strength.
        progress: told after each strength.
    """
    num_problems, num_classes, _ = problems.targets.shape
    path, start = [], problems.rows.new_zeros(num_problems, num_classes, problems.rows.shape[-1])
    for index, strength in enumerate(strengths):
        now = replace(problems, penalty=problems.penalty / strength)
        path.append(minimise(now, start, target, max_steps))
        progress((index + 1) / len(strengths))
        start = path[-1].parameters
        if 0 < index < len(strengths) - 1:
            before, after = (math.log(strengths[index + i + 1] / strengths[index + i]) for i in (-1, 0))
            ahead = torch.lerp(path[-2].parameters, start, 1 + after / before)
            now = replace(problems, penalty=problems.penalty / strengths[index + 1])
            better = now.value(ahead, now.logits(ahead)) < now.value(start, now.logits(start))
            start = torch.where(_spread(better), ahead, start)
    return path


def minimise(problems: Problems, parameters: Tensor, target: Tensor, max_steps: int) -> Optimum:
    """Take Newton steps until each gradient is as short as its target; finished problems leave the batch."""
    steps = torch.zeros(len(target), dtype=torch.int64, device=target.device)
    found = Optimum(torch.empty_like(parameters), steps, torch.zeros_like(steps, dtype=torch.bool))
    logits = problems.logits(parameters)
    left, stuck = torch.arange(len(target), device=target.device), torch.zeros_like(found.converged)
    for step in range(max_steps + 1):
        chances = problems.chances(logits)
        gradient = problems.gradient(parameters, chances)
        reached = _norm(gradient) <= target
        leaving = reached | stuck | (step == max_steps)
        if leaving.any():
            ended = left[leaving]
            found.parameters[ended], found.converged[ended] = parameters[leaving], reached[leaving]
            found.steps[ended] = step
            kept = (~leaving).nonzero().flatten()
            if len(kept) == 0:
                break
            left, target, problems = left[kept], target[kept], problems.take(kept)
            parameters, logits, chances, gradient = (x[kept] for x in (parameters, logits, chances, gradient))
        direction = _newton_direction(problems, gradient, chances, target)
        change = problems.linear(direction)
        length = _line_search(problems, parameters, logits, direction, change, _dot(gradient, direction))
        stuck = length == 0
        parameters = torch.addcmul(parameters, _spread(length), direction)
        logits = torch.addcmul(logits, _spread(length), change)
    return found


def _newton_direction(problems: Problems, gradient: Tensor, chances: Tensor, target: Tensor) -> Tensor:
    """Solve Hessian · direction = -gradient by conjugate gradients, the better the closer the optimum is."""
    found, left = torch.zeros_like(gradient), torch.arange(len(gradient), device=gradient.device)
    inverse = 1 / problems.diagonal(chances)
    residual, direction = -gradient, torch.zeros_like(gradient)
    search = residual * inverse
    size = _dot(residual, search)
    enough = size * (size / problems.weights.sum(dim=(1, 2))).sqrt().clamp(max=_FORCING**2)
    for _ in range(_MOST_PRODUCTS):
        bent = problems.bend(search, chances)
        length = _spread(size / _dot(search, bent))
        direction.addcmul_(length, search)
        residual.addcmul_(length, bent, value=-1)
        preconditioned = residual * inverse
        previous, size = size, _dot(residual, preconditioned)
        # A residual below half the target leaves a gradient below the target: no need to know the step better.
        going = (size > enough) & (_norm(residual) > target / 2)
        if not going.all():
            found[left] = direction
            kept = going.nonzero().flatten()
            if len(kept) == 0:
                return found
            problems = problems.take(kept)
            left, target, enough, previous, size = (x[kept] for x in (left, target, enough, previous, size))
            direction, search, residual, preconditioned, inverse, chances = (
                x[kept] for x in (direction, search, residual, preconditioned, inverse, chances)
            )
        search = torch.addcmul(preconditioned, _spread(size / previous), search)
    found[left] = direction
    return found


def _line_search(
    problems: Problems, parameters: Tensor, logits: Tensor, direction: Tensor, change: Tensor, slope: Tensor
) -> Tensor:
    """Return the first of 1, ½, ¼, … that lowers each objective enough; 0 where rounding leaves no decrease."""
    start = problems.value(parameters, logits)
    slack = 10 * torch.finfo(start.dtype).eps * (start + problems.weights.sum(dim=(1, 2)))
    length, lower = torch.ones_like(start), slope < 0
    downhill = lower
    for _ in range(_HALVINGS):
        moved = (base + _spread(length) * step for base, step in ((parameters, direction), (logits, change)))
        lower = problems.value(*moved) <= start + _SUFFICIENT_DECREASE * length * slope + slack
        if (lower | ~downhill).all():
            break
        length = torch.where(lower, length, length / 2)
    return torch.where(lower & downhill, length, 0.0)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(1, 2))


def _norm(a: Tensor) -> Tensor:
    return a.square().sum(dim=(1, 2)).sqrt()


def _spread(a: Tensor) -> Tensor:
    return a[:, None, None]
