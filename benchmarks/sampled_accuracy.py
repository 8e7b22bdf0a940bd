"""Sampled steps beside steps on the whole graph: accuracy of the same encoders, paired by seed.

    python benchmarks/sampled_accuracy.py --device cuda --precision tf32
    python benchmarks/sampled_accuracy.py --graphs pubmed --methods fossil_v2 --encoders 5 --fan-outs 5 10 0

Each encoder is trained twice or more from the same seed: on the whole graph, and with each fan-out (0 reads all
neighbours). All are scored by the same probe on the same splits; the difference of two encoders of one seed is one
value, and the interval is over seeds (Student's t).
"""

from __future__ import annotations

import time
from statistics import mean

import fossil
from fossil.evaluation.evaluate import score_result
from fossil.evaluation.protocol import PROTOCOLS
from fossil.evaluation.statistics import summarize
from measuring import Ledger, Record, parser, ready, table


def main() -> None:
    """Train, score, and print a table of paired differences."""
    made = parser(__doc__, results="sampled_accuracy.jsonl")
    made.add_argument("--graphs", nargs="+", default=["pubmed", "coauthor_cs", "wordnet"])
    made.add_argument("--methods", nargs="+", default=["fossil_v2", "fossil_channels_v2"])
    made.add_argument("--fan-outs", type=int, nargs="+", default=[5, 10])
    made.add_argument("--encoders", type=int, default=5)
    made.add_argument("--splits", type=int, default=10)
    made.add_argument("--epochs", type=int, help="the recipe's or the method's own when nothing is said")
    made.add_argument("--protocol", default="converged", choices=list(PROTOCOLS))
    arguments = made.parse_args()
    ready(arguments, made)
    ledger = Ledger(arguments, ("graph", "method", "encoder", "fan_out", "epochs", "splits", "protocol"))
    rows: list[list[object]] = []
    for graph in arguments.graphs:
        for method in arguments.methods:
            found: dict[int | None, list[float]] = {}
            for encoder in range(arguments.encoders):
                for fan_out in (None, *arguments.fan_outs):
                    wanted: Record = {"graph": graph, "method": method, "encoder": encoder, "fan_out": fan_out}
                    wanted |= {name: getattr(arguments, name) for name in ("epochs", "splits", "protocol")}
                    measure = lambda w=wanted: measured(w, arguments.device, arguments.precision)  # noqa: E731
                    record = ledger.obtain(wanted, measure)
                    if record is not None:
                        found.setdefault(fan_out, []).append(record["accuracy"])
                        print(f"{graph} {method} {encoder} {fan_out}: {record['accuracy']:.4f}", flush=True)
            rows += paired(graph, method, found)
    print(f"\n{ledger}\n")
    print(table(["graph", "method", "fan-out", "encoders", "whole", "sampled", "difference", "interval"], rows))


def measured(wanted: Record, device: str, precision: str) -> Record:
    """Return the mean accuracy of one encoder over its splits."""
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


def paired(graph: str, method: str, found: dict[int | None, list[float]]) -> list[list[object]]:
    """Return a row for each fan-out: means in percent, and the difference of encoders of one seed."""
    whole, rows = found.pop(None, []), []
    for fan_out, accuracies in found.items():
        both = list(zip(whole, accuracies, strict=False))
        if not both:
            continue
        difference = summarize([100 * (sampled - full) for full, sampled in both])
        interval = difference.interval
        shown = "–" if interval is None else f"{interval.low:+.2f} to {interval.high:+.2f}"
        means = [100 * mean(each) for each in zip(*both, strict=True)]
        rows.append([graph, method, fan_out or "all", len(both), *means, difference.mean, shown])
    return rows


if __name__ == "__main__":
    main()
