"""Transport of features by proximal points, as GSC compares subgraphs."""

from __future__ import annotations

from dataclasses import dataclass

from fossil.ops.iteration import Outcome
from fossil.ops.proximal import proximal_point
from fossil.transport.problem import FusedProblem
from fossil.transport.solvers.base import Solver, check_counts, check_positive, check_tolerance, refuse_structures


@dataclass(frozen=True, kw_only=True)
class ProximalPoint(Solver):
    """Minimise `<M, P>` by the inexact proximal point method (IPOT), with one scaling per iteration.

    Converges to an optimal plan without regularization; in between, the columns are exact and the rows nearly so. GSC
    compares subgraphs with the default step and iterations, and with the unrolled gradient.

    Attributes:
        step: weight of the distance from the previous plan (beta), in units of the cost.
        iterations: the most iterations made.
        tolerance: stop a problem whose plan moves by no more than this in an iteration; None makes all iterations.
        gradient: see `Solver`.

    Raises:
        SettingError: a setting is out of range.

    >>> import torch
    >>> from fossil.transport import wasserstein
    >>> solution = wasserstein(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), solver=ProximalPoint())
    >>> bool(solution.value < 1e-6), solution.plan.argmax(1).tolist()
    (True, [1, 0])
    """

    step: float = 0.5
    iterations: int = 40
    tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(step=self.step)
        check_counts(iterations=self.iterations)
        check_tolerance(self.tolerance)

    def check_kind(self, problem: FusedProblem) -> None:
        """Raise TransportError where structures count."""
        refuse_structures("ProximalPoint", problem)

    def iterate(self, problem: FusedProblem) -> Outcome:
        """Find the plans."""
        masses = problem.source_mass, problem.target_mass
        return proximal_point(problem.feature_cost, *masses, self.step, self.iterations, self.tolerance)
