"""Moving one set of nodes onto another: entropic transport, and the proximal point method that GSC uses.

The function `wasserstein` of this package solves the same problem by BAPG; these two are its peers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.accelerate import kernels, serves
from fossil.transport.entry import Gradient, feature_problem, solved
from fossil.transport.iteration import Outcome, State, check_counts, check_positive, check_tolerance, iterate
from fossil.transport.launches import TILES
from fossil.transport.problem import FusedProblem
from fossil.transport.scaling import log_mass, log_support, rescale
from fossil.transport.solution import Solution

_KERNELS = "fossil.transport._proximal_kernel"


def sinkhorn(
    cost: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    regularization: float,
    iterations: int,
    tolerance: float | None = None,
    gradient: Gradient = "envelope",
) -> Solution:
    """Minimise `<M, P> + regularization * sum P (log P - 1)` over plans with the given masses, by Sinkhorn's iteration.

    An iteration scales the rows, then the columns, so at the end the columns are exact. The value is `<M, P>`, without
    the entropy: above the value of an optimal plan, and closer to it the smaller the regularization. In float32
    a regularization below a millionth of the costs is lost in rounding; plans stay finite, with exact columns.

    Args:
        cost: n×m or B×n×m costs (M).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu). Nodes of zero mass get exactly nothing.
        regularization: weight of the entropy, in units of the cost.
        iterations: the most iterations made.
        tolerance: stop a problem whose plan moves by no more than this in an iteration; None makes all iterations.
        gradient: how `value` is differentiated in the cost. `envelope` gives the plan itself, which at convergence is
            the gradient of the regularised minimum, not of `<M, P>`; `unrolled` gives that of `<M, P>`.

    Returns:
        The solution, without the batch dimension for a single cost.

    Raises:
        TransportError: a tensor is malformed.
        SettingError: an option is out of range.

    >>> import torch
    >>> solution = sinkhorn(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), regularization=0.1, iterations=20)
    >>> [[round(entry, 3) for entry in row] for row in solution.plan.tolist()]
    [[0.0, 0.5], [0.5, 0.0]]
    """
    check_positive(regularization=regularization)
    check_counts(iterations=iterations)
    check_tolerance(tolerance)

    def run(problem: FusedProblem) -> Outcome:
        log_kernel = problem.feature_cost / -regularization
        row_mass, column_mass = problem.source_mass.unsqueeze(2), problem.target_mass.unsqueeze(1)
        log_row_mass, log_column_mass = log_mass(row_mass), log_mass(column_mass)

        def sweep(state: State) -> State:
            # Potentials instead of the plan: rounding does not pile up over the iterations.
            _, log_columns = state
            log_rows = rescale(log_kernel + log_columns, row_mass, log_row_mass, dim=2).log_factor
            scaled = rescale(log_kernel + log_rows, column_mass, log_column_mass, dim=1)
            return scaled.plan, scaled.log_factor

        return iterate(sweep, (row_mass * column_mass, log_support(column_mass)), iterations, tolerance)

    problem = feature_problem(cost, source_mass, target_mass)
    solution = solved(problem, gradient, run, FusedProblem.objective)
    return solution.single() if cost.dim() == 2 else solution


def proximal_wasserstein(
    cost: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    step: float = 0.5,
    iterations: int = 40,
    tolerance: float | None = None,
    gradient: Gradient = "envelope",
) -> Solution:
    """Minimise `<M, P>` by the inexact proximal point method (IPOT), with one scaling per iteration.

    Converges to an optimal plan without regularization; in between, the columns are exact and the rows nearly so. GSC
    compares subgraphs with the default step and iterations, and with the unrolled gradient.

    Args:
        cost: n×m or B×n×m costs (M).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu). Nodes of zero mass get exactly nothing.
        step: weight of the distance from the previous plan (beta), in units of the cost.
        iterations: the most iterations made.
        tolerance: stop a problem whose plan moves by no more than this in an iteration; None makes all iterations.
        gradient: how `value` is differentiated in the cost: `envelope` holds the plan constant, `unrolled` goes through
            the iterations, `none` records nothing.

    Returns:
        The solution, without the batch dimension for a single cost.

    Raises:
        TransportError: a tensor is malformed.
        SettingError: an option is out of range.

    >>> import torch
    >>> solution = proximal_wasserstein(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> bool(solution.value < 1e-6), solution.plan.argmax(1).tolist()
    (True, [1, 0])
    """
    check_positive(step=step)
    check_counts(iterations=iterations)
    check_tolerance(tolerance)

    def run(problem: FusedProblem) -> Outcome:
        return proximal_point(
            problem.feature_cost, problem.source_mass, problem.target_mass, step, iterations, tolerance
        )

    problem = feature_problem(cost, source_mass, target_mass)
    solution = solved(problem, gradient, run, FusedProblem.objective)
    return solution.single() if cost.dim() == 2 else solution


def proximal_point(
    cost: Tensor, source_mass: Tensor, target_mass: Tensor, step: float, iterations: int, tolerance: float | None = None
) -> Outcome:
    """Run the iteration of `proximal_wasserstein` on B×n×m costs, B×n and B×m masses, without checks.

    The multiplicative form is `Q = exp(-M / step) * P`, `d = mu / Q s`, `s = nu / Qᵀ d`, `P = diag(d) Q diag(s)`, from
    plans and scalings of ones. Scaling the rows of `Q diag(s)`, then the columns, is the same.

    On a GPU small float32 problems are one launch, unless they have a tolerance or a gradient through the iterations.
    """
    if tolerance is None and _is_fused(cost, source_mass, target_mass):
        plan = kernels(_KERNELS).proximal_plan(cost, source_mass, target_mass, step, iterations)
        made = torch.full(cost.shape[:1], iterations, dtype=torch.int64, device=cost.device)
        return Outcome(plan, made, torch.zeros_like(made, dtype=torch.bool))
    log_kernel = cost / -step
    row_mass, column_mass = source_mass.unsqueeze(2), target_mass.unsqueeze(1)
    log_row_mass, log_column_mass = log_mass(row_mass), log_mass(column_mass)

    def advance(state: State) -> State:
        _, log_plan, log_columns = state
        rows = rescale(log_plan + log_kernel + log_columns, row_mass, log_row_mass, dim=2)
        columns = rescale(rows.log_plan, column_mass, log_column_mass, dim=1)
        return columns.plan, columns.log_plan, log_columns + columns.log_factor

    start = row_mass * column_mass, log_support(row_mass) + log_support(column_mass), log_support(column_mass)
    return iterate(advance, start, iterations, tolerance)


def _is_fused(cost: Tensor, source_mass: Tensor, target_mass: Tensor) -> bool:
    """Tell whether the kernel takes these tensors, which nobody may have checked. Never waits for the device."""
    tensors = cost, source_mass, target_mass
    if cost.dim() != 3 or 0 in cost.shape or max(cost.shape[1:]) > TILES[-1] or not serves(cost.device):
        return False
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    batch, n, m = cost.shape
    return all(
        tensor.shape == shape and tensor.dtype == torch.float32 and tensor.device == cost.device
        for tensor, shape in zip(tensors, ((batch, n, m), (batch, n), (batch, m)), strict=True)
    )
