"""Comparing subgraphs: the fused Gromov-Wasserstein distance (Section 3.3), its solver (Appendix A), and its peers.

A `FusedProblem` is handed to a solver, and a `Solution` comes back that knows how far it can be trusted.
"""

from fossil.transport.distances import fused_gromov_wasserstein, gromov_wasserstein, wasserstein
from fossil.transport.pooled import pooled_cosine
from fossil.transport.problem import FusedProblem, to_pot_alpha
from fossil.transport.solution import Solution
from fossil.transport.solvers import (
    BAPG,
    ConditionalGradient,
    Feasible,
    NestedGW,
    ProximalPoint,
    Sinkhorn,
    Solver,
    round_onto_masses,
)

__all__ = [
    "BAPG",
    "ConditionalGradient",
    "Feasible",
    "FusedProblem",
    "NestedGW",
    "ProximalPoint",
    "Sinkhorn",
    "Solution",
    "Solver",
    "fused_gromov_wasserstein",
    "gromov_wasserstein",
    "pooled_cosine",
    "round_onto_masses",
    "to_pot_alpha",
    "wasserstein",
]
