"""Which version of BAPG is used on a CPU: compiling takes seconds, so that few and small problems do without."""

import os
import subprocess
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

import fossil.ops.bapg as operation
from fossil.ops.dispatch import numba
from fossil.transport import BAPG, FusedProblem

needs_numba = pytest.mark.skipif(not operation.numba_runs_on(torch.device("cpu")), reason="Numba is not installed")


def make(batch: int, nodes: int = 12) -> FusedProblem:
    generator = torch.Generator().manual_seed(batch)
    cost, source, target = (torch.rand(batch, nodes, nodes, generator=generator) for _ in range(3))
    return FusedProblem.uniform(cost, source + source.mT, target + target.mT, 0.5)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each use of a Numba version."""
    names: list[str] = []

    def counted(name: str) -> ModuleType:
        names.append(name)
        return numba(name)

    monkeypatch.setattr(operation, "numba", counted)
    return names


# 4 B n m max(n, m) T multiplications: 2**22 of them are 30.3 problems of 12 nodes with 20 iterations.
@needs_numba
@pytest.mark.parametrize(
    ("batch", "nodes", "iterations", "uses"),
    [
        (1, 3, 20, 0),
        (1, 12, 500, 0),
        (30, 12, 20, 0),
        (31, 12, 20, 1),
        (30, 12, 21, 1),
        (1, 64, 20, 1),
        (900, 12, 20, 1),
    ],
)
def test_the_kernels_are_used_from_four_million_multiplications_on(
    batch: int, nodes: int, iterations: int, uses: int, used: list[str]
) -> None:
    solution = BAPG(step=0.5, iterations=iterations, tolerance=None)(make(batch, nodes))
    assert used == ["bapg"] * uses
    assert solution.plan.isfinite().all()


@needs_numba
def test_either_version_gives_the_same_plans_up_to_rounding(used: list[str]) -> None:
    solver, problem = BAPG(step=0.5, iterations=20, tolerance=None), make(60)
    together = solver(problem)
    assert len(used) == 1
    apart = torch.cat([solver(problem.part(start, start + 20)).plan for start in (0, 20, 40)])
    assert len(used) == 1
    torch.testing.assert_close(together.plan, apart, rtol=0, atol=1e-6)


@needs_numba
def test_a_tolerance_and_an_unrolled_gradient_are_left_to_the_plain_version(used: list[str]) -> None:
    problem = make(40)
    learnt = replace(problem, feature_cost=problem.feature_cost.clone().requires_grad_())

    def uses(problem: FusedProblem, **settings: Any) -> int:
        used.clear()
        BAPG(**{"step": 0.5, "iterations": 20, "tolerance": None, **settings})(problem)
        return len(used)

    found = {
        "constant": uses(problem),
        "envelope": uses(learnt),
        "none": uses(learnt, gradient="none"),
        "tolerance": uses(problem, tolerance=1e-6),
        "unrolled": uses(learnt, gradient="unrolled"),
    }
    assert {name: count for name, count in found.items() if count} == {"constant": 1, "envelope": 1, "none": 1}


def run(script: str) -> None:
    """Run a script in a process of its own, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_a_small_problem_neither_imports_nor_compiles_a_kernel() -> None:
    run("""
import sys
import torch
import fossil
from fossil.transport import BAPG, fused_gromov_wasserstein, wasserstein
cost = torch.rand(3, 3)
wasserstein(cost)
wasserstein(cost, solver=BAPG(tolerance=None))
fused_gromov_wasserstein(cost.requires_grad_(), cost, cost, solver=BAPG(tolerance=None)).value.backward()
assert "fossil.ops.numba.bapg" not in sys.modules
assert "numba" not in sys.modules
""")


def test_numba_is_not_imported_before_a_problem_needs_it() -> None:
    run("import sys, fossil.transport; sys.exit('numba' in sys.modules)")


def test_the_solver_works_where_numba_cannot_be_imported() -> None:
    run("""
import sys
sys.modules["numba"] = None
import torch
from fossil.ops.bapg import BapgRule, supports
from fossil.transport import BAPG, FusedProblem
cost = torch.eye(16).expand(200, 16, 16)
problem = FusedProblem.uniform(cost, cost, cost, 0.5)
assert not supports(problem, BapgRule(0.5, 20))
assert BAPG(step=0.5, iterations=20, tolerance=None)(problem).plan.isfinite().all()
""")
