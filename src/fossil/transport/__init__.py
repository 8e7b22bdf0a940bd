"""Comparing subgraphs: the fused Gromov-Wasserstein distance (Section 3.3) and its solver (Appendix A)."""

from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution
from fossil.transport.solve import fused_gromov_wasserstein, gromov_wasserstein, solve, wasserstein

__all__ = [
    "FusedProblem",
    "Solution",
    "fused_gromov_wasserstein",
    "gromov_wasserstein",
    "solve",
    "wasserstein",
]
