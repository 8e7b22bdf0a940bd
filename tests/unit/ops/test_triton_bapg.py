"""The GPU version of BAPG where there is no GPU: compiled for one, and kept away from tensors on the CPU."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from hopper import compile_for_hopper, needs_triton

import fossil.ops.bapg as operation
from fossil.errors import FossilWarning
from fossil.ops.bapg import BapgRule, supports
from fossil.ops.dispatch import triton, triton_runs_on
from fossil.transport import BAPG, FusedProblem


def test_tensors_on_the_cpu_are_left_alone_without_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not triton_runs_on(torch.device("cpu"))


def large(nodes: int) -> FusedProblem:
    cost = torch.rand(1, nodes, nodes, generator=torch.Generator().manual_seed(0))
    return FusedProblem.uniform(cost, cost + cost.mT, cost + cost.mT, 0.5)


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "triton_runs_on", lambda device: True)
    monkeypatch.setattr(operation, "_said", set())


@needs_triton
@pytest.mark.usefixtures("pretended_gpu")
def test_a_problem_too_large_for_the_gpu_kernel_is_solved_with_one_warning() -> None:
    solver = BAPG(step=1.0, iterations=2, tolerance=None, symmetric=True)
    with pytest.warns(FossilWarning, match=r"65 and 65 nodes .* at most 64 .* smaller subgraphs") as caught:
        solution = solver(large(65))
        solver(large(70))
    assert [item.filename for item in caught] == [__file__]
    assert solution.plan.isfinite().all()


@needs_triton
@pytest.mark.usefixtures("pretended_gpu")
def test_large_problems_that_no_kernel_would_take_anyway_get_no_warning() -> None:
    # FossilWarning is an error in these tests.
    problem = large(65)
    BAPG(step=1.0, iterations=2, tolerance=1e-6, symmetric=True)(problem)
    assert not supports(problem, BapgRule(1.0, 2, symmetric=False))
    doubled = FusedProblem(**{name: tensor.double() for name, tensor in problem.tensors().items()}, alpha=0.5)
    assert not supports(doubled, BapgRule(1.0, 2))


def test_the_solver_works_where_triton_cannot_be_imported() -> None:
    script = """
import sys
sys.modules["triton"] = None
import torch
from fossil.ops.dispatch import triton_runs_on
from fossil.transport import BAPG, FusedProblem
cost = torch.eye(3)[None]
assert not triton_runs_on(cost.device)
solver = BAPG(step=0.5, iterations=20, tolerance=None)
assert solver(FusedProblem.uniform(cost, cost, cost, 0.5)).plan.isfinite().all()
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


@needs_triton
@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
@pytest.mark.parametrize(("name", "tile"), [("bapg", 16), ("bapg", 32), ("bapg", 64), ("envelope", 32)])
def test_kernels_compile_for_a_hopper_gpu_with_the_products_asked_for(
    name: str,
    tile: int,
    precision: Literal["ieee", "tf32x3"],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    version = triton(name)
    kernel = {"bapg": "bapg_kernel", "envelope": "envelope_kernel"}[name]
    launches = {"bapg": "SOLVER_LAUNCHES", "envelope": "GRADIENT_LAUNCHES"}[name]
    program, launch = getattr(version, kernel), getattr(version, launches)[tile, precision]
    switches = ("STRUCTURED", "CONSTANT_TERMS", "FEATURE", "SOURCE", "TARGET", "ACTUAL")
    known = {"ITERATIONS": 20, "PRECISION": precision, "SCORE_PRECISION": precision, "TILE": tile}
    known |= dict.fromkeys(switches, True)
    constants = {key: value for key, value in known.items() if key in program.arg_names}
    found = compile_for_hopper(program, constants, launch.options(), tmp_path)
    record_property("resources", found.usage)
    print(f"tile {tile}: {found.usage or 'usage unknown'}, {found.shared} bytes shared")
    assert ("tf32" in found.ptx) == (precision == "tf32x3")
    assert ("fma.rn.f32" in found.ptx) or precision == "tf32x3"
    assert found.shared <= 227 * 1024
    if tile == 16 and "STACK:" in found.usage:
        assert "STACK:0" in found.usage


@needs_triton
def test_every_tile_and_arithmetic_has_its_launches() -> None:
    tiles, solver, gradient = triton("tiles").TILES, triton("bapg"), triton("envelope")
    precisions = gradient.PRECISIONS.values()
    assert set(solver.SOLVER_LAUNCHES) == {(tile, precision) for tile in tiles for precision in precisions}
    scoring = {gradient.scoring_precision(precision) for precision in precisions}
    assert set(gradient.GRADIENT_LAUNCHES) == {(tile, precision) for tile in tiles for precision in scoring}
    assert scoring == {"ieee", "tf32x3"}
