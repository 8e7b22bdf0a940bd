"""A step of FOSSIL with channels beside a step of FOSSIL at the same total width, in one run: time and memory.

    python benchmarks/channels.py --device cuda --precision tf32
    python benchmarks/channels.py --device cpu --graphs cora texas --repeats 3

Both have their default settings, FOSSIL with `width` as large as all channels together, on the graphs as they are. On a
GPU steps are captured and replayed, as in training. `v2` are the versions whose node loss does not grow with the graph.
"The whole" is a training of as many epochs as the method has by default and its encoding, after a short one that
compiled everything.
"""

from __future__ import annotations

import argparse
import warnings

import torch

import fossil
from components import make_trainer, step_milliseconds
from fossil.errors import FossilWarning
from fossil.graph.graph import Graph
from fossil.methods.fossil_channels import ChannelSettings
from fossil.methods.registry import get_method
from fossil.readers.source import open_graph
from measuring import Ledger, Record, clear, now, parser, peak_gigabytes, ready, table

GRAPHS = ["cora", "citeseer", "actor", "chameleon", "squirrel", "pubmed", "coauthor_cs"]
PAIRS = {"fossil": "fossil_channels", "fossil_v2": "fossil_channels_v2"}


def main() -> None:
    """Measure what was asked for and print a Markdown table."""
    made = parser(__doc__, results="channels-step.jsonl")
    made.add_argument("--graphs", nargs="+", default=GRAPHS, help="catalogue names, or csbm:nodes=200,degree=10")
    made.add_argument("--repeats", type=int, default=5, help="times of which the median is taken")
    made.add_argument("--no-training", action="store_true", help="leave whole trainings out")
    arguments = made.parse_args()
    device = ready(arguments, made)
    ledger = Ledger(arguments, key=["graph"])
    records = []
    for name in arguments.graphs:
        record = ledger.obtain({"graph": name}, lambda name=name: measure(name, device, arguments))  # type: ignore[misc]
        if record is not None:
            records.append(record)
            print(f"{name}: {record['fossil_channels_ms'] / record['fossil_ms']:.2f} times FOSSIL's step", flush=True)
    print_table(records, str(ledger))


def measure(name: str, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return times and peaks of all four methods on one graph."""
    graph, record = open_graph(name).graph, {}
    for plain, with_channels in PAIRS.items():
        kind = get_method(with_channels)
        completed = kind.complete(kind.configure(None), graph, arguments.seed)
        assert isinstance(completed, ChannelSettings) and completed.channels is not None
        total = len(completed.channels) * completed.width
        configured = {with_channels: completed, plain: get_method(plain).configure(None, {"width": total})}
        for method, config in configured.items():
            clear(device)
            trainer = make_trainer(method, config, graph, device, arguments.precision, arguments.seed)
            record[f"{method}_ms"] = step_milliseconds(trainer, arguments.repeats)
            record[f"{method}_gb"] = peak_gigabytes(device)
            del trainer
            if not arguments.no_training:
                record[f"{method}_s"] = whole(graph, method, total, device, arguments)
        record["width"] = total
    return record


def whole(graph: Graph, method: str, total: int, device: torch.device, arguments: argparse.Namespace) -> float:
    """Return the seconds of a whole training and its encoding, after one of a few epochs."""
    settings = {} if method in PAIRS.values() else {"width": total}
    for epochs in (8, None):
        began = now(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FossilWarning)  # of what FOSSIL does with the edges
            fossil.embed(
                graph,
                method=method,
                settings=settings,
                use_recipe=False,
                epochs=epochs,
                seed=arguments.seed,
                device=str(device),
                precision=arguments.precision,
            )
        seconds = now(device) - began
    return seconds


def print_table(records: list[Record], circumstances: str) -> None:
    """Print a row a graph."""
    print(f"\n{circumstances}. Milliseconds a step; GB are the peak of a step; s a whole training and its encoding.\n")
    units = {"ms": "ms a step", "gb": "GB", "s": "s the whole"}
    header, rows = ["graph", "width"], [[record["graph"], record["width"]] for record in records]
    for plain, with_channels in PAIRS.items():
        header.append(f"{with_channels} by {plain}")
        for row, record in zip(rows, records, strict=True):
            row.append(record[f"{with_channels}_ms"] / record[f"{plain}_ms"])
        for unit, words in units.items():
            header += [f"{method}, {words}" for method in (plain, with_channels)]
            for row, record in zip(rows, records, strict=True):
                row += [record.get(f"{method}_{unit}") for method in (plain, with_channels)]
    print(table(header, rows))


if __name__ == "__main__":
    main()
