"""Gromov-Wasserstein as GSC computes it: linearise, solve a Wasserstein problem, repeat."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fossil.errors import TransportError
from fossil.ops.iteration import Outcome, all_made
from fossil.ops.proximal import proximal_point
from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution
from fossil.transport.solvers.base import Solver, check_counts, check_positive


@dataclass(frozen=True, kw_only=True)
class NestedGW(Solver):
    """Compare two structures by a few Wasserstein problems in a row, each solved by the proximal point method.

    With `L(g) = C1² mu 1ᵀ + 1 (C2² nu)ᵀ - 2 C1 g C2ᵀ`, each outer iteration replaces the plan g, at first the product
    of the masses, by one that is good for the cost `L(g)`. The structures are meant to be symmetric. Nodes of zero mass
    get exactly nothing.

    Attributes:
        outer: number of linearisations, reported as the iterations of the solution.
        inner: proximal iterations for each.
        step: step of the proximal iterations (beta), in units of the squared costs.
        gradient: how `value` is differentiated in the structures. `envelope` holds g constant, `unrolled` goes through
            all iterations, as GSC does, `none` records nothing.

    Raises:
        SettingError: a setting is out of range.

    >>> import torch
    >>> from fossil.transport import gromov_wasserstein
    >>> star = torch.ones(4, 4) - torch.eye(4)
    >>> star[1:, 1:] *= 2
    >>> gromov_wasserstein(star, star.flip(0, 1), solver=NestedGW()).plan[0].argmax().item()
    3
    """

    outer: int = 5
    inner: int = 20
    step: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(outer=self.outer, inner=self.inner)
        check_positive(step=self.step)

    def __call__(
        self,
        problem: FusedProblem,
        *,
        check: bool = True,
        squares: Tensor | None = None,
        evaluate_with: Tensor | None = None,
    ) -> Solution:
        """Solve B problems of structures alone.

        Args:
            problem: the problems.
            check: validate them first, which waits for the device.
            squares: `C1² mu 1ᵀ + 1 (C2² nu)ᵀ`, B×n×m, from whoever has it at hand.
            evaluate_with: B×n×m plan T for the value `<L(g), T>`; g itself when not given. GSC gives the plan of the
                Wasserstein problem between the features, so its value is no distance between the structures alone. A
                gradient reaches T, and what T was made from, unless T is detached.

        Raises:
            TransportError: a problem is malformed, features count in it, or a plan does not fit it.
        """
        if check:
            problem.check()
        self.check_kind(problem)
        weights = None if evaluate_with is None else _fitting("evaluate_with", evaluate_with, problem)
        squares = None if squares is None else _fitting("squares", squares, problem)

        def constant(problem: FusedProblem) -> Tensor:
            return _mean_squares(problem) if squares is None else squares

        def evaluate(problem: FusedProblem, plan: Tensor) -> Tensor:
            cost = constant(problem) - _crossed(problem, plan)
            return (cost * (plan if weights is None else weights)).sum((1, 2))

        return self.solved(problem, lambda problem: self._iterate(problem, constant(problem)), evaluate)

    def check_kind(self, problem: FusedProblem) -> None:
        """Raise TransportError where features count."""
        if problem.alpha != 0:
            raise TransportError(
                f"NestedGW compares structures alone, and this problem has alpha={problem.alpha:g}.",
                remedy="Build it with FusedProblem.of_structures, or use BAPG.",
            )

    def iterate(self, problem: FusedProblem) -> Outcome:
        """Find the plans."""
        return self._iterate(problem, _mean_squares(problem))

    def _iterate(self, problem: FusedProblem, constant: Tensor) -> Outcome:
        plan = problem.source_mass.unsqueeze(2) * problem.target_mass.unsqueeze(1)
        for _ in range(self.outer):
            cost = constant - _crossed(problem, plan)
            plan = proximal_point(cost, problem.source_mass, problem.target_mass, self.step, self.inner).plan
        return all_made(plan, self.outer)


def _mean_squares(problem: FusedProblem) -> Tensor:
    """Return the B×n×m part of the linearised cost that does not depend on the plan."""
    of_source = torch.bmm(problem.source_structure.square(), problem.source_mass.unsqueeze(2))
    of_target = torch.bmm(problem.target_structure.square(), problem.target_mass.unsqueeze(2))
    return of_source + of_target.mT


def _crossed(problem: FusedProblem, plan: Tensor) -> Tensor:
    return 2 * torch.bmm(torch.bmm(problem.source_structure, plan), problem.target_structure.mT)


def _fitting(name: str, given: Tensor, problem: FusedProblem) -> Tensor:
    """Return a tensor if it has a number for each pair of nodes of the problems; otherwise raise TransportError."""
    if not isinstance(given, Tensor):
        raise TransportError(f"{name} is a {type(given).__name__}.", remedy="Give a torch tensor.")
    expected = problem.feature_cost
    if given.shape != expected.shape or given.dtype != expected.dtype or given.device != expected.device:
        raise TransportError(
            f"{name} is {given.dtype} of shape {tuple(given.shape)} on {given.device}.",
            remedy=f"It must be {expected.dtype} of shape {tuple(expected.shape)} on {expected.device}.",
        )
    return given
