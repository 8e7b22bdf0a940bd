"""Time and error of the GPU solver by itself: 900 problems, 20 iterations, step 0.5, replayed without launch costs.

    python benchmarks/transport_kernels.py

Beside it stand the plain version, operation by operation, and the time that the kernel's instructions take at least
to be issued (stated, for an H200). Errors are the largest of any entry of a plan, against the plain version in float64.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import torch
from torch.nn.functional import normalize

from fossil.ops.bapg import Arithmetic, BapgRule, bapg, bapg_iterations
from fossil.transport import FusedProblem

PROBLEMS, ITERATIONS, STEP = 900, 20, 0.5
ERROR_STEPS = (0.1, 0.5, 1.0)
PRECISIONS: tuple[Arithmetic, ...] = ("float32", "ieee")
COSTS = ("feature_cost", "source_structure", "target_structure")
ISSUE_BOUND = {12: 20.0, 30: 130.0}  # microseconds


def make(size: int) -> FusedProblem:
    """Return problems like those of a training step, in float64."""
    random = torch.Generator().manual_seed(0)
    shape = PROBLEMS, size, 64
    first = normalize(torch.randn(shape, generator=random, dtype=torch.float64), dim=-1)
    second = normalize(first + 0.3 * torch.randn(shape, generator=random, dtype=torch.float64), dim=-1)
    edges = (torch.rand(PROBLEMS, size, size, generator=random) < 0.25).double()
    edges = torch.maximum(edges, edges.mT)
    feature, of_first, of_second = (
        torch.exp(-(x @ y.mT) / 0.8).cuda() for x, y in ((first, second), (first, first), (second, second))
    )
    return FusedProblem.uniform(feature, of_first * torch.exp(-edges / 0.8).cuda(), of_second, 0.5)


def microseconds(work: Callable[[], object], calls: int) -> float:
    """Return the median time of a call."""
    for _ in range(3):
        work()
    times = []
    for _ in range(7):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / calls)
    return float(median(times))


def replayed(work: Callable[[], object]) -> float:
    """Return the median time of a call without the cost of launching it."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(10):
            work()
    return microseconds(graph.replay, 5) / 10


def measure(size: int, precision: Arithmetic) -> str:
    """Return one row of the table."""
    exact = make(size)
    tensors = {name: tensor.float() for name, tensor in exact.tensors().items()}
    problem = FusedProblem(**tensors, alpha=exact.alpha)
    costs = {name: tensors[name].clone().requires_grad_() for name in COSTS}
    learning = FusedProblem(**(tensors | costs), alpha=exact.alpha)
    seed = torch.ones(PROBLEMS, device="cuda")
    rule = BapgRule(STEP, ITERATIONS, constant_terms=False, marginals="prescribed", arithmetic=precision)

    def forward(given: FusedProblem = problem) -> torch.Tensor:
        return bapg(given, rule).value

    alone = replayed(forward)
    both = replayed(lambda: torch.autograd.grad(forward(learning), list(costs.values()), seed))
    plain = microseconds(lambda: bapg_iterations(problem, rule), 2)
    errors = []
    for step in ERROR_STEPS:
        found = bapg(problem, replace(rule, step=step)).plan.double()
        expected = bapg_iterations(exact, replace(rule, step=step)).plan
        errors.append(f"{(found - expected).abs().max().item():.1e}")
    cells = [f"{size}", precision, f"{alone:.1f}", f"{both:.1f}", f"{plain / alone:.0f}"]
    cells += [f"{alone / ISSUE_BOUND[size]:.1f}", *errors]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here")
    titles = [
        "nodes",
        "precision",
        "forward µs",
        "forward + backward µs",
        "times faster than plain",
        "times the bound",
    ]
    titles += [f"plan error at step {step:g}" for step in ERROR_STEPS]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n\n| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for size in ISSUE_BOUND:
        for precision in PRECISIONS:
            print(measure(size, precision), flush=True)


if __name__ == "__main__":
    main()
