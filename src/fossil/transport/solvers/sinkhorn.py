"""Entropic transport of features, by Sinkhorn's iteration."""

from __future__ import annotations

from dataclasses import dataclass

from fossil.ops.iteration import Outcome, State, iterate
from fossil.ops.scaling import log_mass, log_support, rescale
from fossil.transport.problem import FusedProblem
from fossil.transport.solvers.base import Solver, check_counts, check_positive, check_tolerance, refuse_structures


@dataclass(frozen=True, kw_only=True)
class Sinkhorn(Solver):
    """Minimise `<M, P> + regularization * sum P (log P - 1)` over plans with the given masses.

    An iteration scales the rows, then the columns, so at the end the columns are exact. The value is `<M, P>`, without
    the entropy: above the value of an optimal plan, and closer to it the smaller the regularization. In float32
    a regularization below a millionth of the costs is lost in rounding; plans stay finite, with exact columns.

    Attributes:
        regularization: weight of the entropy, in units of the cost.
        iterations: the most iterations made.
        tolerance: stop a problem whose plan moves by no more than this in an iteration; None makes all iterations.
        gradient: how `value` is differentiated in the cost. `envelope` gives the plan itself, which at convergence is
            the gradient of the regularised minimum, not of `<M, P>`; `unrolled` gives that of `<M, P>`.

    Raises:
        SettingError: a setting is out of range.

    >>> import torch
    >>> from fossil.transport import wasserstein
    >>> swapped = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> solution = wasserstein(swapped, solver=Sinkhorn(regularization=0.1, iterations=20))
    >>> [[round(entry, 3) for entry in row] for row in solution.plan.tolist()]
    [[0.0, 0.5], [0.5, 0.0]]
    """

    regularization: float
    iterations: int = 500
    tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(regularization=self.regularization)
        check_counts(iterations=self.iterations)
        check_tolerance(self.tolerance)

    def check_kind(self, problem: FusedProblem) -> None:
        """Raise TransportError where structures count."""
        refuse_structures("Sinkhorn", problem)

    def iterate(self, problem: FusedProblem) -> Outcome:
        """Find the plans."""
        log_kernel = problem.feature_cost / -self.regularization
        row_mass, column_mass = problem.source_mass.unsqueeze(2), problem.target_mass.unsqueeze(1)
        log_row_mass, log_column_mass = log_mass(row_mass), log_mass(column_mass)

        def sweep(state: State) -> State:
            # Potentials instead of the plan: rounding does not pile up over the iterations.
            _, log_columns = state
            log_rows = rescale(log_kernel + log_columns, row_mass, log_row_mass, dim=2).log_factor
            scaled = rescale(log_kernel + log_rows, column_mass, log_column_mass, dim=1)
            return scaled.plan, scaled.log_factor

        start = row_mass * column_mass, log_support(column_mass)
        return iterate(sweep, start, self.iterations, self.tolerance)
