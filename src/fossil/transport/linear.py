"""Exact transport of one problem, on the CPU: the linear step of the conditional gradient."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment, linprog

from fossil.errors import TransportError
from fossil.graph.graph import Array

_CHEAPEST = 10  # pairs of each node that the first linear programme may use
_ADDED = 4  # pairs a node, on average, that the next one may use besides
_OPTIMAL = 1e-9  # of the largest cost: a pair that would save less is no improvement


def exact_plan(cost: Array, source_mass: Array, target_mass: Array) -> Array:
    """Return a plan of least cost that has at most n + m - 1 entries.

    As many nodes on both sides, all of one mass, are an assignment, which takes milliseconds for hundreds of nodes. Any
    other masses are a linear programme over few of the pairs, to which those are added that would lower the cost, until
    there are none.

    Args:
        cost: n×m, float64.
        source_mass: n.
        target_mass: m, with the same sum but for rounding: it is scaled to that of the others.

    Returns:
        n×m, float64.

    Raises:
        TransportError: SciPy could not solve the linear programme.

    >>> exact_plan(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.5]), np.array([0.25, 0.75])).tolist()
    [[0.0, 0.5], [0.25, 0.25]]
    """
    if len(source_mass) == len(target_mass) and np.ptp(source_mass) == np.ptp(target_mass) == 0:
        plan = np.zeros_like(cost)
        plan[linear_sum_assignment(cost)] = source_mass[0]
        return plan
    # Sums that differ in the last digits of float32 leave the linear programme without any solution.
    target_mass = target_mass * (source_mass.sum() / target_mass.sum())
    allowed = _staircase(source_mass, target_mass) | _cheapest(cost)
    # In units of the mean mass and of the largest cost, so that the solver's tolerances mean the same everywhere.
    unit, scale = 1 / len(source_mass), max(float(np.abs(cost).max()), np.finfo(np.float64).tiny)
    masses = np.concatenate([source_mass, target_mass]) / unit
    while True:
        found, potentials = _programme(cost / scale, masses, allowed)
        saving = cost / scale - np.add.outer(potentials[: len(source_mass)], potentials[len(source_mass) :])
        saving[allowed] = 0
        if saving.min() >= -_OPTIMAL:
            return found * unit
        # The best of them: all would make the next programme large.
        last = min(_ADDED * len(masses), saving.size) - 1
        allowed |= saving <= min(float(np.partition(saving, last, axis=None)[last]), -_OPTIMAL)


def _programme(cost: Array, masses: Array, allowed: Array) -> tuple[Array, Array]:
    """Return the best plan over the allowed pairs, and what a unit of each node's mass costs."""
    rows, columns = np.nonzero(allowed)
    pairs = np.arange(len(rows))
    ones, ends = np.ones(2 * len(rows)), np.concatenate([rows, len(cost) + columns])
    sums = sp.csc_array((ones, (ends, np.concatenate([pairs, pairs]))), shape=(len(masses), len(rows)))
    answer = linprog(cost[allowed], A_eq=sums, b_eq=masses, method="highs-ds")
    if answer.status != 0:
        raise TransportError(f"The linear step failed: {answer.message}", remedy="Use Feasible() or BAPG().")
    plan = np.zeros_like(cost)
    plan[allowed] = answer.x
    return plan, answer.eqlin.marginals


def _cheapest(cost: Array) -> Array:
    """Tell which pairs are among the cheapest of their row or column."""
    few = min(_CHEAPEST, *cost.shape) - 1
    cheapest: Array = (cost <= np.partition(cost, few, 1)[:, few, None]) | (cost <= np.partition(cost, few, 0)[few])
    return cheapest


def _staircase(source_mass: Array, target_mass: Array) -> Array:
    """Tell which pairs the plan uses that fills the columns in order: one that meets the masses is among them."""
    ends = np.cumsum(source_mass), np.cumsum(target_mass)
    starts = ends[0] - source_mass, ends[1] - target_mass
    # Touching counts, so that rounding leaves nothing out.
    slack = 1e-9 * ends[0][-1]
    used: Array = (starts[0][:, None] <= ends[1] + slack) & (starts[1] <= ends[0][:, None] + slack)
    return used
