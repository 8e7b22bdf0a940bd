"""How a step on a part of the graph, and embedding in chunks, grow with the graph: up to a hundred million nodes.

    python benchmarks/large.py --device cuda                               # 10 k to 100 M nodes, both methods
    python benchmarks/large.py --sizes 10000 100000 --steps 5 --hidden 64  # a short one, on a CPU

A random graph is made where it is trained: both ends of an edge are drawn with a density that falls as the square root
of a node's number, so that degrees are skewed; each edge goes both ways, repeats and self-loops are left out, and the
mean degree is a little below the one asked for. Features are normal numbers in float16. For each size and method: the
median time of a step, the most memory of the card and of the process, and the time to work out what is not trained and
to embed all nodes, whose vectors are added up and dropped. Beside it, up to `--full` nodes, the same method's step on
the whole graph.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import pairwise, product
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from fossil.errors import FossilError
from fossil.graph.graph import Graph
from fossil.methods.base import Method
from fossil.methods.registry import get_method
from fossil.ops.memory import clear_peak, peak_bytes
from fossil.sampling.feature_rows import FeatureRows
from fossil.sampling.neighbourhoods import Adjacency
from fossil.sampling.store import GraphStore
from fossil.seeding import torch_generator
from fossil.settings import parse_assignments
from fossil.training.trainer import Trainer
from measuring import Ledger, Record, clear, now, parser, peak_gigabytes, ready, table

METHODS = ("fossil_v2", "fossil_channels_v2")
SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
CHUNK_EDGES = 1 << 27  # edges sorted at a time
WARM_UP = 5
HOST = torch.device("cpu")


def main() -> None:
    """Measure every size and method, and print a table."""
    made = parser(__doc__, results="large.jsonl")
    made.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    made.add_argument("--methods", nargs="+", default=METHODS)
    made.add_argument("--degree", type=float, default=14)
    made.add_argument("--features", type=int, default=128)
    made.add_argument("--fan-out", type=int, default=5)
    made.add_argument("--hidden", type=int, default=512)
    made.add_argument("--width", type=int, default=128, help="columns of a vector in all, shared by the channels")
    made.add_argument("--steps", type=int, default=30, help="measured at each size")
    made.add_argument("--trained", type=int, default=500, help="steps at the largest size, before all is embedded")
    made.add_argument("--full", type=int, default=1_000_000, help="largest size at which the full step is measured too")
    made.add_argument("--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE")
    arguments = made.parse_args()
    device = ready(arguments, made)
    ledger = Ledger(arguments, ("kind", "method", "nodes", "degree", "features", "fan_out", "hidden", "width"))
    records: list[Record] = []
    for nodes in arguments.sizes:
        records += measure_size(nodes, ledger, device, arguments)
        clear(device)
    print(f"\n{ledger}, fan-out {arguments.fan_out}, hidden {arguments.hidden}, width {arguments.width}.\n")
    print_tables(records)


def measure_size(nodes: int, ledger: Ledger, device: torch.device, arguments: argparse.Namespace) -> list[Record]:
    """Return what is measured on one graph of this size, which goes with the call."""
    began = now(device)
    store = random_store(nodes, arguments.degree, arguments.features, device, arguments.seed)
    edges, drawn = len(store.adjacency["out"].col), now(device) - began
    print(f"{nodes:,} nodes, {edges:,} edges, drawn in {drawn:.1f} s", flush=True)
    names = ("degree", "features", "fan_out", "hidden", "width")
    sizes = {"nodes": nodes} | {name: getattr(arguments, name) for name in names}
    measures = {"sampled": measure_sampled} | ({"full": measure_full} if nodes <= arguments.full else {})
    records = []
    for method, kind in product(arguments.methods, measures):
        asked: Record = {"kind": kind, "method": method} | sizes
        measure = partial(measures[kind], asked, store, device, arguments)
        found = ledger.obtain(asked, measure)
        if found is not None:
            records.append(found)
            print(f"  {method}, {kind}: {outcome(found)}", flush=True)
    return records


def random_store(nodes: int, degree: float, features: int, device: torch.device, seed: int) -> GraphStore:
    """Return an undirected graph with skewed degrees and features in float16, made on the device."""
    random = torch_generator(seed, "large graph", nodes, device=device)
    ends = [drawn_ends(round(nodes * degree / 2), nodes, random) for _ in range(2)]
    adjacency = sorted_adjacency(ends, nodes)
    del ends
    rows = torch.empty(nodes, features, dtype=torch.float16, device=device)
    for part in rows.split(1 << 22):
        part.copy_(torch.randn(part.shape, generator=random, device=device))
    return GraphStore.undirected(adjacency, FeatureRows(rows))


def drawn_ends(count: int, nodes: int, random: torch.Generator) -> Tensor:
    """Return one end of so many edges: node i with a density that falls as the root of i (int32)."""
    ends = torch.empty(count, dtype=torch.int32, device=random.device)
    for part in ends.split(1 << 26):
        uniform = torch.rand(len(part), generator=random, device=random.device, dtype=torch.float64)
        part.copy_((uniform.square() * nodes).long().clamp_max(nodes - 1))
    return ends


def sorted_adjacency(ends: list[Tensor], nodes: int) -> Adjacency:
    """Return the edges both ways, without repeats and self-loops, sorted a range of rows at a time."""
    device, total = ends[0].device, 2 * len(ends[0])
    counts = torch.zeros(nodes, dtype=torch.int64, device=device)
    for one in ends:
        for part in one.split(1 << 27):
            counts += torch.bincount(part, minlength=nodes)
    reached = counts.cumsum(0)
    bounds = [0]
    while bounds[-1] < nodes:
        before = 0 if bounds[-1] == 0 else int(reached[bounds[-1] - 1])
        last = int(torch.searchsorted(reached, before + CHUNK_EDGES, right=True))
        bounds.append(min(nodes, max(last, bounds[-1] + 1)))
    del counts, reached
    col = torch.empty(total, dtype=torch.int32, device=device)
    crow = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
    filled = 0
    for first, last in pairwise(bounds):
        keys = []
        for one, other in (ends, ends[::-1]):
            inside = (one >= first) & (one < last) & (one != other)
            keys.append((one[inside].long() - first) * nodes + other[inside])
        distinct = torch.unique_consecutive(torch.cat(keys).sort().values)
        del keys
        rows = distinct // nodes
        crow[first + 1 : last + 1] = torch.bincount(rows, minlength=last - first)
        col[filled : filled + len(distinct)] = (distinct - rows * nodes).int()
        filled += len(distinct)
    return Adjacency(crow.cumsum(0), col[:filled])


def method_of(wanted: Record, arguments: argparse.Namespace) -> Method[Any]:
    """Return the method with initial weights; a channel has its part of the width."""
    kind = get_method(wanted["method"])
    widths: dict[str, Any] = {"hidden": wanted["hidden"], "width": wanted["width"]}
    if "channels" in kind.Config.model_fields:
        # Two channels of two hops keep a number for each node and column while all are embedded.
        widths |= {"width": max(1, wanted["width"] // 2), "untrained": min(wanted["features"], 32)}
    config = kind.configure(None, widths, parse_assignments(arguments.assignments))
    return kind.build(config, wanted["features"], arguments.seed)


def measure_sampled(wanted: Record, store: GraphStore, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return the time of a sampled step, and of embedding all nodes, with the memory that both take."""
    clear(device)
    clear_peak(HOST)
    try:
        method = method_of(wanted, arguments).to(device)
        began = now(device)
        prepared = method.prepare_sampled(store, device, wanted["fan_out"])  # type: ignore[attr-defined]
        trainer = Trainer(method, prepared, arguments.seed, device, arguments.precision, replay=False)
        trainer.fit()
        fitted = now(device)
        times = step_times(trainer, WARM_UP + arguments.steps, device)
        result: Record = {
            "edges": len(store.adjacency["out"].col),
            "fit_seconds": fitted - began,
            "step_ms": 1e3 * median(times[WARM_UP:]),
            "training_gb": peak_gigabytes(device),
        }
        left = arguments.trained - len(times) if wanted["nodes"] == max(arguments.sizes) else 0
        began = now(device)
        step_times(trainer, left, device)
        result |= {"steps": len(times) + max(0, left), "training_seconds": sum(times) + now(device) - began}
        clear(device)
        began = now(device)
        result["checksum"] = checksum(method.eval(), prepared)
        result |= {"embed_seconds": now(device) - began, "embedding_gb": peak_gigabytes(device)}
        result["total_seconds"] = result["fit_seconds"] + result["training_seconds"] + result["embed_seconds"]
    except (torch.OutOfMemoryError, FossilError) as error:
        return {"failed": str(error).splitlines()[0]}
    return result | {"host_gb": (peak_bytes(HOST) or 0) / 1e9}


