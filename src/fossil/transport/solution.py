"""What a transport solver returns."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

MARGINAL_TOLERANCE = 0.01
"""Mass that a plan may carry in wrong rows or columns and still be called a solution: one per cent."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Values and plans of B problems, with the evidence of how far they can be trusted.

    Attributes:
        value: B objective values (D).
        plan: B×n×m transport plans (T).
        iterations: B numbers of iterations made.
        row_error: B sums of absolute differences between the plan's row sums and the source masses.
        column_error: the same for the column sums and the target masses.
        settled: B answers to whether the plan stood still, to the solver's tolerance; all False without one.
    """

    value: Tensor
    plan: Tensor
    iterations: Tensor
    row_error: Tensor
    column_error: Tensor
    settled: Tensor

    @property
    def converged(self) -> Tensor:
        """B answers to whether the plan stood still where it meets both masses, to one per cent of the mass.

        An iteration can stand still at a plan that is none: at small steps the rows of BAPG may be half a mass off.
        """
        return self.settled & (torch.maximum(self.row_error, self.column_error) <= MARGINAL_TOLERANCE)

    def single(self) -> Solution:
        """Return the first problem's solution without the batch dimension."""
        return replace(self, **{field.name: getattr(self, field.name)[0] for field in fields(self)})
