"""Wall time of whole trainings of FOSSIL with their evaluation, and what all encoders of the paper's table would take.

    python benchmarks/train.py --device cuda --precision tf32 --seeds 3
    python benchmarks/train.py --device cpu --graphs csbm:nodes=200 --epochs 5 --splits 2

Every graph is trained once per seed in this process: 300 steps, then the linear probe of the `released` protocol on 20
splits, on the same device. The first run of a graph also compiles kernels and fills caches; it is reported by itself,
and the others count. Reading the graph is not included.
"""

from __future__ import annotations

import argparse
from statistics import mean, median
from typing import Any

import torch

import fossil
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import score
from fossil.graph.graph import Graph
from fossil.readers.source import open_graph
from fossil.settings import parse_assignments
from measuring import Ledger, Record, clear, now, parser, peak_gigabytes, ready, table

GRAPHS = ["cora", "citeseer", "pubmed", "coauthor_cs", "actor", "chameleon", "squirrel"]
PUBLISHED_SEEDS = 100


def main() -> None:
    """Train and evaluate what was asked for, and print a Markdown table."""
    made = parser(__doc__, results="train.jsonl")
    made.add_argument("--graphs", nargs="+", default=GRAPHS, help="catalogue names, or csbm:nodes=200,degree=10")
    made.add_argument("--nodes", type=int, help="one random graph of so many nodes in place of --graphs")
    made.add_argument("--method", default="fossil")
    made.add_argument("--set", dest="assignments", nargs="*", default=[], metavar="KEY=VALUE", help="settings")
    made.add_argument("--seeds", type=int, default=3, help="runs of each graph, at least two")
    made.add_argument("--epochs", type=int, default=300)
    made.add_argument("--splits", type=int, default=20)
    arguments = made.parse_args()
    if arguments.seeds < 2:
        made.error("--seeds: the first run only warms up, so there must be a second")
    device = ready(arguments, made)
    if arguments.nodes:
        arguments.graphs = [f"csbm:nodes={arguments.nodes}"]

    ledger = Ledger(arguments, ("graph", "method", "set", "epochs", "splits", "seeds"))
    records = []
    for name in arguments.graphs:
        wanted = {
            "graph": name,
            "method": arguments.method,
            "set": parse_assignments(arguments.assignments),
            "epochs": arguments.epochs,
            "splits": arguments.splits,
            "seeds": arguments.seeds,
        }
        record = ledger.obtain(wanted, lambda name=name: measure(name, device, arguments))  # type: ignore[misc]
        if record is not None:
            records.append(record)
            print(f"{name}: {record['seconds']:.3g} s", flush=True)
    print_table(records, str(ledger), arguments.seeds)


def measure(name: str, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return the times of all runs on one graph; those of the first stand apart."""
    graph = open_graph(name).graph
    clear(device)
    runs = [trained(graph, arguments.seed + i, device, arguments) for i in range(arguments.seeds)]
    first, later = runs[0], runs[1:]
    training = median(run["training"] for run in later)
    return {
        "seconds": median(run["training"] + run["evaluation"] for run in later),
        "training_seconds": training,
        "evaluation_seconds": median(run["evaluation"] for run in later),
        "epoch_ms": 1e3 * training / arguments.epochs,
        "first_seconds": first["training"] + first["evaluation"],
        "accuracy": mean(run["accuracy"] for run in runs),
        "runs": runs,
        "peak_gb": peak_gigabytes(device),
    }


def trained(graph: Graph, seed: int, device: torch.device, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one encoder, score it, and return how long both took."""
    began = now(device)
    result = fossil.embed(
        graph,
        method=arguments.method,
        settings=parse_assignments(arguments.assignments),
        seed=seed,
        epochs=arguments.epochs,
        device=str(device),
        precision=arguments.precision,
    )
    embedded = now(device)
    assert graph.labels is not None
    seeds = [seed + 1000 * i for i in range(arguments.splits)]
    rule = protocol("released")
    scores = score(result.vectors, graph.labels, rule, graph_name=graph.name, seeds=seeds, device=str(device))
    return {
        "seed": seed,
        "training": embedded - began,
        "evaluation": now(device) - embedded,
        "accuracy": mean(value.accuracy for value in scores),
    }


def print_table(records: list[Record], circumstances: str, seeds: int) -> None:
    """Print the times of each graph and of a hundred encoders on all of them."""
    print(f"\n{circumstances}. Seconds, median of {seeds - 1} run(s) after the first.\n")
    header = "graph|training s|ms a step|evaluation s|both s|first run s|accuracy %|peak GB"
    rows = [
        [
            record["graph"],
            record["training_seconds"],
            record["epoch_ms"],
            record["evaluation_seconds"],
            record["seconds"],
            record["first_seconds"],
            100 * record["accuracy"],
            record["peak_gb"],
        ]
        for record in records
    ]
    print(table(header.split("|"), rows))
    whole = PUBLISHED_SEEDS * sum(record["seconds"] for record in records)
    print(
        f"\n{PUBLISHED_SEEDS} seeds × {len(records)} graph(s) at this rate: {whole / 60:.1f} minutes, "
        "one after the other, start-up aside."
    )


if __name__ == "__main__":
    main()
