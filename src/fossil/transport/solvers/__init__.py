"""Solvers, a file each: built from their settings, called with a problem, they return a solution."""

from fossil.transport.solvers.bapg import BAPG
from fossil.transport.solvers.base import Solver
from fossil.transport.solvers.conditional import ConditionalGradient
from fossil.transport.solvers.feasible import Feasible, round_onto_masses
from fossil.transport.solvers.nested import NestedGW
from fossil.transport.solvers.proximal import ProximalPoint
from fossil.transport.solvers.sinkhorn import Sinkhorn

__all__ = [
    "BAPG",
    "ConditionalGradient",
    "Feasible",
    "NestedGW",
    "ProximalPoint",
    "Sinkhorn",
    "Solver",
    "round_onto_masses",
]
