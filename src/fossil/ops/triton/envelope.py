"""Gradients of the objective in its costs with the plan held, one GPU program per problem. Needs Triton."""

from __future__ import annotations

import triton.language as tl
from torch import Tensor

from fossil.ops.bapg import Arithmetic, BapgRule
from fossil.ops.triton.jit import jit, kernel, launch
from fossil.ops.triton.tiles import Launch, Precision, load_matrix, load_vector, multiply, store_matrix, tile_side

PRECISIONS: dict[Arithmetic, Precision] = {"float32": "tf32x3", "ieee": "ieee", "tf32": "tf32"}

# Up to a tile of 32 measured in the same way; at 64 chosen by what they compile to, see `benchmarks/`.
GRADIENT_LAUNCHES: dict[tuple[int, Precision], Launch] = {
    (16, "ieee"): Launch(1, 255),
    (16, "tf32x3"): Launch(1, 255),
    (32, "ieee"): Launch(2, 255),
    (32, "tf32x3"): Launch(2, 255),
    (64, "ieee"): Launch(8, 255),
    (64, "tf32x3"): Launch(4, 255),
}
"""Launches of the gradient by the side of the tile and the precision of its products, which are never plain TF32."""


def scoring_precision(precision: Precision) -> Precision:
    """Return the precision of values and gradients: that of the iterations, but never plain TF32."""
    return "ieee" if precision == "ieee" else "tf32x3"


def differentiate(
    value_gradient: Tensor, saved: tuple[Tensor, ...], needed: list[bool], alpha: float, rule: BapgRule
) -> list[Tensor | None]:
    """Return the gradients in the three costs, those that are needed.

    Args:
        value_gradient: gradients of the B values.
        saved: plans, source structures, target structures, source masses, target masses.
        needed: which of the costs need a gradient, at least one.
        alpha: weight of the feature term.
        rule: what was solved.
    """
    precision = scoring_precision(PRECISIONS[rule.arithmetic])
    plan = saved[0]
    structured = needed[1] or needed[2]
    source, target, *masses = (tensor.contiguous() if structured else plan for tensor in saved[1:])
    batch, n, m = plan.shape
    shapes = ((batch, n, m), (batch, n, n), (batch, m, m))
    found = [plan.new_empty(shape) if wanted else None for shape, wanted in zip(shapes, needed, strict=True)]
    tile = tile_side(n, m)
    launch(
        envelope_kernel,
        (batch,),
        *(plan if gradient is None else gradient for gradient in found),
        value_gradient,
        plan,
        source,
        target,
        *masses,
        value_gradient.stride(0),  # zero after a sum: a copy would be another launch
        n,
        m,
        float(alpha),
        FEATURE=needed[0],
        SOURCE=needed[1],
        TARGET=needed[2],
        ACTUAL=rule.marginals == "actual",
        PRECISION=precision,
        TILE=tile,
        **GRADIENT_LAUNCHES[tile, precision].options(),
    )
    return found


@jit
def _structure_gradient(
    structure: tl.tensor,
    product: tl.tensor,
    marginal: tl.tensor,
    mass: tl.tensor,
    actual: tl.constexpr,
) -> tl.tensor:
    """Return half the gradient of `sum_ik marginal_i structure_ik² mass_k - 2 <structure, product>`."""
    weight = marginal if actual else mass
    return structure * marginal[:, None] * weight[None, :] - product


@kernel()
def envelope_kernel(
    feature_gradient_pointer: tl.tensor,
    source_gradient_pointer: tl.tensor,
    target_gradient_pointer: tl.tensor,
    value_gradient_pointer: tl.tensor,
    plan_pointer: tl.tensor,
    source_pointer: tl.tensor,
    target_pointer: tl.tensor,
    source_mass_pointer: tl.tensor,
    target_mass_pointer: tl.tensor,
    value_gradient_stride: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    alpha: tl.tensor,
    FEATURE: tl.constexpr,
    SOURCE: tl.constexpr,
    TARGET: tl.constexpr,
    ACTUAL: tl.constexpr,
    PRECISION: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Differentiate the value of problem number `program_id(0)`; matrices and masses are contiguous float32.

    With g the gradient of the value and r the plan's row sums, it writes `g alpha P` for M,
    `2 g (1 - alpha) (C1 ∘ r wᵀ - P C2 Pᵀ)` for C1, where w is r or mu, and the same with P transposed for C2.

    Args:
        feature_gradient_pointer: B×n×m gradients to write, where FEATURE.
        source_gradient_pointer: B×n×n gradients to write, where SOURCE.
        target_gradient_pointer: B×m×m gradients to write, where TARGET.
        value_gradient_pointer: gradients of the B values.
        plan_pointer: B×n×m plans (P).
        source_pointer: B×n×n costs (C1).
        target_pointer: B×m×m costs (C2).
        source_mass_pointer: B×n masses (mu).
        target_mass_pointer: B×m masses (nu).
        value_gradient_stride: distance of the values' gradients, zero where all problems share one.
        n: source nodes, at most TILE.
        m: target nodes, at most TILE.
        alpha: weight of the feature term.
        FEATURE: whether the gradient in M is needed.
        SOURCE: whether the gradient in C1 is needed.
        TARGET: whether the gradient in C2 is needed.
        ACTUAL: whether the value weighs the squared costs by the plan's own marginals.
        PRECISION: of the products, see `multiply`.
        TILE: 16, 32 or 64.
    """
    problem = tl.program_id(0).to(tl.int64)
    plan_start = plan_pointer + problem * n * m
    source_start = problem * n * n
    target_start = problem * m * m
    gradient = tl.load(value_gradient_pointer + problem * value_gradient_stride)
    plan = load_matrix(plan_start, n, m, m, 1, False, TILE)
    if FEATURE:
        store_matrix(feature_gradient_pointer + problem * n * m, gradient * alpha * plan, n, m, TILE)
    if SOURCE or TARGET:
        transposed = load_matrix(plan_start, m, n, 1, m, False, TILE)
        source = load_matrix(source_pointer + source_start, n, n, n, 1, False, TILE)
        target = load_matrix(target_pointer + target_start, m, m, m, 1, False, TILE)
        nothing = tl.zeros_like(plan)
        scale = 2 * (1 - alpha) * gradient
        if SOURCE:
            product = multiply(multiply(plan, target, nothing, PRECISION), transposed, nothing, PRECISION)
            mass = load_vector(source_mass_pointer + problem * n, n, TILE)
            found = scale * _structure_gradient(source, product, tl.sum(plan, 1), mass, ACTUAL)
            store_matrix(source_gradient_pointer + source_start, found, n, n, TILE)
        if TARGET:
            product = multiply(multiply(transposed, source, nothing, PRECISION), plan, nothing, PRECISION)
            mass = load_vector(target_mass_pointer + problem * m, m, TILE)
            found = scale * _structure_gradient(target, product, tl.sum(plan, 0), mass, ACTUAL)
            store_matrix(target_gradient_pointer + target_start, found, m, m, TILE)
