"""The value of a plan, and its gradient in the costs with the plan held constant, both in closed form.

By the envelope theorem this is the gradient of the optimal value where the plan is a minimiser. With row sums r and
column sums c of the plan P, and r' and c' equal to them or to the prescribed masses, the value is

    alpha <M, P> + (1 - alpha) (rᵀ C1² r' + cᵀ C2² c' - 2 <C1 P, P C2>)

and its gradients are `alpha P` in M, `2 (1 - alpha) (C1 ∘ r r'ᵀ - (P C2) Pᵀ)` in C1 and
`2 (1 - alpha) (C2 ∘ c c'ᵀ - Pᵀ (C1 P))` in C2. The value's two products serve again, so each gradient takes one more.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from fossil.transport.precision import full_float32
from fossil.transport.problem import FusedProblem, Marginals


def envelope_value(problem: FusedProblem, plan: Tensor, marginals: Marginals = "actual") -> Tensor:
    """Return `problem.objective(plan, marginals)`, differentiable in the three costs and in nothing else.

    Args:
        problem: B problems; their masses are constants.
        plan: B×n×m plans, held constant (P).
        marginals: weights of the squared costs, see `FusedProblem.objective`.

    Returns:
        B values.

    Raises:
        SettingError: `marginals` is neither of the two.

    >>> cost = torch.rand(2, 3, 3, requires_grad=True)
    >>> problem = FusedProblem.uniform(cost, torch.eye(3).expand(2, 3, 3), torch.eye(3).expand(2, 3, 3), alpha=0.5)
    >>> plan = torch.full((2, 3, 3), 1 / 9)
    >>> envelope_value(problem, plan).sum().backward()
    >>> bool(torch.allclose(cost.grad, 0.5 * plan))
    True
    """
    source, target = problem.source_structure, problem.target_structure
    if problem.alpha == 1:  # the structures do not count, so the value must not depend on them either
        source, target = source.detach(), target.detach()
    masses = problem.source_mass.detach(), problem.target_mass.detach()
    value = _Envelope.apply(problem.feature_cost, source, target, *masses, plan.detach(), problem.alpha, marginals)  # type: ignore[no-untyped-call]
    return cast(Tensor, value)


class _Envelope(torch.autograd.Function):
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
        problem = FusedProblem(feature_cost, source, target, source_mass, target_mass, alpha)
        value, source_product, target_product = problem.evaluate(plan, marginals)
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


def _outer(left: Tensor, right: Tensor) -> Tensor:
    return left[:, :, None] * right[:, None, :]
