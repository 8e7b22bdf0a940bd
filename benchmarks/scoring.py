"""Speed of scoring an embedding beside scikit-learn, in one run and in turns: 10 splits × 10 strengths, chosen between.

    python benchmarks/scoring.py --threads 2
    python benchmarks/scoring.py --device cuda --at-once 4

Both sides get the same vectors in float32, the same splits and the same strengths, and predict the same nodes.
scikit-learn is its LogisticRegression with the solver and the tolerance that it has by default (1e-4), once with 1,000
iterations at most and once with 100, its default; `--converged` adds one at a tolerance of 1e-7, which is where its
choices stop changing. The vectors are those of a short training of DGI, made on the first
run and kept in a folder outside the repository; their quality does not matter here, but they are real ones: correlated,
and of uneven scale. `per class` trains on 20 nodes of each class, as the protocol does on Cora and PubMed; `share` on
48 % of all nodes. On a GPU, scikit-learn still runs on the CPU.

With several threads ours uses them together; scikit-learn fits as many splits at a time, a thread and a process each,
which is the fastest way to use it: its products are so small that threads within one make it many times slower.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import fossil
from fossil.evaluation.protocol import Protocol, protocol
from fossil.evaluation.tasks.node_classification import choose, score
from fossil.graph.graph import Array
from measuring import Ledger, Record, clear, now, parser, peak_gigabytes, ready, table, version_of

CASES = ["digits:128:share", "digits:512:share", "cora:512:class", "cora:512:share", "pubmed:512:class"]
CASES += ["pubmed:512:share"]
# Iterations at most and tolerance.
DEFAULTS = {"scikit-learn": (1000, 1e-4), "scikit-learn, max_iter 100": (100, 1e-4)}
CONVERGED = {"scikit-learn, tol 1e-7": (20_000, 1e-7)}
EPOCHS = {"cora": 30, "pubmed": 15}
SHORT = 20  # epochs on any other graph


def main() -> None:
    """Time both sides on each case, and print a Markdown table."""
    made = parser(__doc__, results="scoring.jsonl")
    made.add_argument("--cases", nargs="+", default=CASES, help="GRAPH:WIDTH:class or GRAPH:WIDTH:share")
    made.add_argument("--splits", type=int, default=10)
    made.add_argument("--repeats", type=int, default=3, help="turns of each side")
    made.add_argument("--at-once", type=int, default=1, help="also time this many evaluations in as many processes")
    made.add_argument("--leave-out", action="store_true", help="leave scikit-learn out")
    made.add_argument("--converged", action="store_true", help="scikit-learn also at a tolerance of 1e-7")
    made.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "fossil-scoring")
    arguments = made.parse_args()
    device = ready(arguments, made)
    # The setting of the threads lasts as long as the object: both sides have the same number.
    with threadpool_limits(torch.get_num_threads()):
        ledger = Ledger(arguments, ("case", "splits", "repeats", "at_once", "scikit_learn", "peers"))
        records = []
        for case in arguments.cases:
            wanted = {
                "case": case,
                "splits": arguments.splits,
                "repeats": arguments.repeats,
                "at_once": arguments.at_once,
                "scikit_learn": version_of("scikit-learn"),
                "peers": list(peers(arguments)),
            }
            record = ledger.obtain(wanted, lambda case=case: measure(case, device, arguments))  # type: ignore[misc]
            if record is not None:
                records.append(record)
                print(f"{case}: {record['ours']['seconds']:.3g} s", flush=True)
    print_table(records, str(ledger), arguments)


def measure(case: str, device: torch.device, arguments: argparse.Namespace) -> Record:
    """Time both sides in turns and return medians, minima and accuracies."""
    vectors, labels, made_by = obtain_vectors(case, arguments.cache, arguments.seed)
    rule, seeds = rule_of(case), range(arguments.splits)

    def ours() -> float:
        found = score(vectors, labels, rule, graph_name="", seeds=seeds, device=str(device))
        return mean(one.accuracy for one in found)

    sides: dict[str, Callable[[], float]] = {"ours": ours}
    for name, options in peers(arguments).items():
        sides[name] = partial(by_scikit_learn, vectors, labels, rule, seeds, *options)
    score(vectors, labels, rule, graph_name="", seeds=seeds[:1], device=str(device))  # warms up
    if len(sides) > 1:  # starts the processes
        by_scikit_learn(vectors, labels, rule, seeds[: torch.get_num_threads()], 1, 1.0)
    clear(device)
    wall: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    accuracy = {}
    for _ in range(arguments.repeats):
        for name, side in sides.items():
            began, worked = now(device), time.process_time()
            accuracy[name] = side()
            wall[name].append(now(device) - began)
            processor[name].append(time.process_time() - worked)
    found: Record = {
        name: {
            "seconds": median(wall[name]),
            "least_seconds": min(wall[name]),
            "processor_seconds": min(processor[name]),
            "accuracy": accuracy[name],
        }
        for name in sides
    }
    return found | {
        "nodes": len(vectors),
        "width": vectors.shape[1],
        "classes": int(labels.max()) + 1,
        "training_nodes": len(rule.draw(labels, 0, "").train),
        "strengths": len(rule.strengths),
        "vectors": made_by,
        "peak_gb": peak_gigabytes(device),
        "at_once_seconds": at_once(case, device, arguments) if arguments.at_once > 1 else None,
    }


def peers(arguments: argparse.Namespace) -> dict[str, tuple[int, float]]:
    """Return the limit and the tolerance of scikit-learn on each of its turns."""
    return {} if arguments.leave_out else DEFAULTS | (CONVERGED if arguments.converged else {})


def rule_of(case: str) -> Protocol:
    """Return the `paper` protocol with the training nodes that a case asks for."""
    rule = protocol("paper").updated({"per_class_graphs": ()})
    return rule.per_class_everywhere(20) if case.endswith(":class") else rule


def obtain_vectors(case: str, cache: Path, seed: int) -> tuple[Array, Array, str]:
    """Return vectors, labels and how they were made: by a short training, or from the folder that kept them."""
    name, width, _ = case.split(":")
    epochs = EPOCHS.get(name, SHORT)
    path = cache / f"{name}-{width}-{epochs}-{seed}.npz"
    if not path.exists():
        result = fossil.embed(name, method="dgi", epochs=epochs, settings={"width": int(width)}, seed=seed)
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, vectors=result.vectors, labels=result.graph.labels)
    with np.load(path) as kept:
        return kept["vectors"], kept["labels"], f"dgi, {epochs} epochs, width {width}, seed {seed}"


def by_scikit_learn(vectors: Array, labels: Array, rule: Protocol, seeds: range, limit: int, tolerance: float) -> float:
    """Do what `score` does under a logistic protocol, with scikit-learn's LogisticRegression one fit at a time."""
    work = delayed(_split_by_scikit_learn)
    jobs = (work(vectors, labels, rule, seed, limit, tolerance) for seed in seeds)
    return mean(Parallel(n_jobs=torch.get_num_threads())(jobs))


