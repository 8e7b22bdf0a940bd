"""The fused kernel against the batched version in float64, interpreted on the CPU; and compiled for a GPU, unrun."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fossil.transport import kernels
from fossil.transport.problem import FusedProblem

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

# Triton decides at its import whether it interprets, so each run has a process of its own.
INTERPRETED = """
import json
import torch
from fossil.transport import kernels
from fossil.transport.bapg import bapg
from fossil.transport.problem import FusedProblem
from fossil.transport.solve import solve

def make(n, m, alpha, rows=0, columns=0):
    generator = torch.Generator().manual_seed(n + m)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)
    pad = lambda tensor, right, below, value: torch.nn.functional.pad(tensor, (0, right, 0, below), value=value)
    source, target = draw(3, n, n), draw(3, m, m)
    masses = torch.softmax(2 * draw(3, n), 1), torch.softmax(2 * draw(3, m), 1)
    return FusedProblem(
        pad(draw(3, n, m), columns, rows, -3.0),
        pad((source + source.mT) / 2, rows, rows, 9.0),
        pad((target + target.mT) / 2, columns, columns, 11.0),
        pad(masses[0], rows, 0, 0.0),
        pad(masses[1], columns, 0, 0.0),
        alpha,
    )

def single(problem):
    return FusedProblem(**{name: tensor.float() for name, tensor in problem.tensors().items()}, alpha=problem.alpha)

torch.set_num_threads(1)
"""

AGREEMENT = """
found = []
for n, m, alpha, constant_terms, step, iterations, rows, columns in CASES:
    problem = make(n, m, alpha, rows, columns)
    settings = {"step": step, "iterations": iterations, "constant_terms": constant_terms, "symmetric": True}
    assert kernels.fits(single(problem), None, True)
    assert not kernels.fits(problem, None, True)
    outcome = bapg(single(problem), **settings)
    plan, expected = outcome.plan, bapg(problem, **settings).plan
    found.append({
        "error": (plan - expected).abs().max().item(),
        "spread": (expected - expected.mean()).abs().max().item(),
        "padding": plan[:, n:].abs().sum().item() + plan[:, :, m:].abs().sum().item(),
        "shape": list(plan.shape),
        "made": outcome.iterations.tolist(),
        "converged": outcome.converged.tolist(),
    })
print(json.dumps(found))
"""

# n, m, alpha, constant terms, step, iterations, padded rows, padded columns
CASES = [
    (5, 5, 0.4, True, 0.1, 10, 0, 0),
    (5, 5, 0.4, False, 0.1, 10, 0, 0),
    (12, 12, 0.5, True, 0.1, 5, 0, 0),
    (12, 12, 0.5, False, 1.0, 10, 0, 0),
    (16, 16, 0.5, True, 0.1, 5, 0, 0),
    (20, 20, 0.5, True, 0.1, 5, 0, 0),
    (5, 12, 0.5, True, 0.1, 10, 0, 0),
    (16, 7, 0.0, False, 1.0, 10, 0, 0),
    (9, 20, 0.5, True, 0.1, 5, 0, 0),
    (12, 10, 1.0, True, 0.1, 10, 0, 0),
    (5, 6, 0.4, True, 0.1, 10, 2, 0),
    (5, 6, 0.4, False, 1.0, 10, 0, 3),
    (5, 6, 0.4, True, 0.02, 5, 4, 13),
]


def interpret(script: str) -> Any:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED + script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def agreement() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = interpret(f"CASES = {CASES!r}\n{AGREEMENT}")
    return found


@needs_triton
@pytest.mark.parametrize("index", range(len(CASES)), ids=[repr(case) for case in CASES])
def test_interpreted_kernel_gives_the_plan_of_the_batched_version(agreement: list[dict[str, Any]], index: int) -> None:
    n, m, _, _, _, iterations, rows, columns = CASES[index]
    found = agreement[index]
    assert found["shape"] == [3, n + rows, m + columns]
    assert found["error"] < 1e-5
    assert found["spread"] > 1e-3
    assert found["padding"] == 0
    assert found["made"] == [iterations] * 3
    assert found["converged"] == [False] * 3


@needs_triton
def test_values_and_envelope_gradients_with_the_kernel_are_those_without() -> None:
    found = interpret("""
def run(problem):
    for tensor in (problem.feature_cost, problem.source_structure, problem.target_structure):
        tensor.requires_grad_()
    value = solve(problem, step=0.5, iterations=5, symmetric=True).value
    costs = (problem.feature_cost, problem.source_structure, problem.target_structure)
    return value.detach(), *torch.autograd.grad(value.sum(), costs)

