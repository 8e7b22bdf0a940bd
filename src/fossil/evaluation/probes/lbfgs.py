"""L-BFGS for many penalised multinomial logistic regressions together.

All problems advance together; each has its own step length and stops on its own. Logits are linear in the weights,
so a line search costs no matrix product: an iteration has two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_MEMORY = 10  # gradient differences L-BFGS remembers
_SLOPE_REDUCTION = 0.1
_LINE_SEARCH_STEPS = 30


@dataclass(eq=False)
class Problems:
    """S×L problems; parameters are S×R×L×C with the bias as last of the R rows.

    Attributes:
        rows: S×n×R, the last column is one (all columns are zero in padding).
        targets: S×n×C, one-hot (zero in padding).
        weights: S×n×1, one for a row and zero for padding.
        excluded: S×1×C, added to the logits.
        penalty: S×L, 1/C.
    """

    rows: Tensor
    targets: Tensor
    weights: Tensor
    excluded: Tensor
    penalty: Tensor

    def take(self, splits: Tensor, strengths: Tensor) -> Problems:
        """Return the problems of some splits and some strengths."""
        penalty = self.penalty[splits][:, strengths]
        return Problems(self.rows[splits], self.targets[splits], self.weights[splits], self.excluded[splits], penalty)

    def logits(self, parameters: Tensor) -> Tensor:
        """Return S×n×L×C."""
        _, _, *problems = parameters.shape
        return (self.rows @ parameters.flatten(2)).reshape(*self.rows.shape[:2], *problems)

    def penalized(self, parameters: Tensor) -> Tensor:
        """Return the gradient of the penalty, which leaves the bias alone."""
        gradient = parameters * _spread(self.penalty)
        gradient[:, -1] = 0
        return gradient

    def gradient(self, parameters: Tensor, logits: Tensor) -> Tensor:
        """Return the gradient of the objective, S×R×L×C."""
        chances = (logits + self.excluded.unsqueeze(1)).softmax(dim=-1)
        residual = chances * self.weights.unsqueeze(-1) - self.targets.unsqueeze(2)
        return (self.rows.mT @ residual.flatten(2)).reshape(parameters.shape) + self.penalized(parameters)

    def curvature(self) -> Tensor:
        """Return a cheap diagonal of the Hessian for equally likely classes, S×R×L×1."""
        num_classes = self.targets.shape[-1]
        data = self.rows.square().sum(dim=1) * (num_classes - 1) / num_classes**2
        diagonal = data[:, :, None] + self.penalty[:, None, :]
        diagonal[:, -1] = data[:, -1:]
        return diagonal.unsqueeze(-1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.einsum("srlc,srlc->sl", a, b)


def _spread(a: Tensor) -> Tensor:
    return a[:, None, :, None]


def minimise(problems: Problems, tolerance: float, max_iterations: int) -> tuple[Tensor, Tensor, Tensor]:
    """Run L-BFGS on all problems until each has met its tolerance; finished ones leave the batch.

    Returns:
        Parameters S×R×L×C, iterations S×L and whether each converged, S×L.
    """
    (num_splits, _, width), (_, _, num_classes) = problems.rows.shape, problems.targets.shape
    num_strengths = problems.penalty.shape[1]
    x = problems.rows.new_zeros(num_splits, width, num_strengths, num_classes)
    solved, logits = x.clone(), problems.logits(x)
    iterations = torch.zeros(num_splits, num_strengths, dtype=torch.int64, device=x.device)
    converged = torch.zeros_like(iterations, dtype=torch.bool)
    splits, strengths = (torch.arange(size, device=x.device) for size in iterations.shape)
    stuck = torch.zeros_like(converged)

    gradient = problems.gradient(x, logits)
    rounding = 100 * torch.finfo(x.dtype).eps * _dot(gradient, gradient).sqrt()
    inverse_diagonal = 1 / problems.curvature()
    memory: list[tuple[Tensor, Tensor, Tensor]] = []
    for iteration in range(max_iterations + 1):
        # The objective is 1/C-strongly convex in the weights: this bounds their distance to the optimum.
        target = torch.maximum(tolerance * problems.penalty.clamp(max=1.0), rounding)
        small = _dot(gradient, gradient).sqrt() <= target
        going = ~(small | stuck)
        grid = splits[:, None], strengths
        solved[grid[0], :, grid[1]] = x.permute(0, 2, 1, 3)
        converged[grid] = small
        rows, columns = going.any(dim=1), going.any(dim=0)
        if iteration == max_iterations or not rows.any():
            break
        iterations[grid] += going
        if not (rows.all() and columns.all()):
            kept, kept_strengths = rows.nonzero().flatten(), columns.nonzero().flatten()
            splits, strengths = splits[kept], strengths[kept_strengths]
            problems = problems.take(kept, kept_strengths)
            x, logits, gradient, inverse_diagonal = (
                part[kept][:, :, kept_strengths] for part in (x, logits, gradient, inverse_diagonal)
            )
            stuck, going, rounding = (part[kept][:, kept_strengths] for part in (stuck, going, rounding))
            memory = [
                (s[kept][:, :, kept_strengths], y[kept][:, :, kept_strengths], inverse[kept][:, kept_strengths])
                for s, y, inverse in memory
            ]
        direction = -_apply_inverse_hessian(gradient, inverse_diagonal, memory)
        change = problems.logits(direction)
        step = _line_search(problems, x, logits, direction, change, gradient) * going
        stuck = stuck | (going & (step == 0))
        move = direction * _spread(step)
        x, logits = x + move, logits + change * _spread(step)
        previous, gradient = gradient, problems.gradient(x, logits)
        difference = gradient - previous
        product = _dot(move, difference)
        memory.append((move, difference, torch.where(product > torch.finfo(x.dtype).tiny, 1 / product, 0.0)))
        memory = memory[-_MEMORY:]
    return solved, iterations, converged


def _apply_inverse_hessian(
    gradient: Tensor, inverse_diagonal: Tensor, memory: Sequence[tuple[Tensor, Tensor, Tensor]]
) -> Tensor:
    """Multiply by the L-BFGS estimate of the inverse Hessian; a pair with inverse product 0 has no effect."""
    result, weights = gradient, []
    for move, difference, inverse in reversed(memory):
        weights.append(inverse * _dot(move, result))
        result = result - difference * _spread(weights[-1])
    result = result * inverse_diagonal
    if memory:
        _, difference, inverse = memory[-1]
        curvature = inverse * _dot(difference, difference * inverse_diagonal)
        result = result / _spread(torch.where(curvature > 0, curvature, 1.0))
    for (move, difference, inverse), weight in zip(memory, reversed(weights), strict=True):
        result = result + move * _spread(weight - inverse * _dot(difference, result))
    return result


def _line_search(
    problems: Problems, x: Tensor, logits: Tensor, direction: Tensor, change: Tensor, gradient: Tensor
) -> Tensor:
    """Return S×L step lengths that bring the slope to a tenth, by safeguarded Newton steps on a convex function.

    A step of 0 means that rounding leaves no decrease to be found along that direction.
    """
    pulled = problems.penalized(direction)
    half_square, cross = _dot(direction, pulled) / 2, _dot(x, pulled)
    towards_targets = torch.einsum("snlc,snc->sl", change, problems.targets)
    weights, excluded = problems.weights, problems.excluded.unsqueeze(1)

    def along(step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return change of the objective (up to a constant), slope and curvature at each step."""
        moved = logits + change * _spread(step) + excluded
        level = moved.logsumexp(dim=-1)
        chances = (moved - level.unsqueeze(-1)).exp()
        drift = (chances * change).sum(dim=-1)
        spread = (chances * change.square()).sum(dim=-1) - drift.square()
        value = (level * weights).sum(dim=1) - step * towards_targets + step * (cross + step * half_square)
        slope = (drift * weights).sum(dim=1) - towards_targets + cross + 2 * step * half_square
        return value, slope, (spread * weights).sum(dim=1) + 2 * half_square

    start, _, _ = along(torch.zeros_like(cross))
    initial_slope = _dot(gradient, direction)
    slack = 100 * torch.finfo(x.dtype).eps * start.abs()
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    accepted = initial_slope >= 0
    step = torch.where(accepted, 0.0, torch.ones_like(start))
    for _ in range(_LINE_SEARCH_STEPS):
        value, slope, curvature = along(step)
        lower = value <= start + slack
        accepted = accepted | (lower & (slope.abs() <= _SLOPE_REDUCTION * initial_slope.abs()))
        if accepted.all():
            return step
        beyond = (slope > 0) | ~lower
        high, low = torch.where(beyond, step, high), torch.where(beyond, low, step)
        newton = step - slope / curvature.clamp(min=torch.finfo(x.dtype).tiny)
        fallback = torch.where(high.isinf(), 4 * step, (low + high) / 2)
        inside = (newton > low) & (newton < torch.minimum(high, 10 * step))
        step = torch.where(accepted, step, torch.where(inside, newton, fallback))
    return torch.where(accepted, step, low)
