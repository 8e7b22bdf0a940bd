"""What every solver does around its iteration: check its settings, record the gradient asked for, report."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from fossil.errors import SettingError, TransportError, warn_the_caller
from fossil.ops.bapg import marginal_errors
from fossil.ops.iteration import Outcome
from fossil.ops.precision import full_float32
from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution

Gradient: TypeAlias = Literal["envelope", "unrolled", "none"]

SMALLEST_STEADY_STEP = 0.01
"""Below this step iterations of the fused problem often cycle, and float32 and float64 part company."""


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A way to solve batches of transport problems.

    Attributes:
        gradient: how `Solution.value` is differentiated in the costs. `envelope` holds the plan constant: exact at a
            minimiser, always finite, cheap beside the forward pass. `unrolled` goes through all iterations: exact for
            the truncated algorithm, slow, and explosive at small steps. `none` records nothing. Masses get no gradient.

    Raises:
        SettingError: a setting is out of range.
    """

    gradient: Gradient = "envelope"

    def __post_init__(self) -> None:
        if self.gradient not in ("envelope", "unrolled", "none"):
            raise SettingError(
                f"gradient={self.gradient!r} is not accepted.", remedy="Use 'envelope', 'unrolled' or 'none'."
            )

    def __call__(self, problem: FusedProblem, *, check: bool = True) -> Solution:
        """Solve B problems.

        Args:
            problem: the problems.
            check: validate them first, which waits for the device.

        Raises:
            TransportError: a problem is malformed, or not of the kind that this solver is for.
        """
        if check:
            problem.check()
        self.check_kind(problem)
        return self.solved(problem, self.iterate, self.evaluate)

    def solved(
        self,
        problem: FusedProblem,
        iterate: Callable[[FusedProblem], Outcome],
        evaluate: Callable[[FusedProblem, Tensor], Tensor],
    ) -> Solution:
        """Find plans by one function and values by another, with the gradient asked for."""
        recording = torch.is_grad_enabled()
        problem = problem.with_constant_masses()
        with full_float32():
            with torch.set_grad_enabled(recording and self.gradient == "unrolled"):
                outcome = iterate(problem)
            with torch.set_grad_enabled(recording and self.gradient != "none"):
                value = evaluate(problem, outcome.plan)
        errors = marginal_errors(problem, outcome.plan.detach())
        return Solution(value, outcome.plan, outcome.iterations, *errors, outcome.settled)

    def check_kind(self, problem: FusedProblem) -> None:  # noqa: B027
        """Raise TransportError where this solver is not for such problems; it is for all, unless it says otherwise."""

    @abstractmethod
    def iterate(self, problem: FusedProblem) -> Outcome:
        """Find the plans."""

    def evaluate(self, problem: FusedProblem, plan: Tensor) -> Tensor:
        """Return the B values of plans (B×n×m)."""
        return problem.objective(plan)


def refuse_structures(solver: str, problem: FusedProblem) -> None:
    """Raise TransportError unless the problem is one of features alone."""
    if problem.alpha != 1:
        raise TransportError(
            f"{solver} moves features alone, and this problem has alpha={problem.alpha:g}.",
            remedy="Build it with FusedProblem.of_features, or use BAPG.",
        )


def check_step(step: float) -> None:
    """Refuse a step that no solver of the fused problem can work with, and warn of one that may make it cycle.

    Raises:
        SettingError: it is no positive number.

    Warns:
        FossilWarning: it is below 0.01.
    """
    check_positive(step=step)
    if step < SMALLEST_STEADY_STEP:
        warn_the_caller(
            f"step={step:g} is below {SMALLEST_STEADY_STEP}: the iteration may cycle, and the value then depends "
            "on the exact number of iterations and on rounding."
        )


def check_positive(**settings: float) -> None:
    """Refuse settings that are not positive numbers.

    Raises:
        SettingError: names the first.
    """
    for name, value in settings.items():
        if not (_is_number(value) and value > 0 and math.isfinite(value)):
            raise SettingError(f"{name}={value!r} is not accepted.", remedy="Give a positive number, such as 0.1.")


def check_counts(**settings: int) -> None:
    """Refuse settings that are not whole numbers from 1 up.

    Raises:
        SettingError: names the first.
    """
    for name, value in settings.items():
        if not (isinstance(value, int) and value >= 1):
            raise SettingError(f"{name}={value!r} is not accepted.", remedy="Give a whole number from 1 up.")


def check_tolerance(tolerance: float | None) -> None:
    """Refuse a tolerance that is neither None nor a number from 0 up.

    Raises:
        SettingError: names it.
    """
    if tolerance is not None and not (_is_number(tolerance) and tolerance >= 0):
        raise SettingError(f"tolerance={tolerance!r} is not accepted.", remedy="Give a number from 0 up, or None.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
