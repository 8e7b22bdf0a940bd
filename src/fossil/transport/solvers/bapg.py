"""BAPG, the solver of the paper (Appendix A, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.errors import SettingError
from fossil.ops.bapg import Arithmetic, BapgRule, bapg, bapg_iterations
from fossil.ops.iteration import Outcome, all_made
from fossil.ops.objective import Marginals, check_marginals, envelope_value
from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution
from fossil.transport.solvers.base import Solver, check_counts, check_step, check_tolerance


@dataclass(frozen=True, kw_only=True)
class BAPG(Solver):
    """Bregman alternating projected gradient: one loop, plans that meet the columns exactly and the rows nearly.

    The default step suits costs between 0 and about 1; scale it with the costs. A larger step with more iterations
    comes closer to the prescribed masses, see `Solution.row_error`. With `check=False`, `tolerance=None` and
    `symmetric` given, a call never waits for the device, and small problems are one launch.

    Attributes:
        step: beta of Algorithm 1; small steps sharpen the plan and break the row marginals.
        iterations: the most iterations made.
        tolerance: stop a problem whose plan moves by no more than this in an iteration; None makes all iterations.
        constant_terms: keep the squared costs in the solver's gradient (the paper) or not (the released code).
        marginals: weights of the squared costs in the value, see `FusedProblem.objective`.
        symmetric: whether the structures are; None looks, which waits for the device.
        arithmetic: of products on a GPU, see `fossil.ops.bapg.BapgRule`.
        gradient: see `Solver`.

    Raises:
        SettingError: a setting is out of range.

    Warns:
        FossilWarning: the step is below 0.01.

    >>> import torch
    >>> from fossil.transport import FusedProblem
    >>> problem = FusedProblem.uniform(torch.eye(3)[None], torch.eye(3)[None], torch.eye(3)[None], alpha=0.5)
    >>> solution = BAPG(step=0.5, iterations=100)(problem)
    >>> solution.plan.shape, round(float(solution.plan.sum()), 5)
    (torch.Size([1, 3, 3]), 1.0)
    """

    step: float = 1.0
    iterations: int = 500
    tolerance: float | None = 1e-7
    constant_terms: bool = True
    marginals: Marginals = "actual"
    symmetric: bool | None = None
    arithmetic: Arithmetic = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_step(self.step)
        check_counts(iterations=self.iterations)
        check_tolerance(self.tolerance)
        check_marginals(self.marginals)
        if self.arithmetic not in ("float32", "ieee", "tf32"):
            raise SettingError(
                f"arithmetic={self.arithmetic!r} is not accepted.", remedy="Use 'float32', 'ieee' or 'tf32'."
            )

    def __call__(self, problem: FusedProblem, *, check: bool = True) -> Solution:
        """Solve B problems; see `Solver`."""
        if self.tolerance is not None or self.gradient == "unrolled":
            return super().__call__(problem, check=check)
        if check:
            problem.check()
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.gradient == "envelope"):
            plan, value, row_error, column_error = bapg(problem, self.rule(problem))
        _, made, settled = all_made(plan, self.iterations)
        return Solution(value, plan, made, row_error, column_error, settled)

    def rule(self, problem: FusedProblem) -> BapgRule:
        """Return the settings as the operation takes them; waits for the device where nobody said what is symmetric."""
        symmetric = problem.is_symmetric() if self.symmetric is None else self.symmetric
        return BapgRule(self.step, self.iterations, self.constant_terms, symmetric, self.marginals, self.arithmetic)

    def iterate(self, problem: FusedProblem) -> Outcome:
        """Find the plans."""
        return bapg_iterations(problem, self.rule(problem), self.tolerance)

    def evaluate(self, problem: FusedProblem, plan: Tensor) -> Tensor:
        """Return the B values of plans, by a closed form of the gradient unless it goes through the iterations."""
        if self.gradient == "unrolled":
            return problem.objective(plan, self.marginals)
        return envelope_value(problem, plan, self.marginals)
