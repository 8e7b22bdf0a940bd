"""The GPU kernel of proximal points, interpreted on the CPU and compiled for a GPU, unrun."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fossil.transport import proximal_wasserstein

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

# Triton decides at its import whether it interprets, so each run has a process of its own.
PREPARED = """
import importlib
import json
import torch
from fossil.transport import nested_gromov_wasserstein, proximal_wasserstein

module = importlib.import_module("fossil.transport.wasserstein")
proximal_point = module.proximal_point
launched = []
kernels = module.kernels
module.kernels = lambda name: launched.append(name) or kernels(name)

def make(n, m, batch=3):
    generator = torch.Generator().manual_seed(n + m)
    draw = lambda *shape: torch.rand(*shape, generator=generator, dtype=torch.float64)
    return draw(batch, n, m), torch.softmax(2 * draw(batch, n), 1), torch.softmax(2 * draw(batch, m), 1)

def single(tensors):
    return [tensor.float() for tensor in tensors]

def difference(found, expected):
    return (found - expected).abs().max().item()

torch.set_num_threads(1)
"""


def interpret(script: str) -> Any:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", PREPARED + script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# n, m, step, iterations: sizes within and at the edges of all three tiles; the first two are those of GSC
CASES = [
    (15, 15, 0.5, 40),
    (15, 15, 0.1, 20),
    (1, 3, 0.5, 5),
    (16, 7, 0.1, 1),
    (5, 17, 0.1, 20),
    (32, 32, 0.5, 5),
    (33, 12, 0.2, 5),
    (64, 64, 0.1, 3),
]


def test_plans_are_those_of_the_batched_version_in_float64() -> None:
    found = interpret(f"""
CASES = {CASES!r}
found = []
for n, m, step, iterations in CASES:
    exact = make(n, m)
    expected = proximal_point(*exact, step, iterations)
    assert not launched
    outcome = proximal_point(*single(exact), step, iterations)
    found.append({{
        "launches": len(launched),
        "error": difference(outcome.plan, expected.plan) / expected.plan.max().item(),
        "same": [torch.equal(*pair) for pair in zip(outcome[1:], expected[1:])],
        "shape": list(outcome.plan.shape),
    }})
    launched.clear()
print(json.dumps(found))
""")
    for case, result in zip(CASES, found, strict=True):
        assert result["launches"] == 1, case
        assert result["shape"] == [3, *case[:2]], case
        assert result["error"] < 2e-6, case
        assert result["same"] == [True, True], case  # iterations made, and whether they converged


def test_many_iterations_give_the_exact_value_of_pot() -> None:
    ot = pytest.importorskip("ot")
    found = interpret("""
cost, source_mass, target_mass = make(5, 7, batch=2)
solution = proximal_wasserstein(*single((cost, source_mass, target_mass)), step=0.5, iterations=1000)
assert launched
print(json.dumps([solution.value.tolist()] + [each.tolist() for each in (cost, source_mass, target_mass)]))
""")
    values, *problems = found
    for value, cost, source_mass, target_mass in zip(values, *problems, strict=True):
        assert value == pytest.approx(ot.emd2(source_mass, target_mass, cost), abs=2e-5)


def test_nodes_of_zero_mass_get_exactly_nothing_and_change_nothing() -> None:
    found = interpret("""
cost, source_mass, target_mass = single(make(6, 9))
pad = torch.nn.functional.pad
bare = proximal_point(cost, source_mass, target_mass, 0.1, 30).plan
wide = pad(cost, (0, 3, 0, 2), value=-4.0), pad(source_mass, (0, 2)), pad(target_mass, (0, 3))
plan = proximal_point(*wide, 0.1, 30).plan
expected = proximal_point(*(tensor.double() for tensor in wide), 0.1, 30).plan
assert len(launched) == 2
print(json.dumps({
    "outside": plan[:, 6:].abs().sum().item() + plan[:, :, 9:].abs().sum().item(),
    "inside": difference(plan[:, :6, :9], bare),
    "float64": difference(plan, expected),
}))
""")
    assert found["outside"] == 0
    assert found["inside"] < 1e-6
    assert found["float64"] < 1e-6


def test_plans_are_finite_with_exact_columns_at_all_steps_and_costs() -> None:
    found = interpret("""
cost, source_mass, target_mass = single(make(9, 12))
errors = []
for step in (1e-3, 0.1, 10.0):
    for scale in (1.0, -1e4):
        plan = proximal_point(scale * cost, source_mass, target_mass, step, 20).plan
        errors.append(difference(plan.sum(1), target_mass))
print(json.dumps({"errors": errors, "launches": len(launched)}))
""")
    assert found["launches"] == 6
    assert all(error < 1e-6 for error in found["errors"])  # NaN compares false


def test_a_cost_that_is_not_a_number_spoils_its_own_problem_visibly() -> None:
    found = interpret("""
