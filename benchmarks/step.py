"""Time of one training step of FOSSIL, beside the released algorithm in the same run and beside what is possible.

    python benchmarks/step.py --device cuda --precision tf32
    python benchmarks/step.py --device cuda --precision tf32 --direction symmetrize --graphs actor chameleon squirrel
    python benchmarks/step.py --device cpu --graphs cora --repeats 3
    python benchmarks/step.py --device cuda --precision tf32 --profile cora

"Ours" is the step as it is trained: on a GPU captured once and replayed; "eager" is the same step without that. The
reference (`reference.py`) takes the step of the authors' code on the same graph with the same settings. Each time is a
median after a warm-up; on a CPU the two take turns. The floor is computed from the arithmetic and the bytes of a step
(`floor.py`), and the second table has the parts of our step, each timed alone (`components.py`).
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import torch

from components import Components, make_trainer, step_milliseconds
from floor import floor_of, rates_of
from fossil.datasets.catalog import known_name
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.methods.registry import get_method
from fossil.ops.precision import Products, arithmetic
from fossil.readers.source import open_graph
from fossil.runs.plan import resolve_settings
from fossil.settings import Settings, parse_assignments
from measuring import Ledger, Record, clear, milliseconds, parser, peak_gigabytes, ready, table
from profiling import print_profile
from reference import Reference

GRAPHS = ["cora", "citeseer", "pubmed", "coauthor_cs", "actor", "chameleon", "squirrel"]
PARTS = ["sampling", "forward", "transport", "node loss", "backward", "gate", "optimiser"]
_DENSE_COPIES = 8  # N×N matrices that the reference holds at once: four exponentials, and as much for their gradients


def main() -> None:
    """Measure what was asked for and print two Markdown tables, or a profile."""
    made = parser(__doc__, results="step.jsonl")
    made.add_argument("--graphs", nargs="+", default=GRAPHS, help="catalogue names, or csbm:nodes=200,degree=10")
    made.add_argument("--nodes", type=int, help="one random graph of so many nodes in place of --graphs")
    made.add_argument("--method", default="fossil", choices=["fossil", "fossil_v2"])
    made.add_argument("--set", dest="assignments", nargs="*", default=[], metavar="KEY=VALUE", help="settings")
    made.add_argument(
        "--direction", default="keep", choices=["keep", "symmetrize"], help="edges as they are, or both ways"
    )
    made.add_argument("--repeats", type=int, default=5, help="times of which the median is taken")
    made.add_argument("--reference-repeats", type=int, default=3)
    made.add_argument(
        "--reference-memory", type=float, default=8.0, help="GB it may take on a CPU, else it is left out"
    )
    made.add_argument("--no-reference", action="store_true")
    made.add_argument("--no-components", action="store_true")
    made.add_argument("--profile", metavar="GRAPH", help="print where the time of a step goes, and nothing else")
    arguments = made.parse_args()
    device = ready(arguments, made)
    if arguments.nodes:
        arguments.graphs = [f"csbm:nodes={arguments.nodes}"]
    if arguments.profile:
        graph, config = opened(arguments.profile, arguments)
        trainer = make_trainer(arguments.method, config, graph, device, arguments.precision, arguments.seed)
        print_profile(trainer, arguments.profile)
        return

    ledger = Ledger(arguments, ("graph", "direction", "method", "set", "with_reference", "with_components"))
    records = []
    for name in arguments.graphs:
        wanted = {
            "graph": name,
            "direction": arguments.direction,
            "method": arguments.method,
            "set": parse_assignments(arguments.assignments),
            "with_reference": not arguments.no_reference,
            "with_components": not arguments.no_components,
            "repeats": arguments.repeats,
        }
        record = ledger.obtain(wanted, lambda name=name: measure(name, device, arguments))  # type: ignore[misc]
        if record is not None:
            records.append(record)
            print(f"{name}: {record['ours_ms']:.3g} ms", flush=True)
    print_tables(records, str(ledger))


def opened(name: str, arguments: argparse.Namespace) -> tuple[Graph, Settings]:
    """Return a graph and the settings it is trained with."""
    graph = open_graph(name, treatment=Treatment(direction=arguments.direction)).graph
    chosen = parse_assignments(arguments.assignments)
    return graph, resolve_settings(get_method(arguments.method), None, known_name(graph), chosen)[1]


def measure(name: str, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return times, memory, parts and floor of one graph."""
    graph, config = opened(name, arguments)
    record: Record = {"nodes": graph.num_nodes, "edges": graph.num_edges, "settings": config.model_dump(mode="json")}
    if device.type == "cpu" and not arguments.no_reference:
        record |= in_turns(graph, config, device, arguments)
    else:
        record |= measure_ours(graph, config, device, arguments)
    if device.type == "cuda":
        record |= measure_ours(graph, config, device, arguments, replay=False)
    if not arguments.no_components:
        clear(device)
        trainer = make_trainer(arguments.method, config, graph, device, arguments.precision, arguments.seed)
        times = {"node loss": 0.0} | Components(trainer).times(arguments.repeats)
        record["parts_ms"] = times | {"backward": times["losses with backward"] - times["losses"]}
        del trainer
    if device.type != "cpu" and not arguments.no_reference:
        record |= measure_reference(graph, config, device, arguments)
    rates = rates_of(device, arguments.precision)
    floor = floor_of(config, graph, rates, device)  # type: ignore[arg-type]
    return record | {"floor_parts_ms": floor, "floor_ms": sum(floor.values()), "rates": rates._asdict()}


