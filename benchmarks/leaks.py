"""What transport between subgraphs does on graphs that leak: accuracy where a lookup finds the node, and elsewhere.

    python benchmarks/leaks.py --device cuda --precision tf32 --jobs 6
    python benchmarks/leaks.py --graphs texas --encoders 2 --splits 2 --epochs 5   # a short one, on a CPU

FOSSIL with channels is trained from the same seed without transport (a weight of 0) and with as much of it as a graph
whose surroundings resemble its nodes would get (a weight of 1). A test node is found if a training node points to
exactly the same nodes, at least one. Probes are fitted on the training nodes of each split, on whole vectors and on
their trained rows alone, and are right on so many of the found test nodes and of the others. Beside that: the
effective rank of the trained rows, and the cosine of the trained rows of nodes with one list, minus that of nodes
drawn at random. Differences are of encoders of one seed, intervals over seeds (Student's t).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from statistics import fmean

import numpy as np
import torch

import fossil
from fossil.datasets.catalog import known_name
from fossil.evaluation.audit import neighbour_lists
from fossil.evaluation.probes.fitting import fitted
from fossil.evaluation.protocol import PROTOCOLS
from fossil.evaluation.statistics import summarize
from fossil.evaluation.tasks.node_classification import class_numbers, validation_of
from fossil.graph.graph import Array, Graph
from fossil.methods.fossil_channels import ChannelSettings
from fossil.nn.effective_rank import effective_rank
from fossil.progress import silent
from fossil.readers.source import open_graph
from fossil.settings import Settings
from measuring import Ledger, Record, parser, ready, table

GRAPHS = ["chameleon", "squirrel", "chameleon_filtered_directed", "squirrel_filtered_directed", "cora", "citeseer"]
WEIGHTS = (0.0, 1.0)
PROTOCOL = PROTOCOLS["converged"]
MEASURES = {
    "found": "accuracy where found",
    "others": "elsewhere",
    "trained_found": "trained rows, found",
    "trained_others": "trained rows, elsewhere",
    "rank": "effective rank",
    "closeness": "cosine within a list",
}


def main() -> None:
    """Train, score, and print a table of paired differences."""
    made = parser(__doc__, results="leaks.jsonl")
    made.add_argument("--graphs", nargs="+", default=GRAPHS, help="catalogue names")
    made.add_argument("--encoders", type=int, default=5)
    made.add_argument("--splits", type=int, default=10)
    made.add_argument("--epochs", type=int, help="the method's own when nothing is said")
    made.add_argument("--jobs", type=int, default=1, help="trainings at once, each in a process of its own")
    arguments = made.parse_args()
    ready(arguments, made)
    ledger = Ledger(arguments, ("graph", "weight", "encoder", "epochs", "splits"))
    wanted: list[Record] = [
        {"graph": graph, "encoder": encoder, "weight": weight, "epochs": arguments.epochs, "splits": arguments.splits}
        for graph, encoder, weight in product(arguments.graphs, range(arguments.encoders), WEIGHTS)
    ]
    how = {name: getattr(arguments, name) for name in ("device", "precision", "threads")}
    records = []
    for record in ledger.obtain_at_once(wanted, partial(measured, **how), arguments.jobs):
        records.append(record)
        print(f"{record['graph']} {record['encoder']} weight {record['weight']:g}: {record['found']:.4f}", flush=True)
    print(f"\n{ledger}. With transport, less without: points, and differences of rank and cosine.\n")
    print(table(["graph", "encoders", "% found", *MEASURES.values()], list(rows(records))))


def measured(wanted: Record, device: str, precision: str, threads: int | None) -> Record:
    """Return what one encoder reaches, and what its trained rows are like."""
    if threads:
        torch.set_num_threads(threads)
    graph = open_graph(wanted["graph"]).graph
    result = fossil.embed(
        graph,
        method="fossil_channels",
        settings={"subgraph_weight": wanted["weight"]},
        seed=wanted["encoder"],
        epochs=wanted["epochs"],
        device=device,
        precision=precision,
    )
    lists = neighbour_lists(graph.adjacency)
    trained = trained_rows(result.vectors, result.config.settings)
    record = {"rank": float(effective_rank(torch.from_numpy(trained))), "closeness": closeness(trained, lists)}
    for prefix, vectors in (("", result.vectors), ("trained_", trained)):
        record |= {prefix + name: value for name, value in accuracies(vectors, graph, lists, wanted, device).items()}
    return record


def trained_rows(vectors: Array, settings: Settings) -> Array:
    """Return the trained part of vectors that have trained and untrained rows of each channel in turn."""
    assert isinstance(settings, ChannelSettings) and settings.channels is not None
    by_channel = vectors.reshape(len(vectors), len(settings.channels), -1)
    return np.ascontiguousarray(by_channel[:, :, : settings.width]).reshape(len(vectors), -1)


def accuracies(vectors: Array, graph: Graph, lists: Array, wanted: Record, device: str) -> dict[str, float]:
    """Return the accuracy on test nodes whose list a training node has, and on the others, of all splits together."""
    labels, known = class_numbers(graph), known_name(graph)
    seeds = PROTOCOL.rule(known).seeds(0, wanted["splits"], graph.published_splits)
    splits = [(seed, PROTOCOL.draw(labels, seed, known, graph.published_splits)) for seed in seeds]
    right, found = [], []
    for _, split, _, predicted in fitted(vectors, labels, splits, PROTOCOL, device, silent):
        chosen = predicted[validation_of(predicted, labels, split).argmax()]
        right.append(chosen[split.test] == labels[split.test])
        found.append((lists[split.test] >= 0) & np.isin(lists[split.test], lists[split.train]))
    hits, known_lists = np.concatenate(right), np.concatenate(found)
    means = {"found": hits[known_lists].mean(), "others": hits[~known_lists].mean(), "share": known_lists.mean()}
    return {name: float(value) for name, value in means.items()}


def closeness(rows: Array, lists: Array) -> float:
    """Return the mean cosine of two nodes with one list, less that of any two nodes."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    listed = lists >= 0
    _, groups, sizes = np.unique(lists[listed], return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), rows.shape[1]))
    np.add.at(sums, groups, unit[listed])
    # The square of a sum of unit vectors holds the cosine of every pair, both ways round, and 1 for each vector.
    within = (np.square(sums).sum() - sizes.sum()) / (sizes * (sizes - 1)).sum()
    anyone = (np.square(unit.sum(0, dtype=np.float64)).sum() - len(unit)) / (len(unit) * (len(unit) - 1))
    return float(within - anyone)


def rows(records: list[Record]) -> Iterator[list[object]]:
    """Yield a row for each graph: differences of encoders of one seed, with half their 95 % interval."""
    by_key = {(one["graph"], one["weight"], one["encoder"]): one for one in records}
    for graph in dict.fromkeys(one["graph"] for one in records):
        of_graph = {key[1:] for key in by_key if key[0] == graph}
        encoders = sorted(one for weight, one in of_graph if weight == WEIGHTS[1] and (WEIGHTS[0], one) in of_graph)
        if not encoders:
            continue
        cells = []
        for name in MEASURES:
            unit = 1 if name in ("rank", "closeness") else 100
            without, with_it = ([by_key[graph, weight, one][name] for one in encoders] for weight in WEIGHTS)
            difference = summarize([unit * (high - low) for low, high in zip(without, with_it, strict=True)])
            half = "" if difference.interval is None else f" ± {(difference.interval.high - difference.mean):.2f}"
            cells.append(f"{fmean(without) * unit:.2f} {difference.mean:+.2f}{half}")
        yield [graph, len(encoders), 100 * by_key[graph, WEIGHTS[0], encoders[0]]["share"], *cells]


if __name__ == "__main__":
    main()
