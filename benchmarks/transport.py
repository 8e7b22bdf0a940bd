"""Speed and quality of the transport solver beside its peers, in the same run on the same problems.

    python benchmarks/transport.py --device cpu --quick
    python benchmarks/transport.py --device cuda --batches 900 9000 --sizes 12 30
    python benchmarks/transport.py --device cpu --numerics
    python benchmarks/transport.py --device cpu --single --iterations 500 --steps 1 --sizes 30 100 300

Each time is a median after a warm-up; a run of more than ten seconds is timed once. Solvers that take one pair at a
time are timed on a few pairs and the time is scaled to the batch; the table marks it. All solvers make the same number
of (outer) iterations at the same step. Their objectives are evaluated alike, with the marginals each plan really has; a
plan far from the prescribed masses can have an objective below the true distance, so read it with the row error. Failed
means a value, plan or gradient that is not finite.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from fossil.transport import FusedProblem
from measuring import hardware, now, version_of
from transport_contenders import OURS, PEERS, Contender, single_pair_solvers, training_pairs

RESULTS = Path(__file__).parent / "results"
GRID: dict[str, list[Any]] = {
    "batches": [100, 900, 9000],
    "sizes": [8, 12, 20, 30, 48, 64],
    "steps": [0.01, 0.1, 1.0],
}
QUICK: dict[str, list[Any]] = {"batches": [900], "sizes": [12, 30], "steps": [0.1]}
NUMERICS_STEPS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
NUMERICS_TEMPERATURES = (0.05, 0.2, 0.5, 1.0, 3.0)
NUMERICS_SCALES = (1.0, 1e2, 1e4)
LONG = 10.0
"""Seconds from which on a single run is its own measurement."""
Record = dict[str, Any]
Outcome = tuple[Tensor, Tensor, list[Tensor]]


def main() -> None:
    """Measure what was asked for, print a Markdown table and write one JSON record per row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batches", type=int, nargs="+", help="numbers of pairs")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of nodes")
    parser.add_argument("--steps", type=float, nargs="+")
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sample", type=int, default=12, help="pairs on which one-at-a-time solvers are timed")
    parser.add_argument("--threads", type=int, default=2, help="threads on the CPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", nargs="*", default=[peer.name for peer in PEERS], help="which to compare with")
    parser.add_argument("--quick", action="store_true", help="900 pairs of 12 and 30 nodes at a step of 0.1 only")
    parser.add_argument("--numerics", action="store_true", help="shares of failed problems, instead of times")
    parser.add_argument("--single", action="store_true", help="one pair of large graphs in float64, solvers in turn")
    parser.add_argument("--json", type=Path, help="file to add records to; by default under benchmarks/results")
    arguments = parser.parse_args()
    unknown = set(arguments.peers) - {peer.name for peer in PEERS}
    if unknown:
        parser.error(f"unknown peers {sorted(unknown)}; known: {[peer.name for peer in PEERS]}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here")
    for name, values in (QUICK if arguments.quick else GRID).items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, values)
    torch.set_num_threads(arguments.threads)

    contenders = [OURS, *(peer for peer in PEERS if peer.name in arguments.peers)]
    measure = failures if arguments.numerics else single_pairs if arguments.single else timings
    path = arguments.json or RESULTS / f"transport-{arguments.device}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    setting = circumstances(arguments)
    records = []
    for record in measure(arguments, contenders):
        records.append(record)
        with path.open("a") as stream:
            stream.write(json.dumps(record | setting) + "\n")
    print(
        f"{setting['hardware']}, PyTorch {setting['torch']}, POT {setting['pot']}, "
        f"Numba {setting['numba']}, {setting['threads']} threads\n"
    )
    print_table(records)


def timings(arguments: argparse.Namespace, contenders: list[Contender]) -> Iterator[Record]:
    """Yield one record per batch, size, step, direction and solver."""
    for batch, nodes in itertools.product(arguments.batches, arguments.sizes):
        problem = training_pairs(
            batch, nodes, temperature=arguments.temperature, seed=arguments.seed, device=arguments.device
        )
        for step, backward in itertools.product(arguments.steps, (False, True)):
            reference = None
            for contender in contenders:
                few = contender.single and arguments.sample < batch
                part = problem.part(0, arguments.sample) if few else problem
                seconds, outcome = measured(contender, part, step, backward, arguments)
                seconds *= batch / part.batch
                reference = seconds if reference is None else reference
                yield {
                    "kind": "timing",
                    "pairs": batch,
                    "nodes": nodes,
                    "step": step,
                    "pass": "forward + backward" if backward else "forward",
                    "solver": contender.name,
                    "milliseconds": 1e3 * seconds,
                    "times_ours": seconds / reference,
                    "timed_pairs": part.batch,
                } | quality(part, outcome)


