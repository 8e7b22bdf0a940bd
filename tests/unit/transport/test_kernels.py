"""The GPU kernels against the batched version in float64, interpreted on the CPU; and compiled for a GPU, unrun."""

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

from fossil.errors import FossilWarning, SettingError
from fossil.transport import gpu_kernels, kernels, solve
from fossil.transport.problem import FusedProblem

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

# Triton decides at its import whether it interprets, so each run has a process of its own.
INTERPRETED = """
import json
import torch
from fossil.transport import gpu_kernels, kernels
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


SCORES = """
def score(n, m, alpha, marginals, precision, rows, columns, needed):
    problem = make(n, m, alpha, rows, columns)
    rough = single(problem)
    costs = [[getattr(each, name) for name in NEEDED[needed]] for each in (rough, problem)]
    for cost in costs[0] + costs[1]:
        cost.requires_grad_()
    plan, value, row_error, column_error = kernels.solve_fused(rough, 0.5, 5, True, marginals, precision)
    held = plan.double()
    expected = problem.objective(held, marginals)
    weights = torch.tensor([1.0, -2.0, 3.0])
    gradients = []
    for seed in (weights, torch.ones(()).expand(3)):  # the second, as after a sum, is one number for all problems
        found = torch.autograd.grad(value, costs[0], seed, retain_graph=True, allow_unused=True)
        wanted = torch.autograd.grad(expected, costs[1], seed.double(), retain_graph=True, allow_unused=True)
        assert [each is None for each in found] == [each is None for each in wanted]
        gradients += [(a - b).abs().max().item() for a, b in zip(found, wanted) if a is not None]
    return {
        "value": (value - expected).abs().max().item(),
        "row error": (row_error - (held.sum(2) - problem.source_mass).abs().sum(1)).abs().max().item(),
        "column error": (column_error - (held.sum(1) - problem.target_mass).abs().sum(1)).abs().max().item(),
        "rows": row_error.min().item(),
        "gradients": gradients,
        "plan": (plan - bapg(problem, step=0.5, iterations=5, symmetric=True).plan).abs().max().item(),
        "differentiable": [each.requires_grad for each in (plan, value, row_error, column_error)],
    }

NEEDED = {
    "all": ("feature_cost", "source_structure", "target_structure"),
    "feature": ("feature_cost",),
    "source": ("source_structure",),
    "target": ("target_structure",),
}
print(json.dumps([score(*case) for case in CASES]))
"""

# n, m, alpha, marginals, precision, padded rows, padded columns, costs that need a gradient
SCORED_CASES = [
    (5, 7, 0.4, "actual", "ieee", 0, 0, "all"),
    (5, 7, 0.4, "prescribed", "ieee", 0, 0, "all"),
    (20, 9, 0.0, "actual", "ieee", 0, 0, "all"),
    (6, 9, 0.5, "prescribed", "ieee", 11, 3, "all"),
    (6, 9, 0.5, "actual", "ieee", 2, 3, "all"),
    (6, 5, 1.0, "actual", "ieee", 0, 0, "all"),
    (6, 5, 0.5, "actual", "ieee", 0, 0, "feature"),
    (6, 5, 0.5, "actual", "ieee", 0, 0, "source"),
    (6, 5, 0.5, "prescribed", "ieee", 0, 0, "target"),
    (12, 10, 0.5, "actual", "float32", 0, 0, "all"),
    (7, 18, 0.5, "prescribed", "float32", 0, 0, "all"),
]


@pytest.fixture(scope="module")
def scores() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = interpret(f"CASES = {SCORED_CASES!r}\n{SCORES}")
    return found


@needs_triton
@pytest.mark.parametrize("index", range(len(SCORED_CASES)), ids=[repr(case) for case in SCORED_CASES])
def test_interpreted_scores_and_gradients_are_those_of_the_objective(scores: list[dict[str, Any]], index: int) -> None:
    found = scores[index]
    assert found["plan"] < 1e-5
    assert found["value"] < 2e-6
    assert found["row error"] < 1e-6
    assert found["column error"] < 1e-6
    assert found["rows"] > 1e-3  # so that a row error that is always zero would fail
    assert max(found["gradients"]) < 2e-6
    assert len(found["gradients"]) == 2 * (3 if SCORED_CASES[index][-1] == "all" and SCORED_CASES[index][2] != 1 else 1)
    assert found["differentiable"] == [False, True, False, False]


@needs_triton
def test_strided_costs_and_changed_values_are_differentiated_alike() -> None:
    found = interpret("""
