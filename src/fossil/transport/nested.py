"""Gromov-Wasserstein as GSC computes it: linearise, solve a Wasserstein problem, repeat."""

from __future__ import annotations

import torch
from torch import Tensor

from fossil.errors import TransportError
from fossil.transport.entry import Gradient, solved, structure_problem
from fossil.transport.iteration import Outcome, check_counts, check_positive
from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution
from fossil.transport.wasserstein import proximal_point


def nested_gromov_wasserstein(
    source_structure: Tensor,
    target_structure: Tensor,
    source_mass: Tensor | None = None,
    target_mass: Tensor | None = None,
    *,
    outer: int = 5,
    inner: int = 20,
    step: float = 0.1,
    evaluate_with: Tensor | None = None,
    gradient: Gradient = "envelope",
) -> Solution:
    """Compare two structures by a few Wasserstein problems in a row, each solved by the proximal point method.

    With `L(g) = C1² mu 1ᵀ + 1 (C2² nu)ᵀ - 2 C1 g C2ᵀ`, each outer iteration replaces the plan g, at first the product
    of the masses, by one that is good for the cost `L(g)`. The structures are meant to be symmetric.

    Args:
        source_structure: n×n or B×n×n costs (C1).
        target_structure: m×m or B×m×m costs (C2).
        source_mass: n or B×n masses; uniform when not given (mu).
        target_mass: m or B×m masses; uniform when not given (nu). Nodes of zero mass get exactly nothing.
        outer: number of linearisations, reported as the iterations of the solution.
        inner: proximal iterations for each.
        step: step of the proximal iterations (beta), in units of the squared costs.
        evaluate_with: n×m or B×n×m plan T for the value `<L(g), T>`; g itself when not given. GSC gives the plan of the
            Wasserstein problem between the features, so its value is no distance between the structures alone. A
            gradient reaches T, and what T was made from, unless T is detached.
        gradient: how `value` is differentiated in the structures. `envelope` holds g constant, `unrolled` goes through
            all iterations, as GSC does, `none` records nothing.

    Returns:
        The solution with plan g, without the batch dimension for a single pair.

    Raises:
        TransportError: a tensor is malformed.
        SettingError: an option is out of range.

    >>> star = torch.ones(4, 4) - torch.eye(4)
    >>> star[1:, 1:] *= 2
    >>> nested_gromov_wasserstein(star, star.flip(0, 1)).plan[0].argmax().item()
    3
    """
    check_counts(outer=outer, inner=inner)
    check_positive(step=step)
    problem = structure_problem(source_structure, target_structure, source_mass, target_mass)
    single = source_structure.dim() == 2
    weights = None if evaluate_with is None else _checked_plan(evaluate_with, problem, single)

    def run(problem: FusedProblem) -> Outcome:
        constant = _constant(problem)
        plan = problem.source_mass.unsqueeze(2) * problem.target_mass.unsqueeze(1)
        for _ in range(outer):
            cost = constant - _crossed(problem, plan)
            plan = proximal_point(cost, problem.source_mass, problem.target_mass, step, inner).plan
        made = torch.full((problem.batch,), outer, dtype=torch.int64, device=plan.device)
        return Outcome(plan, made, torch.zeros_like(made, dtype=torch.bool))

    def evaluate(problem: FusedProblem, plan: Tensor) -> Tensor:
        cost = _constant(problem) - _crossed(problem, plan)
        return (cost * (plan if weights is None else weights)).sum((1, 2))

    solution = solved(problem, gradient, run, evaluate)
    return solution.single() if single else solution


def _constant(problem: FusedProblem) -> Tensor:
    """Return the B×n×m part of the linearised cost that does not depend on the plan."""
    of_source = torch.bmm(problem.source_structure.square(), problem.source_mass.unsqueeze(2))
    of_target = torch.bmm(problem.target_structure.square(), problem.target_mass.unsqueeze(2))
    return of_source + of_target.mT


def _crossed(problem: FusedProblem, plan: Tensor) -> Tensor:
    return 2 * torch.bmm(torch.bmm(problem.source_structure, plan), problem.target_structure.mT)


def _checked_plan(plan: Tensor, problem: FusedProblem, single: bool) -> Tensor:
    if not isinstance(plan, Tensor):
        raise TransportError(f"evaluate_with is a {type(plan).__name__}.", remedy="Give a torch tensor.")
    expected = problem.feature_cost
    shape = expected.shape[1:] if single else expected.shape
    if plan.shape != shape or plan.dtype != expected.dtype or plan.device != expected.device:
        raise TransportError(
            f"evaluate_with is {plan.dtype} of shape {tuple(plan.shape)} on {plan.device}.",
            remedy=f"It must be {expected.dtype} of shape {tuple(shape)} on {expected.device}.",
        )
    return plan[None] if single else plan