calls, whole = [], kernels.bapg_plan
kernels.bapg_plan = lambda *arguments: calls.append(1) or whole(*arguments)
pairs = zip(run(single(make(6, 8, 0.5))), run(make(6, 8, 0.5)))
print(json.dumps({"errors": [(a - b).abs().max().item() for a, b in pairs], "calls": len(calls)}))
""")
    assert found["calls"] == 1
    assert max(found["errors"]) < 1e-5


@needs_triton
def test_kernel_is_finite_at_all_steps_and_costs() -> None:
    found = interpret("""
import warnings
warnings.simplefilter("ignore")
found = []
for step in (1e-3, 1e-2, 0.1, 1.0, 10.0):
    for scale in (1.0, 1e4):
        problem = single(make(9, 12, 0.5))
        for tensor in (problem.feature_cost, problem.source_structure, problem.target_structure):
            tensor *= scale
        plan = bapg(problem, step=step, iterations=5, symmetric=True).plan
        found.append((plan.sum(1) - problem.target_mass).abs().max().item())
print(json.dumps(found))
""")
    assert len(found) == 10
    assert max(found) < 1e-6  # NaN compares false


@needs_triton
def test_what_the_kernel_cannot_treat_is_left_to_the_batched_version() -> None:
    found = interpret("""
small, large = single(make(5, 6, 0.5)), single(make(5, 65, 0.5))
learnt = small.feature_cost.clone().requires_grad_()
differentiable = FusedProblem(**small.tensors() | {"feature_cost": learnt}, alpha=0.5)
misshapen = FusedProblem(**small.tensors() | {"target_mass": small.target_mass[:, :3]}, alpha=0.5)
with torch.no_grad():
    held = kernels.fits(differentiable, None, True)
print(json.dumps({
    "small": kernels.fits(small, None, True),
    "held plan": held,
    "tolerance": kernels.fits(small, 1e-6, True),
    "directed": kernels.fits(small, None, False),
    "float64": kernels.fits(make(5, 6, 0.5), None, True),
    "large": kernels.fits(large, None, True),
    "unrolled": kernels.fits(differentiable, None, True),
    "misshapen": kernels.fits(misshapen, None, True),
    "empty": kernels.fits(small.part(0, 0), None, True),
}))
""")
    assert [name for name, answer in found.items() if answer] == ["small", "held plan"]


def test_tensors_on_the_cpu_are_left_alone_without_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    cost = torch.rand(2, 4, 4)
    assert not kernels.fits(FusedProblem.uniform(cost, cost, cost, 0.5), None, True)


def test_the_solver_works_where_triton_cannot_be_imported() -> None:
    script = """
import sys
sys.modules["triton"] = None
import torch
from fossil.transport import FusedProblem, kernels, solve
cost = torch.eye(3)[None]
problem = FusedProblem.uniform(cost, cost, cost, 0.5)
assert not kernels.fits(problem, None, True)
assert solve(problem, step=0.5).plan.isfinite().all()
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


NO_ASSEMBLER = 77

COMPILED = """
import json
import subprocess
import sys
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fossil.transport import kernels
from fossil.transport._bapg_kernel import bapg_kernel

tools = Path(triton.__file__).parent / "backends/nvidia/bin"
if not (tools / "ptxas").exists():
    sys.exit(77)
tile, folder = int(sys.argv[1]), Path(sys.argv[2])
constants = {"ITERATIONS": 20, "STRUCTURED": True, "CONSTANT_TERMS": True, "TILE": tile}
kinds = {"pointer": "*fp32", "scale": "fp32"}
signature = {name: kinds.get(name.rsplit("_", 1)[-1], "i32") for name in bapg_kernel.arg_names}
signature |= dict.fromkeys(constants, "constexpr")
compiled = triton.compile(
    ASTSource(bapg_kernel, signature, constants),
    target=GPUTarget("cuda", 90, 32),
    options={"num_warps": kernels.WARPS[tile], **kernels.OPTIONS},
)
binary = folder / "kernel.cubin"
binary.write_bytes(compiled.asm["cubin"])
tool = tools / "cuobjdump"
usage = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True).stdout if tool.exists() else ""
print(json.dumps({"ptx": compiled.asm["ptx"], "usage": usage, "shared": compiled.metadata.shared}))
"""


@needs_triton
@pytest.mark.parametrize("tile", [16, 32, 64])
def test_kernel_compiles_for_a_hopper_gpu_with_full_float32_products(
    tile: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, str(tile), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode == NO_ASSEMBLER:
        pytest.skip("Triton has no assembler for NVIDIA GPUs here")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    usage = next((line.strip() for line in found["usage"].splitlines() if "REG:" in line), "usage unknown")
    record_property("resources", usage)
    print(f"tile {tile}: {usage}, {found['shared']} bytes shared")
    assert "tf32" not in found["ptx"]
    assert "fma.rn.f32" in found["ptx"]
    assert found["shared"] <= 227 * 1024
    if tile == 16 and "STACK:" in usage:
        assert "STACK:0" in usage