rough = single(make(6, 9, 0.5))
def run(strided, changed):
    costs = [rough.feature_cost, rough.source_structure, rough.target_structure]
    leaves = [(cost.mT.contiguous() if strided else cost.clone()).requires_grad_() for cost in costs]
    views = [leaf.mT if strided else leaf for leaf in leaves]
    problem = FusedProblem(*views, rough.source_mass, rough.target_mass, 0.5)
    value = kernels.solve_fused(problem, 0.5, 3, True, "actual")[1]
    value = value.mul_(2) if changed else value * 2
    gradients = torch.autograd.grad(value.sum(), leaves)
    return [value.detach(), *(each.mT if strided else each for each in gradients)]
plain = run(False, False)
alike = [all(torch.equal(a, b) for a, b in zip(run(*how), plain)) for how in ((True, False), (False, True))]
print(json.dumps(alike))
""")
    assert found == [True, True]


@needs_triton
def test_identical_sides_have_almost_no_distance_in_either_full_precision() -> None:
    found = interpret("""
cost = single(make(12, 12, 0.5)).source_structure
problem = FusedProblem.uniform(1 - torch.eye(12).expand(3, 12, 12), cost, cost, 0.5)
print(json.dumps([kernels.solve_fused(problem, 0.02, 30, True, "actual", name)[1].abs().max().item()
                  for name in ("ieee", "float32")]))
""")
    assert max(found) < 1e-6


@pytest.mark.parametrize(("marginals", "precision"), [("both", "ieee"), ("actual", "bf16"), ("actual", "tf32x3")])
def test_unknown_options_are_refused_by_name(marginals: Any, precision: Any) -> None:
    cost = torch.rand(2, 4, 4)
    with pytest.raises(SettingError, match=r"both|bf16|tf32x3"):
        kernels.solve_fused(FusedProblem.uniform(cost, cost, cost, 0.5), 0.5, 5, True, marginals, precision)


@needs_triton
def test_values_and_envelope_gradients_with_the_kernel_are_those_without() -> None:
    found = interpret("""
def run(problem):
    for tensor in (problem.feature_cost, problem.source_structure, problem.target_structure):
        tensor.requires_grad_()
    value = solve(problem, step=0.5, iterations=5, symmetric=True).value
    costs = (problem.feature_cost, problem.source_structure, problem.target_structure)
    return value.detach(), *torch.autograd.grad(value.sum(), costs)

calls, whole = [], gpu_kernels.solve
gpu_kernels.solve = lambda *arguments: calls.append(1) or whole(*arguments)
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
    "envelope": kernels.fits(differentiable, None, True, held=True),
    "tolerance": kernels.fits(small, 1e-6, True),
    "directed": kernels.fits(small, None, False),
    "float64": kernels.fits(make(5, 6, 0.5), None, True),
    "large": kernels.fits(large, None, True),
    "unrolled": kernels.fits(differentiable, None, True),
    "misshapen": kernels.fits(misshapen, None, True),
    "empty": kernels.fits(small.part(0, 0), None, True),
}))
""")
    assert [name for name, answer in found.items() if answer] == ["small", "held plan", "envelope"]


def test_tensors_on_the_cpu_are_left_alone_without_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not gpu_kernels.serves(torch.device("cpu"))


def large(nodes: int) -> FusedProblem:
    cost = torch.rand(1, nodes, nodes, generator=torch.Generator().manual_seed(0))
    return FusedProblem.uniform(cost, cost + cost.mT, cost + cost.mT, 0.5)


@pytest.fixture
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_kernels, "serves", lambda device: True)
    monkeypatch.setattr(kernels, "_said", set())


@pytest.mark.usefixtures("pretended_gpu")
def test_a_problem_too_large_for_the_gpu_kernel_is_solved_with_one_warning() -> None:
    with pytest.warns(FossilWarning, match=r"65 and 65 nodes .* at most 64 .* smaller subgraphs") as caught:
        solution = solve(large(65), step=1.0, iterations=2, symmetric=True)
        solve(large(70), step=1.0, iterations=2, symmetric=True)
    assert [item.filename for item in caught] == [__file__]
    assert solution.plan.isfinite().all()


@pytest.mark.usefixtures("pretended_gpu")
def test_large_problems_that_no_kernel_would_take_anyway_get_no_warning() -> None:
    # FossilWarning is an error in these tests.
    problem = large(65)
    assert not kernels.fits(problem, 1e-6, True)
    assert not kernels.fits(problem, None, False)
    doubled = FusedProblem(**{name: tensor.double() for name, tensor in problem.tensors().items()}, alpha=0.5)
    assert not kernels.fits(doubled, None, True)


def test_the_solver_works_where_triton_cannot_be_imported() -> None:
    script = """
