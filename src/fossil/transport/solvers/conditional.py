"""Fused Gromov-Wasserstein by the conditional gradient, for one pair of large graphs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.ops.iteration import Outcome
from fossil.transport.linear import exact_plan
from fossil.transport.problem import FusedProblem
from fossil.transport.solvers.base import Solver, check_counts, check_tolerance


@dataclass(frozen=True, kw_only=True)
class ConditionalGradient(Solver):
    """Solve fused problems one at a time, by a few exact linear ones each (Frank-Wolfe; Vayer et al., 2019).

    An iteration finds the plan that is best for the gradient, and goes towards it as far as the objective falls. Plans
    meet both marginals to rounding and are sparse. Large problems take tens of iterations where BAPG takes hundreds;
    many small ones are better solved by BAPG, all at once. The linear problems are solved on the CPU, fast where both
    sides have as many nodes, all of one mass; other masses take tens of times longer, so that from a hundred nodes on
    `Feasible` is the better choice for them.

    Attributes:
        iterations: the most iterations made.
        tolerance: stop a problem whose value an iteration lowers by no more than this share of what it began with;
            None makes all iterations.
        gradient: `envelope` or `none`, see `Solver`; a linear problem cannot be unrolled.

    Raises:
        SettingError: a setting is out of range.

    >>> from fossil.transport import fused_gromov_wasserstein
    >>> path = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 2
    >>> solution = fused_gromov_wasserstein(1 - torch.eye(3), path, path, solver=ConditionalGradient())
    >>> abs(round(float(solution.value), 6)), solution.plan.argmax(1).tolist()
    (0.0, [0, 1, 2])
    """

    iterations: int = 1000
    tolerance: float | None = 1e-9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(iterations=self.iterations)
        check_tolerance(self.tolerance)
        if self.gradient == "unrolled":
            raise SettingError(
                "gradient='unrolled' is not accepted: a linear problem cannot be unrolled.",
                remedy="Use 'envelope' or 'none'.",
            )

    @torch.no_grad()
    def iterate(self, problem: FusedProblem) -> Outcome:
        """Find the plans, each from the product of its masses."""
        symmetric = problem.alpha == 1 or problem.is_symmetric()
        found = [self._descend(problem.part(each, each + 1), symmetric) for each in range(problem.batch)]
        plans, made, settled = zip(*found, strict=True) if found else ((), (), ())
        device = problem.feature_cost.device
        return Outcome(
            torch.stack(plans) if plans else torch.empty_like(problem.feature_cost),
            torch.tensor(made, dtype=torch.int64, device=device),
            torch.tensor(settled, dtype=torch.bool, device=device),
        )

    def _descend(self, problem: FusedProblem, symmetric: bool) -> tuple[Tensor, int, bool]:
        """Return the plan of one problem (n×m), the iterations made and whether it stood still."""
        masses = [mass[0].double().cpu().numpy() for mass in (problem.source_mass, problem.target_mass)]
        plan = problem.source_mass[0, :, None] * problem.target_mass[0]
        structures = _Structures.of(problem, symmetric)
        crossed = structures.crossed_by_masses(problem.source_mass[0], problem.target_mass[0])
        least = None if self.tolerance is None else self.tolerance * abs(float(problem.objective(plan[None])))
        for made in range(1, self.iterations + 1):
            # Minus the part of the gradient that is constant along rows or columns, which no plan can change.
            slope = problem.alpha * problem.feature_cost[0] - 4 * (1 - problem.alpha) * crossed
            best = torch.from_numpy(exact_plan(slope.double().cpu().numpy(), *masses)).to(plan)
            way, crossed_way = best - plan, structures.crossed_by_few(best) - crossed
            # Along the way the objective is linear t + bend t², exactly.
            linear = float((slope * way).sum())
            bend = -2 * (1 - problem.alpha) * float((crossed_way * way).sum())
            length = _best_length(linear, bend)
            plan, crossed = plan + length * way, crossed + length * crossed_way
            if least is not None and -(linear + bend * length) * length <= least:
                return plan, made, True
        return plan, self.iterations, False


def _best_length(linear: float, bend: float) -> float:
    """Return the t from 0 to 1 where linear t + bend t² is least."""
    if bend > 0:
        return min(1.0, max(0.0, -linear / (2 * bend)))
    return 1.0 if linear + bend < 0 else 0.0


@dataclass(frozen=True)
class _Structures:
    """What makes C1 P C2ᵀ of plans P: the pair (C1, C2), for directed structures half of it and of the transposed."""

    pairs: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, problem: FusedProblem, symmetric: bool) -> _Structures:
        if problem.alpha == 1:  # they do not count
            return cls(())
        source, target = problem.source_structure[0], problem.target_structure[0]
        return cls(((source, target),) if symmetric else ((source / 2, target), (source.T / 2, target.T)))

    def crossed_by_masses(self, source_mass: Tensor, target_mass: Tensor) -> Tensor:
        """Return it for the product of the masses."""
        crossed = source_mass.new_zeros(len(source_mass), len(target_mass))
        for source, target in self.pairs:
            crossed += torch.outer(source @ source_mass, target @ target_mass)
        return crossed

    def crossed_by_few(self, plan: Tensor) -> Tensor:
        """Return it for a plan of few entries, with one product of matrices instead of two."""
        rows, columns = plan.nonzero(as_tuple=True)
        crossed = torch.zeros_like(plan)
        for source, target in self.pairs:
            crossed.addmm_(source[:, rows] * plan[rows, columns], target[:, columns].T)
        return crossed
