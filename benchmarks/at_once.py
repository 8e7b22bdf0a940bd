"""How many trainings a minute several processes make on one device, beside one process that makes them one by one.

    python benchmarks/at_once.py --device cuda --precision tf32
    python benchmarks/at_once.py --device cpu --graphs csbm:nodes=200 --methods dgi grace --epochs 5 --jobs 1 2

The same trainings for every number of processes, each time into an empty store: graphs × methods × seeds, scored under
`converged` on two splits. `--mps` also measures processes that share the GPU by NVIDIA's Multi-Process Service. The
clock runs from the command's start of processes to the last record, so that their start-up counts, as it does for
users. A round before the first measurement compiles kernels, whose files all processes find.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import yaml

from fossil.studies.execute import run_study
from fossil.studies.plan import open_study
from fossil.studies.results import Results
from fossil.studies.store import Store
from fossil.studies.work import Options
from measuring import Ledger, Record, parser, ready, table

METHODS = ["fossil", "dgi", "grace", "bgrl"]


def main() -> None:
    """Measure what was asked for, and print a Markdown table."""
    made = parser(__doc__, results="at-once.jsonl")
    made.add_argument("--graphs", nargs="+", default=["cora", "chameleon"], help="catalogue names")
    made.add_argument("--methods", nargs="+", default=METHODS)
    made.add_argument("--seeds", type=int, default=4, help="encoders of each method on each graph")
    made.add_argument("--epochs", type=int, help="in place of the methods' own")
    made.add_argument("--jobs", nargs="+", type=int, default=[1, 2, 4, 8, 12], help="processes at once")
    made.add_argument("--mps", action="store_true", help="measure several processes with MPS too")
    arguments = made.parse_args()
    ready(arguments, made)

    ledger = Ledger(arguments, ("graphs", "methods", "seeds", "epochs", "jobs", "mps"))
    measured(arguments, Options(device=arguments.device), seeds=1)
    records = []
    for jobs in arguments.jobs:
        for mps in [False, True] if arguments.mps and jobs > 1 else [False]:
            options = Options(device=arguments.device, jobs=jobs, threads=arguments.threads, mps=mps)
            wanted = {
                "graphs": arguments.graphs,
                "methods": arguments.methods,
                "seeds": arguments.seeds,
                "epochs": arguments.epochs,
                "jobs": jobs,
                "mps": mps,
            }
            record = ledger.obtain(wanted, lambda options=options: measured(arguments, options))  # type: ignore[misc]
            if record is not None:
                records.append(record)
                print(f"{jobs} at once{' with MPS' if mps else ''}: {record['seconds']:.1f} s", flush=True)
    print_table(records, str(ledger))


def measured(arguments: argparse.Namespace, options: Options, seeds: int | None = None) -> Record:
    """Do all trainings in an empty store, and return how long that took."""
    study = {
        "name": "at_once",
        "graphs": arguments.graphs,
        "methods": [
            {"method": method} | ({} if arguments.epochs is None else {"epochs": arguments.epochs})
            for method in arguments.methods
        ],
        "seeds": seeds or arguments.seeds,
        "splits": 2,
        "precision": arguments.precision,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "at_once.yaml"
        file.write_text(yaml.safe_dump(study), encoding="utf-8")
        plan, graphs = open_study(file, download=True)
        store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
        began = time.perf_counter()
        run_study(plan, graphs, store, options)
        seconds = time.perf_counter() - began
        results = Results(plan, store)
    counts = results.count(plan.cells)
    if counts.failed or counts.missing:
        raise SystemExit(f"{counts.failed} trainings failed, {counts.missing} are missing: {_reasons(results)}")
    return {
        "trainings": counts.done,
        "seconds": seconds,
        "a_minute": 60 * counts.done / seconds,
        "training_seconds": sum(record.seconds or 0.0 for record in results.records.values()),
    }


def _reasons(results: Results) -> str:
    return "; ".join({record.failed for record in results.records.values() if record.failed})


def print_table(records: list[Record], circumstances: str) -> None:
    """Print trainings a minute, and how many times those of one process that is."""
    alone = next((record for record in records if record["jobs"] == 1), None)
    print(f"\n{circumstances}. The same trainings with every number of processes.\n")
    rows = [
        [
            record["jobs"],
            "yes" if record["mps"] else "no",
            record["trainings"],
            record["seconds"],
            record["a_minute"],
            None if alone is None else record["a_minute"] / alone["a_minute"],
            record["training_seconds"] / record["trainings"],
        ]
        for record in records
    ]
    header = "processes|MPS|trainings|seconds|trainings a minute|times one process|seconds of a training"
    print(table(header.split("|"), rows))


if __name__ == "__main__":
    main()