import sys
sys.modules["triton"] = None
import torch
from fossil.transport import FusedProblem, gpu_kernels, solve
cost = torch.eye(3)[None]
assert not gpu_kernels.serves(cost.device)
assert solve(FusedProblem.uniform(cost, cost, cost, 0.5), step=0.5).plan.isfinite().all()
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


SPLIT = """
import json, math
import torch, triton, triton.language as tl
from fossil.transport._tiles import _split

@triton.jit
def parts(rough_pointer, rest_pointer, pointer, SIZE: tl.constexpr):
    places = tl.arange(0, SIZE)
    rough, rest = _split(tl.load(pointer + places))
    tl.store(rough_pointer + places, rough)
    tl.store(rest_pointer + places, rest)

numbers = torch.randn(4096, generator=torch.Generator().manual_seed(0))
numbers[:2] = torch.tensor([0.0, 1.0])
rough, rest = torch.empty_like(numbers), torch.empty_like(numbers)
parts[(1,)](rough, rest, numbers, 4096)
# Eleven bits: a whole number of 2**-10 of the leading power of two.
def is_short(tensor):
    mantissa = torch.frexp(tensor.double()).mantissa * 2**11
    return bool((mantissa == mantissa.round()).all())
exact = numbers.double()
kept = (rest.view(torch.int32) & -8192).view(torch.float32)
step = torch.exp2(torch.floor(torch.log2(exact.abs().clamp_min(1e-30)))) * 2.0**-10
print(json.dumps({
    "short": is_short(rough),
    "rough": ((exact - rough.double()).abs() / step).max().item(),
    "lost": (exact - rough.double() - rest.double()).abs().max().item(),
    "cut": ((rest - kept).abs() / exact.abs().clamp_min(1e-30)).max().item(),
}))
"""


@needs_triton
def test_numbers_are_split_into_the_nearest_of_eleven_bits_and_the_rest() -> None:
    found = interpret(SPLIT)
    assert found["short"]
    assert 0.49 < found["rough"] <= 0.5  # cutting off would miss by up to one
    assert found["lost"] == 0
    assert found["cut"] <= 2**-22  # what the tensor cores cut off of the rest


NO_ASSEMBLER = 77

COMPILED = """
import json
import subprocess
import sys
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from fossil.transport import launches
from fossil.transport._bapg_kernel import bapg_kernel
from fossil.transport._envelope_kernel import envelope_kernel

tools = Path(triton.__file__).parent / "backends/nvidia/bin"
if not (tools / "ptxas").exists():
    sys.exit(77)
name, tile, precision, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
kernel = {"solver": bapg_kernel, "gradient": envelope_kernel}[name]
table = {"solver": launches.SOLVER_LAUNCHES, "gradient": launches.GRADIENT_LAUNCHES}[name]
switches = ("STRUCTURED", "CONSTANT_TERMS", "FEATURE", "SOURCE", "TARGET", "ACTUAL")
constants = {"ITERATIONS": 20, "PRECISION": precision, "SCORE_PRECISION": precision, "TILE": tile}
constants |= dict.fromkeys(switches, True)
constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
kinds = {"pointer": "*fp32", "alpha": "fp32", "unit": "fp32"}
signature = {name: kinds.get(name.rsplit("_", 1)[-1], "i32") for name in kernel.arg_names}
signature |= dict.fromkeys(constants, "constexpr")
compiled = triton.compile(
    ASTSource(kernel, signature, constants),
    target=GPUTarget("cuda", 90, 32),
    options=table[tile, precision].options(),
)
binary = folder / "kernel.cubin"
binary.write_bytes(compiled.asm["cubin"])
tool = tools / "cuobjdump"
usage = subprocess.run([tool, "-res-usage", binary], capture_output=True, text=True).stdout if tool.exists() else ""
print(json.dumps({"ptx": compiled.asm["ptx"], "usage": usage, "shared": compiled.metadata.shared}))
"""


@needs_triton
@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
@pytest.mark.parametrize(("kernel", "tile"), [("solver", 16), ("solver", 32), ("solver", 64), ("gradient", 32)])
def test_kernels_compile_for_a_hopper_gpu_with_the_products_asked_for(
    kernel: str, tile: int, precision: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, kernel, str(tile), precision, str(tmp_path)],
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
    assert ("tf32" in found["ptx"]) == (precision == "tf32x3")
    assert ("fma.rn.f32" in found["ptx"]) or precision == "tf32x3"
    assert found["shared"] <= 227 * 1024
    if tile == 16 and "STACK:" in usage:
        assert "STACK:0" in usage