def measure_ours(
    graph: Graph, config: Settings, device: torch.device, arguments: argparse.Namespace, *, replay: bool = True
) -> Record:
    """Return time and memory of the library's step, as trained or operation by operation."""
    clear(device)
    trainer = make_trainer(arguments.method, config, graph, device, arguments.precision, arguments.seed, replay=replay)
    name = "ours" if replay else "eager"
    time = step_milliseconds(trainer, arguments.repeats)
    return {f"{name}_ms": time, f"{name}_gb": peak_gigabytes(device)}


def measure_reference(graph: Graph, config: Any, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return time and memory of the released algorithm, or why there are none."""
    # It has no mixed precision; the nearest it can do is TF32.
    precision: Products = "tf32" if arguments.precision == "bfloat16" else arguments.precision
    clear(device)
    try:
        step = Reference(config, graph, device, arguments.seed).step
        with arithmetic(precision, device):
            step()
            time = milliseconds(step, device, arguments.reference_repeats, block=1)
    except torch.OutOfMemoryError:
        return {"reference_ms": None, "reference_failed": "out of memory"}
    return {"reference_ms": time, "reference_gb": peak_gigabytes(device), "reference_precision": precision}


def in_turns(graph: Graph, config: Any, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return the time of our step and of the reference, each a median of steps that take turns.

    A processor that others use as well is not as fast in one minute as in the next. Of two steps at each turn the
    second is timed: it finds caches and memory as a step of its own kind left them, as in training.
    """
    needed = _DENSE_COPIES * 4 * graph.num_nodes**2 if config.node_contrast == "all_nodes" else 0
    if needed > arguments.reference_memory * 1e9:
        missing = {"reference_ms": None, "reference_failed": f"needs about {needed / 1e9:.0f} GB"}
        return measure_ours(graph, config, device, arguments) | missing
    trainer = make_trainer(arguments.method, config, graph, device, arguments.precision, arguments.seed)
    step = Reference(config, graph, device, arguments.seed).step
    ours, reference = [], []
    for turn in range(max(arguments.repeats, arguments.reference_repeats)):
        if turn < arguments.repeats:
            ours.append(step_milliseconds(trainer, 1))
        if turn < arguments.reference_repeats:
            step()
            reference.append(milliseconds(step, device, 1))
    return {"ours_ms": median(ours), "ours_gb": None, "reference_ms": median(reference), "reference_gb": None}


def print_tables(records: list[Record], circumstances: str) -> None:
    """Print the step beside reference and floor, and then its parts."""
    print(f"\n{circumstances}. Milliseconds per training step.\n")
    header = "graph|reference ms|ours ms|times faster|eager ms|floor ms|step/floor|peak GB reference|peak GB ours"
    rows = []
    for record in records:
        reference, ours, floor = record.get("reference_ms"), record["ours_ms"], record["floor_ms"]
        rows.append(
            [
                _name(record),
                reference or record.get("reference_failed"),
                ours,
                reference / ours if reference else None,
                record.get("eager_ms"),
                floor,
                ours / floor,
                record.get("reference_gb"),
                record["ours_gb"],
            ]
        )
    print(table(header.split("|"), rows))
    if records:
        rates = records[0]["rates"]
        tera = {name: f"{rate / 1e12:.3g}" for name, rate in rates.items() if name != "origin"}
        print(
            f"\nFloor at {tera['products']} TFLOP/s for products, {tera['node_loss']} for those of the node loss, "
            f"{tera['float32']} in float32, {tera['bytes']} TB/s and {tera['exponentials']} T exponentials/s "
            f"({rates['origin']})."
        )
    detailed = [record for record in records if "parts_ms" in record]
    if detailed:
        print("\nParts of our step, each alone; forward has encoder, generator and fusion, transport its costs.\n")
        rows = [
            [_name(record), *(record["parts_ms"][part] for part in PARTS), record["ours_ms"]] for record in detailed
        ]
        print(table(["graph", *PARTS, "whole step"], rows))


def _name(record: Record) -> str:
    return f"{record['graph']} (symmetrized)" if record["direction"] == "symmetrize" else str(record["graph"])


if __name__ == "__main__":
    main()
