"""How the time of a training step grows with the graph, part by part, for FOSSIL (v1) and FOSSIL v2.

    python benchmarks/growth.py --device cuda --precision tf32
    python benchmarks/growth.py --device cuda --precision tf32 --large
    python benchmarks/growth.py --device cpu --nodes 200 --repeats 1 --graphs-per-size 1

Graphs are drawn from the contextual stochastic block model with the same mean degree at every size. Each part is timed
alone with its own backward pass (`components.py`), that of the losses up to the embeddings they look at. "Rest" is what
the whole step takes beyond these: the gate, the optimiser, and for v2 gradients of a few nodes spread over all. It can
be negative on a GPU, where transport and node loss run side by side. `--large` goes on where v1 is left behind: v2 up
to a million nodes, and v1 on the edges of ogbn-arxiv with random features.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np
import scipy.sparse as sp
import torch

from components import Components, make_trainer, step_milliseconds
from fossil.datasets.synthetic import csbm
from fossil.errors import FossilError
from fossil.graph.graph import Graph
from fossil.methods.registry import get_method
from fossil.runs.plan import resolve_settings
from fossil.seeding import numpy_generator
from fossil.settings import parse_assignments
from fossil.training.trainer import Trainer
from measuring import RESULTS, Ledger, Record, clear, parser, peak_gigabytes, ready, table

SIZES = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000]
LARGE = [100_000, 300_000, 1_000_000]
PARTS_TIMED = {
    "encoder and generator": "forward with backward",
    "sampling": "sampling",
    "transport": "transport with backward",
    "node loss": "node loss with backward",
}
PARTS = [*PARTS_TIMED, "rest"]
FLAT_PARTS = ("transport", "sampling", "node loss")
FLAT_FROM = 10_000
TITLES = {"fossil": "v1", "fossil_v2": "v2"}


def main() -> None:
    """Measure what was asked for, draw the figure, and print a Markdown table."""
    made = parser(__doc__, results="growth.jsonl")
    made.add_argument("--nodes", type=int, nargs="+", default=SIZES, help="sizes of the graphs")
    made.add_argument("--graphs-per-size", type=int, default=5)
    made.add_argument("--methods", nargs="+", default=list(TITLES), choices=list(TITLES))
    made.add_argument("--degree", type=float, default=10.0)
    made.add_argument("--features", type=int, default=128)
    made.add_argument("--set", dest="assignments", nargs="*", default=[], metavar="KEY=VALUE", help="settings")
    made.add_argument("--repeats", type=int, default=3, help="times of which the median is taken")
    made.add_argument("--large", action="store_true", help="v2 up to a million nodes, v1 on ogbn-arxiv")
    made.add_argument("--large-nodes", type=int, nargs="+", default=LARGE)
    made.add_argument("--figure", type=Path, default=RESULTS / "growth.png")
    arguments = made.parse_args()
    device = ready(arguments, made)

    plan = [
        (method, "csbm", nodes, number)
        for nodes in arguments.nodes
        for number in range(arguments.graphs_per_size)
        for method in arguments.methods
    ]
    if arguments.large:
        plan += [("fossil_v2", "csbm", nodes, 0) for nodes in arguments.large_nodes]
        plan += [(method, "ogbn-arxiv", 0, 0) for method in ("fossil_v2", "fossil")]
    ledger = Ledger(arguments, ("method", "graph", "asked_nodes", "number", "degree", "features", "set"))
    records = []
    for method, name, nodes, number in plan:
        wanted: Record = {
            "method": method,
            "graph": name,
            "asked_nodes": nodes,
            "number": number,
            "degree": arguments.degree,
            "features": arguments.features,
            "set": parse_assignments(arguments.assignments),
            "repeats": arguments.repeats,
        }
        record = ledger.obtain(wanted, lambda wanted=wanted: measure(wanted, device, arguments))  # type: ignore[misc]
        if record is not None:
            records.append(record)
            print(f"{name} {nodes:,} {TITLES[method]}: {_outcome(record)}", flush=True)
    rows = averages(records)
    draw(rows, arguments.figure)
    print(f"\n{ledger}. Milliseconds per training step.\n")
    print_tables(rows)


def measure(wanted: Record, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return the parts of a step on one graph, or why there are none."""
    clear(device)
    try:
        began = time.perf_counter()
        graph = made_graph(wanted, arguments.seed)
        drawn = time.perf_counter()
        _, config = resolve_settings(get_method(wanted["method"]), None, "", wanted["set"])
        trainer = make_trainer(wanted["method"], config, graph, device, arguments.precision, arguments.seed)
        prepared = time.perf_counter()
        whole = step_milliseconds(trainer, arguments.repeats)
        peak = peak_gigabytes(device)
        # The recording of the whole step goes with its trainer, so that those of the parts have room.
        trainer = Trainer(trainer.method, trainer.prepared, arguments.seed, device, arguments.precision)
        clear(device)
        times = Components(trainer).times(arguments.repeats, PARTS_TIMED.values())
    except (torch.OutOfMemoryError, FossilError) as error:
        return {"failed": str(error).splitlines()[0]}
    parts = {part: times[name] for part, name in PARTS_TIMED.items()}
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "step_ms": whole,
        "parts_ms": parts | {"rest": whole - sum(parts.values())},
        "peak_gb": peak,
        "draw_seconds": drawn - began,
        "prepare_seconds": prepared - drawn,
    }


