"""What a transport solver returns."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Solution:
    """Values and plans of B problems, with the evidence of how far they can be trusted.

    Attributes:
        value: B objective values (D).
        plan: B×n×m transport plans (T).
        iterations: B numbers of iterations made.
        row_error: B sums of absolute differences between the plan's row sums and the source masses.
        column_error: the same for the column sums and the target masses.
        converged: B answers to whether the tolerance was met; all False when no tolerance was asked for.
    """

    value: Tensor
    plan: Tensor
    iterations: Tensor
    row_error: Tensor
    column_error: Tensor
    converged: Tensor

    def single(self) -> Solution:
        """Return the first problem's solution without the batch dimension."""
        return Solution(**{field.name: getattr(self, field.name)[0] for field in fields(self)})
