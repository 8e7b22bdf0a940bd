"""The objective of fused Gromov-Wasserstein transport, and its gradient in the costs with the plan held constant.

By the envelope theorem this is the gradient of the optimal value where the plan is a minimiser. With row sums r and
column sums c of the plan P, and r' and c' equal to them or to the prescribed masses, the value is

    alpha <M, P> + (1 - alpha) (rᵀ C1² r' + cᵀ C2² c' - 2 <C1 P, P C2>)

and its gradients are `alpha P` in M, `2 (1 - alpha) (C1 ∘ r r'ᵀ - (P C2) Pᵀ)` in C1 and
`2 (1 - alpha) (C2 ∘ c c'ᵀ - Pᵀ (C1 P))` in C2. The value's two products serve again, so each gradient takes one more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from fossil.errors import SettingError
from fossil.ops.autograd import Function
from fossil.ops.precision import full_float32

Marginals: TypeAlias = Literal["prescribed", "actual"]


@dataclass(frozen=True, eq=False)
class ProblemTensors:
    """The tensors of B problems, which nobody has checked; `fossil.transport.FusedProblem` says what they mean.

    Attributes:
        feature_cost: B×n×m (M).
        source_structure: B×n×n (C1).
        target_structure: B×m×m (C2).
        source_mass: B×n (mu).
        target_mass: B×m (nu).
        alpha: weight of the feature term.
    """

    feature_cost: Tensor
    source_structure: Tensor
    target_structure: Tensor
    source_mass: Tensor
    target_mass: Tensor
    alpha: float

    @property
    def batch(self) -> int:
        """B."""
        return self.feature_cost.shape[0]

    def tensors(self) -> dict[str, Tensor]:
        """Return the five tensors by name."""
        return {
            "feature_cost": self.feature_cost,
            "source_structure": self.source_structure,
            "target_structure": self.target_structure,
            "source_mass": self.source_mass,
            "target_mass": self.target_mass,
        }

    def costs_require_grad(self) -> bool:
        """Tell whether a gradient may be asked for."""
        costs = (self.feature_cost, self.source_structure, self.target_structure)
        return torch.is_grad_enabled() and any(cost.requires_grad for cost in costs)

    def with_constant_masses(self) -> Self:
        """Return the same problems with masses that no gradient reaches."""
        return replace(self, source_mass=self.source_mass.detach(), target_mass=self.target_mass.detach())

    def part(self, start: int, stop: int) -> Self:
        """Return problems start to stop - 1, without copying."""
        return replace(
            self,
            feature_cost=self.feature_cost[start:stop],
            source_structure=self.source_structure[start:stop],
            target_structure=self.target_structure[start:stop],
            source_mass=self.source_mass[start:stop],
            target_mass=self.target_mass[start:stop],
        )

    def padded(self, rows: int, columns: int) -> Self:
        """Return the same problems with so many more source and target nodes, of zero mass and zero cost."""
        return replace(
            self,
            feature_cost=pad(self.feature_cost, (0, columns, 0, rows)),
            source_structure=pad(self.source_structure, (0, rows, 0, rows)),
            target_structure=pad(self.target_structure, (0, columns, 0, columns)),
            source_mass=pad(self.source_mass, (0, rows)),
            target_mass=pad(self.target_mass, (0, columns)),
        )


class Evaluation(NamedTuple):
    """The objective of plans T and the products it took, which its gradients need again.

    Attributes:
        value: B values.
        source_product: B×n×m, `C1 T`; None where the structures have no weight.
        target_product: B×n×m, `T C2`; None where the structures have no weight.
    """

    value: Tensor
    source_product: Tensor | None
    target_product: Tensor | None


def check_marginals(marginals: str) -> None:
    """Refuse anything but the two kinds of marginals.

    Raises:
        SettingError: names it.
    """
    if marginals not in ("prescribed", "actual"):
        raise SettingError(f"marginals={marginals!r} is not accepted.", remedy="Use 'prescribed' or 'actual'.")


def evaluate(problem: ProblemTensors, plan: Tensor, marginals: Marginals) -> Evaluation:
    """Return the objective of plans (B×n×m) in O(n² m + n m²), differentiably, with the products it took.

    Raises:
        SettingError: `marginals` is neither of the two.
    """
    check_marginals(marginals)
    value = problem.alpha * (problem.feature_cost * plan).sum((1, 2))
    if problem.alpha == 1:
        return Evaluation(value, None, None)
    source, target = problem.source_structure, problem.target_structure
    rows, columns = plan.sum(2), plan.sum(1)
    actual = marginals == "actual"
    squared = _quadratic(source, rows, rows if actual else problem.source_mass)
    squared = squared + _quadratic(target, columns, columns if actual else problem.target_mass)
    # <C1 T C2ᵀ, T> = <C1 T, T C2>: two products, and two more for both gradients.
    source_product, target_product = torch.bmm(source, plan), torch.bmm(plan, target)
    crossed = (source_product * target_product).sum((1, 2))
    return Evaluation(value + (1 - problem.alpha) * (squared - 2 * crossed), source_product, target_product)


def envelope_value(problem: ProblemTensors, plan: Tensor, marginals: Marginals = "actual") -> Tensor:
    """Return the objective, differentiable in the three costs and in nothing else.

    Args:
        problem: B problems; their masses are constants.
        plan: B×n×m plans, held constant (P).
        marginals: weights of the squared costs, see `FusedProblem.objective`.

    Returns:
        B values.

    Raises:
        SettingError: `marginals` is neither of the two.
    """
    source, target = problem.source_structure, problem.target_structure
    if problem.alpha == 1:  # the structures do not count, so the value must not depend on them either
        source, target = source.detach(), target.detach()
    masses = problem.source_mass.detach(), problem.target_mass.detach()
    value: Tensor = _Envelope.apply(
        problem.feature_cost, source, target, *masses, plan.detach(), problem.alpha, marginals
    )
    return value


class _Envelope(Function):
    @staticmethod
    def forward(
        ctx: Any,
        feature_cost: Tensor,
        source: Tensor,
        target: Tensor,
        source_mass: Tensor,
        target_mass: Tensor,
        plan: Tensor,
        alpha: float,
        marginals: Marginals,
    ) -> Tensor:
        problem = ProblemTensors(feature_cost, source, target, source_mass, target_mass, alpha)
        value, source_product, target_product = evaluate(problem, plan, marginals)
        ctx.alpha, ctx.actual = alpha, marginals == "actual"
        _, source_needed, target_needed, *_ = ctx.needs_input_grad
        products = target_product if source_needed else None, source_product if target_needed else None
        ctx.save_for_backward(plan, source, target, source_mass, target_mass, *products)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        plan, source, target, source_mass, target_mass, target_product, source_product = ctx.saved_tensors
        feature_needed, source_needed, target_needed, *_ = ctx.needs_input_grad
        by_value = gradients[0][:, None, None]
        by_feature = by_source = by_target = None
        with full_float32():
            if torch.is_grad_enabled():  # asked for a second derivative: the kept products do not know their origin
                target_product, source_product = torch.bmm(plan, target), torch.bmm(source, plan)
            if feature_needed:
                by_feature = by_value * ctx.alpha * plan
            weight = by_value * (2 * (1 - ctx.alpha))
            if source_needed:
                rows = plan.sum(2)
                other = rows if ctx.actual else source_mass
                by_source = torch.baddbmm(source * _outer(rows, other), target_product, plan.mT, alpha=-1) * weight
            if target_needed:
                columns = plan.sum(1)
                other = columns if ctx.actual else target_mass
                by_target = torch.baddbmm(target * _outer(columns, other), plan.mT, source_product, alpha=-1) * weight
        return by_feature, by_source, by_target, None, None, None, None, None


def _quadratic(structure: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return `sum_ik left_i structure_ik² right_k` for each problem."""
    weighted = torch.bmm(structure.square(), right.unsqueeze(2)).squeeze(2)
    return (left * weighted).sum(1)


def _outer(left: Tensor, right: Tensor) -> Tensor:
    return left[:, :, None] * right[:, None, :]