def measure_full(wanted: Record, store: GraphStore, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Return the time of the step that encodes the whole graph, captured and replayed where there is a GPU."""
    clear(device)
    adjacency, rows = store.adjacency["out"], store.features.data
    assert isinstance(rows, Tensor)
    parts = (np.ones(len(adjacency.col), np.float32), adjacency.col.cpu().numpy(), adjacency.crow.cpu().numpy())
    adjacency = sp.csr_array(parts, shape=(store.num_nodes, store.num_nodes))
    try:
        graph = Graph("random", adjacency, rows.float().cpu().numpy(), np.arange(store.num_nodes))
        method = method_of(wanted, arguments).to(device)
        trainer = Trainer(method, method.prepare(graph, device), arguments.seed, device, arguments.precision)
        trainer.fit()
        times = step_times(trainer, WARM_UP + min(10, arguments.steps), device)
    except (torch.OutOfMemoryError, FossilError) as error:
        return {"failed": str(error).splitlines()[0]}
    return {"step_ms": 1e3 * median(times[WARM_UP:]), "training_gb": peak_gigabytes(device)}


def step_times(trainer: Trainer, steps: int, device: torch.device) -> list[float]:
    """Take so many steps and return the seconds of each."""
    times = []
    for _ in range(steps):
        began = now(device)
        trainer.set_rates(max(1, steps))
        trainer.step()
        trainer.steps += 1
        times.append(now(device) - began)
    return times


def checksum(method: Method[Any], prepared: Any) -> float:
    """Embed all nodes, and return the sum of all their vectors' numbers."""
    inference, total = method.inference(prepared), 0.0  # type: ignore[attr-defined]
    chunk = 1 << 20
    for first in range(0, prepared.num_nodes, chunk):
        found = inference.vectors(first, min(first + chunk, prepared.num_nodes))
        total += float(found.vectors.sum(dtype=torch.float64))
    return total


def outcome(record: Record) -> str:
    """Return a record in a line."""
    if "failed" in record:
        return f"failed: {record['failed']}"
    if record["kind"] == "full":
        return f"{record['step_ms']:.3g} ms a step"
    return f"{record['step_ms']:.3g} ms a step, all embedded in {record['embed_seconds']:.3g} s"


def print_tables(records: list[Record]) -> None:
    """Print a line for each size and method, with the step relative to that of 100,000 nodes."""
    full = {(one["method"], one["nodes"]): one.get("step_ms") for one in records if one["kind"] == "full"}
    sampled = [one for one in records if one["kind"] == "sampled"]
    base = {one["method"]: one.get("step_ms") for one in sampled if one["nodes"] == 100_000}
    rows: list[list[object]] = []
    for one in sampled:
        if "failed" in one:
            rows.append([one["method"], one["nodes"], None, one["failed"], *[None] * 8])
            continue
        relative = one["step_ms"] / base[one["method"]] if base.get(one["method"]) else None
        names = ("training_gb", "embedding_gb", "host_gb", "fit_seconds", "training_seconds", "embed_seconds")
        cells = [one[name] for name in names]
        whole = full.get((one["method"], one["nodes"]))
        total = [one["steps"], one["total_seconds"]]
        rows.append([one["method"], one["nodes"], one["edges"], one["step_ms"], relative, whole, *cells, *total])
    header = ["method", "nodes", "edges", "ms a step", "times 100 k", "full step", "GB training", "GB embedding"]
    header += ["GB host", "s fitting", "s training", "s embedding", "steps", "s in all"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