def _split_by_scikit_learn(
    vectors: Array, labels: Array, rule: Protocol, seed: int, limit: int, tolerance: float
) -> float:
    split = rule.draw(labels, seed, "")
    rows = vectors / np.sqrt((vectors[split.train] ** 2).sum(axis=1).mean())
    validation, test = [], []
    for strength in rule.strengths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=strength, max_iter=limit, tol=tolerance)
            model.fit(rows[split.train], labels[split.train])
        validation.append((model.predict(rows[split.validation]) == labels[split.validation]).mean())
        test.append((model.predict(rows[split.test]) == labels[split.test]).mean())
    return float(test[choose(np.array(validation))])


def at_once(case: str, device: torch.device, arguments: argparse.Namespace) -> float:
    """Return how long evaluations take that begin together, each in a process of its own, start-up aside."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        ready_together = manager.Barrier(arguments.at_once)
        with ProcessPoolExecutor(arguments.at_once, context) as pool:
            jobs = [
                pool.submit(_evaluation, case, str(device), arguments, ready_together) for _ in range(arguments.at_once)
            ]
            spans = [job.result() for job in jobs]
    return max(end for _, end in spans) - min(start for start, _ in spans)


def _evaluation(case: str, device: str, arguments: argparse.Namespace, barrier: object) -> tuple[float, float]:
    torch.set_num_threads(arguments.threads or torch.get_num_threads())
    vectors, labels, _ = obtain_vectors(case, arguments.cache, arguments.seed)
    rule = rule_of(case)
    score(vectors, labels, rule, graph_name="", seeds=[0], device=device)
    barrier.wait()  # type: ignore[attr-defined]
    began = time.time()
    score(vectors, labels, rule, graph_name="", seeds=range(arguments.splits), device=device)
    return began, time.time()


def print_table(records: list[Record], circumstances: str, arguments: argparse.Namespace) -> None:
    """Print seconds, ratios and accuracies of each case."""
    print(f"\n{circumstances}. {arguments.splits} splits × 10 strengths, seconds, medians of {arguments.repeats}.\n")
    names = list(peers(arguments))
    header = ["graph", "nodes × width", "training nodes", "ours s", *(f"{name} s" for name in names)]
    header += [*(f"times {name}" for name in names[:1]), "ours %", *(f"{name} %" for name in names)]
    several = arguments.at_once > 1
    header += [f"{arguments.at_once} at once s"] if several else []
    rows = []
    for record in records:
        ours, others = record["ours"], [record[name] for name in names]
        rows.append(
            [
                record["case"].split(":")[0],
                f"{record['nodes']:,} × {record['width']}",
                record["training_nodes"],
                ours["seconds"],
                *(other["seconds"] for other in others),
                *(other["seconds"] / ours["seconds"] for other in others[:1]),
                f"{100 * ours['accuracy']:.2f}",
                *(f"{100 * other['accuracy']:.2f}" for other in others),
                *([record["at_once_seconds"]] if several else []),
            ]
        )
    print(table(header, rows))


if __name__ == "__main__":
    main()
