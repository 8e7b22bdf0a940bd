"""Sampled steps beside steps on the whole graph: accuracy of the same encoders, paired by seed.

    python benchmarks/sampled_accuracy.py --device cuda --precision tf32
    python benchmarks/sampled_accuracy.py --graphs pubmed --methods fossil_v2 --encoders 5 --fan-outs 5 10 0

Each encoder is trained twice or more from the same seed: on the whole graph, and with each fan-out (0 reads all
neighbours). All are scored by the same probe on the same splits; the difference of two encoders of one seed is one
value, and the interval is over seeds (Student's t).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from statistics import mean

import torch

import fossil
from fossil.evaluation.evaluate import score_result
from fossil.evaluation.protocol import PROTOCOLS
from fossil.evaluation.statistics import summarize
from measuring import Ledger, Record, parser, ready, table


def main() -> None:
    """Train, score, and print a table of paired differences."""
    made = parser(__doc__, results="sampled_accuracy.jsonl")
    made.add_argument("--graphs", nargs="+", default=["pubmed", "coauthor_cs", "wordnet"], help="names, or paths")
    made.add_argument("--methods", nargs="+", default=["fossil_v2", "fossil_channels_v2"])
    made.add_argument("--fan-outs", type=int, nargs="+", default=[5, 10])
    made.add_argument("--encoders", type=int, default=5)
    made.add_argument("--splits", type=int, default=10)
    made.add_argument("--epochs", type=int, help="the recipe's or the method's own when nothing is said")
    made.add_argument("--protocol", default="converged", choices=list(PROTOCOLS))
    made.add_argument("--jobs", type=int, default=1, help="trainings at once, each in a process of its own")
    arguments = made.parse_args()
    ready(arguments, made)
    ledger = Ledger(arguments, ("graph", "method", "encoder", "fan_out", "epochs", "splits", "protocol"))
    wanted: list[Record] = [
        {"graph": graph, "method": method, "encoder": encoder, "fan_out": fan_out}
        | {name: getattr(arguments, name) for name in ("epochs", "splits", "protocol")}
        for graph, method, encoder in product(arguments.graphs, arguments.methods, range(arguments.encoders))
        for fan_out in (None, *arguments.fan_outs)
    ]
    how = {name: getattr(arguments, name) for name in ("device", "precision", "threads")}
    records = []
    for record in ledger.obtain_at_once(wanted, partial(measured, **how), arguments.jobs):
        records.append(record)
        names = [str(record[name]) for name in ("graph", "method", "encoder", "fan_out")]
        print(f"{' '.join(names)}: {record['accuracy']:.4f}", flush=True)
    print(f"\n{ledger}\n")
    print(
        table(
            ["graph", "method", "fan-out", "encoders", "whole", "sampled", "difference", "interval"],
            list(rows(records)),
        )
    )


def measured(wanted: Record, device: str, precision: str, threads: int | None) -> Record:
    """Return the mean accuracy of one encoder over its splits."""
    if threads:
        torch.set_num_threads(threads)
    began = time.perf_counter()
    result = fossil.embed(
        wanted["graph"],
        method=wanted["method"],
        seed=wanted["encoder"],
        epochs=wanted["epochs"],
        device=device,
        precision=precision,
        sampled=wanted["fan_out"] is not None,
        fan_out=wanted["fan_out"] or 0,
    )
    trained = time.perf_counter()
    scores = score_result(result, PROTOCOLS[wanted["protocol"]], range(wanted["splits"]), device=device)
    return {"accuracy": mean(each.accuracy for each in scores), "seconds": trained - began}


def rows(records: list[Record]) -> Iterator[list[object]]:
    """Yield a row for each graph, method and fan-out: means in percent, and the difference of encoders of one seed."""
    accuracy = {
        tuple(one[name] for name in ("graph", "method", "fan_out", "encoder")): one["accuracy"] for one in records
    }
    for graph, method, fan_out in dict.fromkeys(key[:3] for key in accuracy):
        if fan_out is None:
            continue
        encoders = [key[3] for key in accuracy if key[:3] == (graph, method, fan_out)]
        whole = {encoder: accuracy.get((graph, method, None, encoder)) for encoder in encoders}
        both = [(full, accuracy[graph, method, fan_out, one]) for one, full in whole.items() if full is not None]
        if not both:
            continue
        difference = summarize([100 * (sampled - full) for full, sampled in both])
        interval = difference.interval
        shown = "–" if interval is None else f"{interval.low:+.2f} to {interval.high:+.2f}"
        means = [100 * mean(each) for each in zip(*both, strict=True)]
        yield [graph, method, fan_out or "all", len(both), *means, difference.mean, shown]


if __name__ == "__main__":
    main()