tensors = single(make(5, 5))
tensors[0][1, 2, 3] = float("nan")
plan = proximal_point(*tensors, 0.5, 3).plan
print(json.dumps([plan.isnan().flatten(1).all(1).tolist(), plan.isnan().flatten(1).any(1).tolist(), len(launched)]))
""")
    assert found == [[False, True, False], [False, True, False], 1]


def test_views_that_are_not_contiguous_are_read_as_they_are() -> None:
    found = interpret("""
cost, source_mass, target_mass = make(6, 9)
shared = source_mass[:1].expand(3, -1)
plan = proximal_point(cost.float().mT.contiguous().mT, shared.float(), target_mass.float(), 0.2, 10).plan
print(json.dumps([difference(plan, proximal_point(cost, shared, target_mass, 0.2, 10).plan), len(launched)]))
""")
    assert found[0] < 1e-6
    assert found[1] == 1


def test_solvers_profit_where_no_gradient_goes_through_the_iterations() -> None:
    found = interpret("""
def launches(solve):
    launched.clear()
    solve()
    return len(launched)

cost, source_mass, target_mass = single(make(5, 6))
learnt = cost.clone().requires_grad_()
structure = make(5, 5)[0].float()
with torch.no_grad():
    disabled = launches(lambda: proximal_point(learnt, source_mass, target_mass, 0.5, 2))
print(json.dumps({
    "envelope": launches(lambda: proximal_wasserstein(learnt, iterations=2)),
    "none": launches(lambda: proximal_wasserstein(learnt, iterations=2, gradient="none")),
    "no gradient mode": disabled,
    "nested": launches(lambda: nested_gromov_wasserstein(structure, structure, outer=3, inner=2)),
    "unrolled": launches(lambda: proximal_wasserstein(learnt, iterations=2, gradient="unrolled")),
    "learnt cost": launches(lambda: proximal_point(learnt, source_mass, target_mass, 0.5, 2)),
    "learnt mass": launches(lambda: proximal_point(cost, source_mass.requires_grad_(), target_mass, 0.5, 2)),
    "tolerance": launches(lambda: proximal_wasserstein(cost, iterations=2, tolerance=1e-6)),
    "large": launches(lambda: proximal_wasserstein(single(make(5, 65))[0], iterations=2)),
    "float64": launches(lambda: proximal_wasserstein(cost.double(), iterations=2)),
    "empty": launches(lambda: proximal_point(cost[:0], source_mass[:0], target_mass[:0], 0.5, 2)),
}))
""")
    assert {name: count for name, count in found.items() if count} == {
        "envelope": 1,
        "none": 1,
        "no gradient mode": 1,
        "nested": 3,
    }


def test_gradients_are_those_of_the_batched_version() -> None:
    found = interpret("""
errors = []
for gradient in ("envelope", "unrolled"):
    exact = make(6, 5)[0].requires_grad_()
    rough = exact.detach().float().requires_grad_()
    pairs = [(cost, proximal_wasserstein(cost, iterations=8, gradient=gradient).value.sum()) for cost in (rough, exact)]
    errors.append(difference(*(torch.autograd.grad(value, cost)[0] for cost, value in pairs)))
print(json.dumps(errors))
""")
    assert max(found) < 1e-5


def test_tensors_on_the_cpu_stay_with_the_batched_version_without_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = sys.modules["fossil.transport.wasserstein"]

    def refuse(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(module, "kernels", refuse)
    assert proximal_wasserstein(torch.eye(3)).plan.isfinite().all()


NO_ASSEMBLER = 77

COMPILED = """
import json
import subprocess
import sys
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fossil.transport._proximal_kernel import LAUNCHES, proximal_kernel

tools = Path(triton.__file__).parent / "backends/nvidia/bin"
if not (tools / "cuobjdump").exists():
    sys.exit(77)
found = {}
for tile, launch in LAUNCHES.items():
    constants = {"ITERATIONS": 20, "TILE": tile}
    kinds = {"pointer": "*fp32", "unit": "fp32"}
    signature = {name: kinds.get(name.rsplit("_", 1)[-1], "i32") for name in proximal_kernel.arg_names}
    source = ASTSource(proximal_kernel, signature | dict.fromkeys(constants, "constexpr"), constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=launch.options())
    binary = Path(sys.argv[1]) / "kernel.cubin"
    binary.write_bytes(compiled.asm["cubin"])
    usage = subprocess.run([tools / "cuobjdump", "-res-usage", binary], capture_output=True, text=True, check=True)
    found[tile] = usage.stdout
print(json.dumps(found))
"""


def test_the_kernel_compiles_for_a_hopper_gpu_and_spills_nothing_of_small_tiles(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    command = [sys.executable, "-c", COMPILED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == NO_ASSEMBLER:
        pytest.skip("Triton has no assembler for NVIDIA GPUs here")
    assert done.returncode == 0, done.stderr
    usage = json.loads(done.stdout)
    assert list(usage) == ["16", "32", "64"]
    assert all("STACK:0" in usage[tile] for tile in ("16", "32"))
