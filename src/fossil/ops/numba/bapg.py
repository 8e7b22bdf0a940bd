"""BAPG on the CPU, one problem at a time inside the first cache. Needs Numba.

Nodes beyond the n×m entries of a problem are treated like any others of zero mass, which get exactly nothing.
Logarithms are to base 2, which is what the processor's numbers are made of; `unit` is how much a cost of one changes
them. The arithmetic is that of `ops.bapg` and `ops.scaling`.
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from fossil.ops.bapg import BapgRule
from fossil.ops.numba.compiling import Array, entry, inner
from fossil.ops.numba.dense import ZERO, copy, copy_corner, multiply, padded, sum_rows_and_columns
from fossil.ops.numba.envelope import differentiate
from fossil.ops.numba.lanes import LANES, exp2, larger, largest, load, log2, spread, store, total
from fossil.ops.numba.threads import plain, run_in_threads
from fossil.ops.objective import ProblemTensors

__all__ = ["differentiate", "solve"]

_LOG_ZERO = np.float32(-1e30)


def solve(problem: ProblemTensors, rule: BapgRule) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return plans, values, row errors and column errors, without a gradient."""
    feature_cost = plain(problem.feature_cost)
    # Structures of no weight are not read: they are often one number, expanded, and a copy would be large.
    structured = problem.alpha != 1
    source = plain(problem.source_structure) if structured else feature_cost
    target = plain(problem.target_structure) if structured else feature_cost
    plan = feature_cost.new_empty(feature_cost.shape)
    value, errors = feature_cost.new_empty(problem.batch), feature_cost.new_empty((2, problem.batch))
    masses = plain(problem.source_mass), plain(problem.target_mass)
    arrays = [each.numpy() for each in (plan, value, errors, feature_cost, source, target, *masses)]
    settings = (
        float(problem.alpha),
        math.log2(math.e) / rule.step,  # the kernel's logarithms are to base 2
        rule.iterations,
        rule.constant_terms,
        rule.symmetric,
        rule.marginals == "actual",
    )
    run_in_threads(solve_kernel, [*arrays, *settings], plan, 4 * rule.iterations)
    return plan, value, errors[0], errors[1]


@inner
def _rescale_rows(log_plan: Array, plan: Array, masses: Array, drift: Array, sums: Array, n: int, m: int) -> None:
    """Give each row its mass (`scaling.rescale`), and move the logarithms by the drift of the next half-step.

    `masses` holds masses and their logarithms; `sums` is scratch for sums, shifts and factors, ones beyond n.
    """
    for i in range(n):
        top = load(log_plan, i, 0)
        for j in range(LANES, m, LANES):
            top = larger(top, load(log_plan, i, j))
        top = spread(largest(top))
        sum_of_row = spread(ZERO)
        for j in range(0, m, LANES):
            shifted = load(log_plan, i, j) - top
            weights = exp2(shifted)
            store(log_plan, i, j, shifted)
            store(plan, i, j, weights)
            sum_of_row += weights
        sums[0, i] = total(sum_of_row)
    for i in range(0, n, LANES):
        found = load(sums, 0, i)
        store(sums, 1, i, load(masses, 1, i) - log2(found))
        store(sums, 2, i, load(masses, 0, i) / found)
    for i in range(n):
        shift, factor = spread(sums[1, i]), spread(sums[2, i])
        for j in range(0, m, LANES):
            store(log_plan, i, j, load(log_plan, i, j) + shift + load(drift, i, j))
            store(plan, i, j, load(plan, i, j) * factor)


@inner
def _rescale_columns(log_plan: Array, plan: Array, masses: Array, drift: Array, n: int, m: int) -> None:
    """Give each column its mass, and move the logarithms by the drift of the next half-step."""
    for j in range(0, m, LANES):
        top = load(log_plan, 0, j)
        for i in range(1, n):
            top = larger(top, load(log_plan, i, j))
        sums = spread(ZERO)
        for i in range(n):
            shifted = load(log_plan, i, j) - top
            weights = exp2(shifted)
            store(log_plan, i, j, shifted)
            store(plan, i, j, weights)
            sums += weights
        shift, factor = load(masses, 1, j) - log2(sums), load(masses, 0, j) / sums
        for i in range(n):
            store(log_plan, i, j, load(log_plan, i, j) + shift + load(drift, i, j))
            store(plan, i, j, load(plan, i, j) * factor)


@inner
def _set_masses(out: Array, mass: Array) -> None:
    """Write masses and their logarithms."""
    out[0, :] = ZERO
    out[1, :] = _LOG_ZERO
    for node in range(mass.shape[0]):
        out[0, node] = mass[node]
        if mass[node] > 0:
            out[1, node] = np.log2(mass[node])


@inner
def _mean_square(structure: Array, mass: Array, node: int, symmetric: bool) -> np.float32:
    """Return the mean of a node's squared costs, over both directions unless symmetric."""
    found = ZERO
    for other in range(structure.shape[0]):
        square = structure[node, other] * structure[node, other]
        if not symmetric:
            square = (square + structure[other, node] * structure[other, node]) / np.float32(2)
        found += square * mass[other]
    return found


@inner
def _feature_value(feature: Array, plan: Array) -> float:
    """Return `<M, P>`."""
    found = 0.0
    for i in range(feature.shape[0]):
        for j in range(feature.shape[1]):
            found += feature[i, j] * plan[i, j]
    return found