def single_pairs(arguments: argparse.Namespace, _: list[Contender]) -> Iterator[Record]:
    """Yield one record per size, step and solver for one pair: the best of several times, in turn, after a warm-up."""
    for nodes, step in itertools.product(arguments.sizes, arguments.steps):
        made = training_pairs(1, nodes, temperature=arguments.temperature, seed=arguments.seed, device=arguments.device)
        costs = (made.feature_cost, made.source_structure, made.target_structure)
        pair = FusedProblem.uniform(*(cost.double() for cost in costs), alpha=made.alpha)
        solvers, seconds, plans = single_pair_solvers(), collections.defaultdict(list), {}
        for name, solve in [*solvers.items()] * (1 + arguments.repeats):
            began = now(torch.device(arguments.device))
            plans[name] = solve(pair, step, arguments.iterations)
            seconds[name].append(now(torch.device(arguments.device)) - began)
        times = {name: min(found[1:]) for name, found in seconds.items()}
        for name, plan in plans.items():
            yield {
                "kind": "single",
                "pairs": 1,
                "nodes": nodes,
                "step": step,
                "solver": name,
                "milliseconds": 1e3 * times[name],
                "times_pot": times[name] / times[name.replace("ours", "POT")],
            } | quality(pair, (pair.objective(plan), plan, []))


def failures(arguments: argparse.Namespace, contenders: list[Contender]) -> Iterator[Record]:
    """Yield one record per size, step, temperature, cost scale and solver, with the share of failed problems."""
    grid = itertools.product(arguments.sizes, NUMERICS_STEPS, NUMERICS_TEMPERATURES, NUMERICS_SCALES)
    for nodes, step, temperature, scale in grid:
        problem = training_pairs(
            arguments.sample,
            nodes,
            temperature=temperature,
            seed=arguments.seed,
            device=arguments.device,
            scale=scale,
        )
        for contender in contenders:
            yield {
                "kind": "numerics",
                "pairs": problem.batch,
                "nodes": nodes,
                "step": step,
                "temperature": temperature,
                "scale": scale,
                "solver": contender.name,
            } | quality(problem, solved(contender, problem, step, True, arguments.iterations))


def measured(
    contender: Contender, problem: FusedProblem, step: float, backward: bool, arguments: argparse.Namespace
) -> tuple[float, Outcome]:
    """Return the median time in seconds and what the last run found.

    The first run only warms up, unless it was so long that warming up is no part of it: then its time is the answer.
    """
    seconds = []
    for _ in range(1 + arguments.repeats):
        began = now(torch.device(arguments.device))
        outcome = solved(contender, problem, step, backward, arguments.iterations)
        seconds.append(now(torch.device(arguments.device)) - began)
        if seconds[0] > LONG:
            return seconds[0], outcome
    return median(seconds[1:]), outcome


def solved(contender: Contender, problem: FusedProblem, step: float, backward: bool, iterations: int) -> Outcome:
    """Return values, plans and, after a backward pass, the gradients of the three costs."""
    names = ("feature_cost", "source_structure", "target_structure")
    costs = {name: getattr(problem, name).detach().requires_grad_(backward) for name in names}
    value, plan = contender.run(dataclasses.replace(problem, **costs), step, iterations, backward)
    gradients = list(torch.autograd.grad(value.sum(), list(costs.values()))) if backward else []
    return value.detach(), plan.detach(), gradients


def quality(problem: FusedProblem, outcome: Outcome) -> Record:
    """Return the mean objective and row error over the problems that did not fail, and the share that did."""
    value, plan, gradients = outcome
    sound = value.isfinite()
    for tensor in (plan, *gradients):
        sound &= tensor.isfinite().flatten(1).all(1)
    objective = problem.objective(plan)[sound]
    row_error = (plan.sum(2) - problem.source_mass).abs().sum(1)[sound]
    return {
        "objective": objective.mean().item() if sound.any() else None,
        "row_error": row_error.mean().item() if sound.any() else None,
        "failed": 1 - sound.double().mean().item(),
    }


def circumstances(arguments: argparse.Namespace) -> Record:
    """Return what else decides the figures."""
    return {
        "device": arguments.device,
        "hardware": hardware(arguments.device),
        "threads": torch.get_num_threads(),
        "iterations": arguments.iterations,
        "seed": arguments.seed,
        "repeats": arguments.repeats,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "pot": version_of("POT"),
        "numba": version_of("numba"),
        "fossil": version_of("fossil-gnn"),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def print_table(records: list[Record]) -> None:
    """Print the records as Markdown, a column per field."""
    hidden = {"kind", "timed_pairs"}
    names = [name for name in records[0] if name not in hidden]
    print("| " + " | ".join(name.replace("_", " ") for name in names) + " |")
    print("|" + "---|" * len(names))
    for record in records:
        print("| " + " | ".join(cell(name, record) for name in names) + " |")
    if any(record.get("timed_pairs", record["pairs"]) < record["pairs"] for record in records):
        print("\n¹ scaled from a few pairs, to which the objective and what follows it refer")


def cell(name: str, record: Record) -> str:
    """Return one field as the table shows it."""
    value = record[name]
    if value is None:
        return "–"
    if name == "failed":
        return f"{100 * value:.1f} %"
    if name == "milliseconds":
        return f"{value:.3g}" if value < 100 else f"{value:.0f}"
    if name == "solver" and record.get("timed_pairs", record["pairs"]) < record["pairs"]:
        return f"{value} ¹"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
