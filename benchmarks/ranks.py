"""A training in several processes beside the same training in one: time of a step, and how far the vectors are apart.

    python benchmarks/ranks.py
    python benchmarks/ranks.py --methods fossil_v2 --nodes 20000 --processes 1 2 4 --steps 20
    python benchmarks/ranks.py --nodes 20000 --fan-out 5     # steps on samples

Every process has one thread (`--threads`), and one process with as many threads as there are processes stands beside
them: what the same cores do without this. Processes that are more than the cores share them, and cannot be faster for
it. Times are medians of all steps but the first three, on the process that leads: by the clock, and of its own use of
a processor, which other work on the machine hardly changes and in which waiting for others does not count. The vectors
are compared after all steps, with those of one process and one thread: the largest difference over the largest entry.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fossil.datasets.synthetic import csbm
from fossil.methods.registry import get_method
from fossil.runs.plan import resolve_settings
from fossil.sampling.store import GraphStore
from fossil.settings import parse_assignments
from fossil.training.devices import resolve_device
from fossil.training.distributed import exit_process, process_group
from fossil.training.trainer import Trainer
from measuring import Ledger, Record, parser, ready, table

WARM_UP = 3
LOOPBACK = "127.0.0.1"


def main() -> None:
    """Measure what was asked for, and print a Markdown table."""
    made = parser(__doc__, results="ranks.jsonl")
    made.set_defaults(threads=1)
    made.add_argument("--methods", nargs="+", default=["fossil_v2", "fossil_channels_v2"])
    made.add_argument("--nodes", type=int, default=3_000)
    made.add_argument("--features", type=int, default=128)
    made.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    made.add_argument("--steps", type=int, default=15, help=f"the first {WARM_UP} are not counted")
    made.add_argument("--fan-out", type=int, help="steps on samples, with so many neighbours of a node; 0 for all")
    made.add_argument("--set", dest="assignments", nargs="*", default=[], metavar="KEY=VALUE", help="settings")
    made.add_argument("--out", type=Path, help="where a launched process writes what it found (the script's own use)")
    arguments = made.parse_args()
    if arguments.steps <= WARM_UP:
        made.error(f"--steps {arguments.steps} leaves nothing to measure: the first {WARM_UP} are not counted")
    device = ready(arguments, made)
    wanted: Record = {
        name: getattr(arguments, name) for name in ("nodes", "features", "steps", "seed", "device", "precision")
    }
    wanted |= {"set": parse_assignments(arguments.assignments), "fan_out": arguments.fan_out}
    if arguments.out is not None:
        train(wanted | {"method": arguments.methods[0]}, arguments.out)
        exit_process()
    cases = [(1, arguments.threads)]
    for number in arguments.processes:
        if number > 1:
            cases += [(1, number), (number, arguments.threads)] if device.type == "cpu" else [(number, 1)]
    ledger = Ledger(arguments, ("method", "nodes", "features", "steps", "set", "fan_out", "processes", "threads_each"))
    for method in arguments.methods:
        with tempfile.TemporaryDirectory() as folder:
            records = []
            for processes, threads in cases:
                case = wanted | {"method": method, "processes": processes, "threads_each": threads}
                record = ledger.obtain(case, lambda case=case: launched(case, Path(folder)))  # type: ignore[misc]
                if record is not None:
                    records.append(record)
        show(method, records, ledger)


def launched(case: Record, folder: Path) -> Record:
    """Return what processes of their own find; the first vectors stay in the folder, and others are compared."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    out, alone = folder / "found", folder / "alone.npy"
    script = [__file__, "--out", str(out), "--methods", case["method"], "--threads", str(case["threads_each"])]
    for name in ("nodes", "features", "steps", "seed", "device", "precision"):
        script += [f"--{name}", str(case[name])]
    if case["fan_out"] is not None:
        script += ["--fan-out", str(case["fan_out"])]
    if case["set"]:
        script += ["--set", *(f"{name}={json.dumps(value)}" for name, value in case["set"].items())]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(case["processes"])]
    launcher += ["--master-addr", LOOPBACK, "--master-port", str(port)]
    environment = os.environ | {"OMP_NUM_THREADS": str(case["threads_each"])}
    subprocess.run([sys.executable, *launcher, *script], env=environment, check=True)
    found: Record = json.loads(out.with_suffix(".json").read_text())
    vectors = out.with_suffix(".npy")
    if (case["processes"], case["threads_each"]) == (1, 1):
        vectors.rename(alone)
    elif alone.exists():  # and not taken from a file of results
        mine, theirs = np.load(vectors), np.load(alone)
        found["apart"] = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
    return found


def train(case: Record, out: Path) -> None:
    """Train as one of the processes; the one that leads writes down times and vectors."""
    kind = get_method(case["method"])
    graph = csbm(case["nodes"], degree=10.0, features=case["features"], seed=case["seed"])
    _, config = resolve_settings(kind, None, "", case["set"])
    with process_group() as processes:
        ranks = processes.join(case["device"])
        device = resolve_device(case["device"])
        method = kind.build(kind.complete(config, graph, case["seed"]), graph.num_features, case["seed"]).to(device)
        prepared = whole = method.prepare(graph, device)
        if case["fan_out"] is not None:
            store = GraphStore.of(graph, method.edge_directions)
            prepared = method.prepare_sampled(store, device, case["fan_out"] or None)
        trainer = Trainer(method, prepared, case["seed"], device, case["precision"], ranks=ranks)
        ends: list[tuple[float, float]] = []

        def after_step(*_: object) -> bool:
            ends.append((time.perf_counter(), time.process_time()))
            return False

        trainer.run(case["steps"], after_step)
        trainer.close()
    if ranks.leads:
        step, used = (1e3 * np.median(np.diff(ends, axis=0)[WARM_UP - 1 :], axis=0)).tolist()
        np.save(out.with_suffix(".npy"), method.eval().encode(whole).on_host().vectors.numpy())
        out.with_suffix(".json").write_text(json.dumps({"step_ms": step, "processor_ms": used}))


def show(method: str, records: list[Record], ledger: Ledger) -> None:
    """Print the cases beside the first one."""
    alone = records[0] if records else None
    rows = [
        [
            record["processes"],
            record["threads_each"],
            record["step_ms"],
            alone["step_ms"] / record["step_ms"],
            record["processor_ms"],
            alone["processor_ms"] / record["processor_ms"],
            record.get("apart"),
        ]
        for record in records
        if alone is not None
    ]
    print(f"\n{method}: {ledger}; {os.cpu_count()} cores.\n")
    header = ["processes", "threads each", "step ms", "times faster", "processor ms", "times less", "vectors apart"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