@inner
def _product_sum(left: Array, right: Array, n: int, m: int) -> float:
    """Return the sum of the products of entries."""
    found = 0.0
    for i in range(n):
        of_row = spread(ZERO)
        for j in range(0, m, LANES):
            of_row += load(left, i, j) * load(right, i, j)
        found += total(of_row)
    return found


@inner
def _quadratic(structure: Array, left: Array, right: Array) -> float:
    """Return `sum_ik left_i structure_ik² right_k`."""
    found = 0.0
    for node in range(structure.shape[0]):
        found += left[node] * _mean_square(structure, right, node, True)
    return found


@inner
def _distance(left: Array, right: Array) -> float:
    """Return the sum of absolute differences over the entries of the second."""
    found = 0.0
    for node in range(right.shape[0]):
        found += abs(left[node] - right[node])
    return found


@entry
def solve_kernel(
    plans: Array,
    values: Array,
    errors: Array,
    feature: Array,
    source: Array,
    target: Array,
    source_mass: Array,
    target_mass: Array,
    alpha: float,
    unit: float,
    iterations: int,
    constant_terms: bool,
    symmetric: bool,
    actual: bool,
    start: int,
    stop: int,
) -> None:
    """Solve problems start to stop - 1 and score their plans; all arrays are contiguous.

    Args:
        plans: B×n×m plans to write (P).
        values: B values to write (D).
        errors: 2×B errors to write, of the rows and of the columns.
        feature: B×n×m costs (M).
        source: B×n×n costs (C1), read only where alpha is not 1.
        target: B×m×m costs (C2), read only where alpha is not 1.
        source_mass: B×n masses (mu).
        target_mass: B×m masses (nu).
        alpha: weight of the feature term.
        unit: `log2(e) / step`.
        iterations: T.
        constant_terms: whether the iteration keeps the squared costs.
        symmetric: use `C1 P C2ᵀ` as it is; otherwise average it with `C1ᵀ P C2`.
        actual: whether the value weighs the squared costs by the plan's own marginals, rather than by mu and nu.
        start: the first problem.
        stop: one after the last.
    """
    _, n, m = feature.shape
    height, width = padded(n), padded(m)
    plan, log_plan, product, row_drift, column_drift = (
        np.zeros((height, width), np.float32),
        np.zeros((height, width), np.float32),
        np.zeros((height, width), np.float32),
        np.zeros((height, width), np.float32),
        np.zeros((height, width), np.float32),
    )
    left, reverse_left = np.zeros((height, height), np.float32), np.zeros((height, height), np.float32)
    right, reverse_right = np.zeros((width, width), np.float32), np.zeros((width, width), np.float32)
    row_masses, column_masses = np.zeros((2, height), np.float32), np.zeros((2, width), np.float32)
    row_sums, column_sums = np.ones((3, height), np.float32), np.ones((1, width), np.float32)
    structured = alpha != 1
    weight = (1 - alpha) * unit

    for problem in range(start, stop):
        mu, nu = source_mass[problem], target_mass[problem]
        _set_masses(row_masses, mu)
        _set_masses(column_masses, nu)
        copy(row_drift, feature[problem], -alpha * unit, False)
        copy(column_drift, feature[problem], -alpha * unit, False)
        if structured:
            scale = 4 * weight if symmetric else 2 * weight
            copy(left, source[problem], scale, False)
            copy(right, target[problem], 1.0, True)
            if not symmetric:
                copy(reverse_left, source[problem], scale, True)
                copy(reverse_right, target[problem], 1.0, False)
            if constant_terms:
                # In a row step the squared source costs cancel, in a column step the squared target costs.
                for j in range(m):
                    row_drift[:n, j] -= np.float32(2 * weight) * _mean_square(target[problem], nu, j, symmetric)
                for i in range(n):
                    column_drift[i, :m] -= np.float32(2 * weight) * _mean_square(source[problem], mu, i, symmetric)
        for i in range(n):
            for j in range(width):
                plan[i, j] = row_masses[0, i] * column_masses[0, j]
                log_plan[i, j] = row_masses[1, i] + column_masses[1, j] + row_drift[i, j]

        for half in range(2 * iterations):
            if structured:
                multiply(product, left, plan, n, n, m, False)
                multiply(log_plan, product, right, n, m, m, True)
                if not symmetric:
                    multiply(product, reverse_left, plan, n, n, m, False)
                    multiply(log_plan, product, reverse_right, n, m, m, True)
            if half % 2 == 0:
                _rescale_rows(log_plan, plan, row_masses, column_drift, row_sums, n, m)
            else:
                _rescale_columns(log_plan, plan, column_masses, row_drift, n, m)
        copy_corner(plans[problem], plan)

        sum_rows_and_columns(row_sums, column_sums, plan, n, m)
        errors[0, problem] = _distance(row_sums[0], mu)
        errors[1, problem] = _distance(column_sums[0], nu)
        value = alpha * _feature_value(feature[problem], plan)
        if structured:
            copy(left, source[problem], 1.0, False)
            multiply(product, left, plan, n, n, m, False)
            multiply(log_plan, product, right, n, m, m, False)
            squared = _quadratic(source[problem], row_sums[0], row_sums[0] if actual else mu)
            squared += _quadratic(target[problem], column_sums[0], column_sums[0] if actual else nu)
            value += (1 - alpha) * (squared - 2 * _product_sum(log_plan, plan, n, m))
        values[problem] = value
