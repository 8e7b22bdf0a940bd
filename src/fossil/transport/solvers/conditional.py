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
    >>> round(float(solution.value), 6), solution.plan.argmax(1).tolist()
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
        crossed, least = _crossed(problem, plan, symmetric), None
        if self.tolerance is not None:
            least = self.tolerance * abs(float(problem.objective(plan[None])))
        for made in range(1, self.iterations + 1):
            # Minus the part of the gradient that is constant along rows or columns, which no plan can change.
            slope = problem.alpha * problem.feature_cost[0] - 4 * (1 - problem.alpha) * crossed
            best = torch.from_numpy(exact_plan(slope.double().cpu().numpy(), *masses)).to(plan)
            way = best - plan
            crossed_way = _crossed(problem, way, symmetric)
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


def _crossed(problem: FusedProblem, plan: Tensor, symmetric: bool) -> Tensor:
    """Return C1 P C2ᵀ, averaged with C1ᵀ P C2 where the structures are directed; nothing where they do not count."""
    if problem.alpha == 1:
        return torch.zeros_like(plan)
    source, target = problem.source_structure[0], problem.target_structure[0]
    there = source @ plan @ target.T
    return there if symmetric else (there + source.T @ plan @ target) / 2
