"""Comparing subgraphs: the fused Gromov-Wasserstein distance (Section 3.3), its solver (Appendix A), and its peers."""

from fossil.transport.feasible import feasible, feasible_fused_gromov_wasserstein, round_onto_masses
from fossil.transport.nested import nested_gromov_wasserstein
from fossil.transport.pooled import pooled_cosine
from fossil.transport.problem import FusedProblem
from fossil.transport.solution import Solution
from fossil.transport.solve import fused_gromov_wasserstein, gromov_wasserstein, solve, wasserstein
from fossil.transport.wasserstein import proximal_wasserstein, sinkhorn

__all__ = [
    "FusedProblem",
    "Solution",
    "feasible",
    "feasible_fused_gromov_wasserstein",
    "fused_gromov_wasserstein",
    "gromov_wasserstein",
    "nested_gromov_wasserstein",
    "pooled_cosine",
    "proximal_wasserstein",
    "round_onto_masses",
    "sinkhorn",
    "solve",
    "wasserstein",
]
