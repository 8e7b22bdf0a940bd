"""What a fused version of BAPG is asked for and what it gives, whatever the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from torch import Tensor

from fossil.transport.problem import FusedProblem

Scored: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]
"""B×n×m plans, B values, B row errors and B column errors."""

Arithmetic: TypeAlias = Literal["float32", "ieee", "tf32"]


@dataclass(frozen=True)
class Order:
    """How to solve, and how to score.

    Attributes:
        step: beta.
        iterations: T, all of which are made.
        constant_terms: keep the squared costs in the solver's gradient.
        symmetric: use `C1 P C2ᵀ` as it is; otherwise average it with `C1ᵀ P C2`.
        actual: weigh the squared costs in the value by the plan's own marginals, rather than by mu and nu.
        arithmetic: of the products on a GPU, see `kernels.solve_fused`.
    """

    step: float
    iterations: int
    constant_terms: bool
    symmetric: bool
    actual: bool
    arithmetic: Arithmetic


class Version(Protocol):
    """A module that solves and differentiates problems of one kind of device."""

    def solve(self, problem: FusedProblem, order: Order) -> Scored:
        """Solve and score, without a gradient."""

    def differentiate(
        self, value_gradient: Tensor, saved: tuple[Tensor, ...], needed: list[bool], alpha: float, order: Order
    ) -> list[Tensor | None]:
        """Return the gradients in the three costs, those that are needed.

        Args:
            value_gradient: gradients of the B values.
            saved: plans, source structures, target structures, source masses, target masses.
            needed: which of the costs need a gradient, at least one.
            alpha: weight of the feature term.
            order: what was solved.
        """