def made_graph(wanted: Record, seed: int) -> Graph:
    """Return the random graph, or ogbn-arxiv's edges with random features."""
    if wanted["graph"] == "csbm":
        number = seed + wanted["number"]
        return csbm(wanted["asked_nodes"], degree=wanted["degree"], features=wanted["features"], seed=number)
    path = Path(os.environ.get("FOSSIL_DATA", ".")) / "ogbn_arxiv_nofeat" / "raw" / "adj_full.npz"
    if not path.exists():
        raise FossilError(f"{path} is not there.", remedy="Point FOSSIL_DATA to the folder of the data sets.")
    adjacency = sp.csr_array(sp.load_npz(path)).astype(np.float32)
    adjacency = sp.csr_array(adjacency + adjacency.T)  # citations both ways, as papers train on it
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    adjacency.data[:] = 1
    adjacency.sort_indices()
    nodes = adjacency.shape[0]
    features = numpy_generator(seed, "features").standard_normal((nodes, wanted["features"]), dtype=np.float32)
    return Graph("ogbn-arxiv edges", adjacency, features, np.arange(nodes))


def averages(records: list[Record]) -> list[Record]:
    """Return one row for each method, kind of graph and size: means over the graphs of that size."""
    groups = defaultdict(list)
    for record in records:
        groups[TITLES[record["method"]], record["graph"], record["asked_nodes"]].append(record)
    rows = []
    for (version, graph, asked), group in groups.items():
        kept = [record for record in group if "failed" not in record]
        row: Record = {"version": version, "graph": graph, "nodes": asked, "graphs": len(kept)}
        if kept:
            row |= {
                "nodes": round(mean(record["nodes"] for record in kept)),
                "step_ms": mean(record["step_ms"] for record in kept),
                "parts_ms": {part: mean(record["parts_ms"][part] for record in kept) for part in PARTS},
                "peak_gb": max((record["peak_gb"] for record in kept if record["peak_gb"]), default=None),
            }
        else:
            row["failed"] = group[0]["failed"]  # said when it happened
        rows.append(row)
    return sorted(rows, key=lambda row: (row["graph"], row["version"], row["nodes"]))


def print_tables(rows: list[Record]) -> None:
    """Print the parts at each size, and how flat those of v2 are that should not know the size."""
    shown = [
        [row["version"], row["graph"], row["nodes"], *_cells(row), row.get("step_ms"), row.get("peak_gb")]
        for row in rows
    ]
    print(table(["version", "graph", "nodes", *PARTS, "whole step", "peak GB"], shown))
    second = [row for row in rows if row["version"] == "v2" and row["graph"] == "csbm" and "failed" not in row]
    sums = {row["nodes"]: sum(row["parts_ms"][part] for part in FLAT_PARTS) for row in second}
    if FLAT_FROM in sums:
        print(f"\nTransport + sampling + node loss of v2, relative to {FLAT_FROM:,} nodes:\n")
        flat = [[nodes, value, value / sums[FLAT_FROM]] for nodes, value in sums.items() if nodes >= FLAT_FROM]
        print(table(["nodes", "ms", "times"], flat))


def _cells(row: Record) -> list[object]:
    if "failed" in row:
        return ["failed", *[None] * (len(PARTS) - 1)]
    return [row["parts_ms"][part] for part in PARTS]


def _outcome(record: Record) -> str:
    return f"failed: {record['failed']}" if "failed" in record else f"{record['step_ms']:.3g} ms"


def draw(rows: list[Record], path: Path) -> None:
    """Write the parts as stacked areas over the size, a panel for each version; nothing without Matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        print("no figure: Matplotlib is not installed")
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = {
        version: [row for row in rows if row["version"] == version and row["graph"] == "csbm" and "failed" not in row]
        for version in TITLES.values()
    }
    panels = {version: found for version, found in panels.items() if found}
    if not panels:
        return
    figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (version, found) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        sizes = [row["nodes"] for row in found]
        axes.stackplot(sizes, *([max(row["parts_ms"][part], 0) for row in found] for part in PARTS), labels=PARTS)
        axes.set(title=f"FOSSIL {version}", xlabel="nodes", ylabel="ms per training step", ylim=(0, None))
        if sizes[-1] > 20 * sizes[0]:
            axes.set_xscale("log")
        axes.legend(loc="upper left", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
