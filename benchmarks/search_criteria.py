"""How well does a criterion without labels choose settings, where a search has no labels to go by?

Draws settings at random from the space that a method declares, trains each on a graph from which 5 % of the edges and
10 % of the feature columns were taken out, and computes the criteria that `fossil search` offers beside the accuracy of
a converged probe. Labels judge the criteria and do nothing else. For each graph and criterion it prints Spearman's
correlation over the settings, and what is lost in points of accuracy by taking the setting that the criterion likes
best: against the best one of them, and against one drawn at random, which loses the mean. The first setting is the
method's own defaults, what somebody has who does not search at all.

    python benchmarks/search_criteria.py
    python benchmarks/search_criteria.py --graphs cora --method dgi --settings 20
"""

from __future__ import annotations

import argparse
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from fossil.datasets.catalog import known_name
from fossil.errors import FossilError
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.graph.heldout import hold_out
from fossil.methods.registry import get_method
from fossil.readers.read import LoadedGraph
from fossil.readers.source import open_graph
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run
from fossil.settings import parse_assignments
from fossil.training import criteria


def measure(graph_name: str, method: str, fixed: dict[str, Any], count: int, epochs: int, splits: int) -> None:
    """Train random settings of one method on one graph, and print what each criterion is worth."""
    graph, random = open_graph(graph_name).graph, np.random.default_rng(0)
    held, task = hold_out(graph, seed=0), NodeClassification(protocol("converged"))
    kind, seeds = get_method(method), task.protocol.rule(known_name(graph)).seeds(0, splits, graph.published_splits)
    edges, non_edges, values = (torch.from_numpy(each) for each in (held.edges, held.non_edges, held.values))
    found: dict[str, list[float]] = {}
    for number in range(count):
        drawn = {name: random.choice(options).item() for name, options in kind.Config.search_space().items()}
        settings = fixed | ({} if number == 0 else {name: drawn[name] for name in drawn if name not in fixed})
        settings.pop("gcnii_layers", None)
        plan = plan_run(
            LoadedGraph(held.graph), method=method, settings=settings, training={"epochs": epochs}, use_recipe=False
        )
        try:
            vectors = fit(plan).vectors
        except FossilError as error:
            print(f"{graph_name} {settings}: {error}", flush=True)
            continue
        tensor = torch.from_numpy(vectors)
        edges_found = criteria.edges_found(tensor, edges, non_edges)
        features_found = criteria.features_found(tensor, values)
        record = {
            "held-out edges": edges_found,
            "held-out features": features_found,
            "held-out edges + features": edges_found + features_found,
            "RankMe": criteria.rankme(tensor),
            "accuracy": fmean(one.accuracy for one in task.score(vectors, graph, seeds)),
        }
        for name, value in record.items():
            found.setdefault(name, []).append(value)
    accuracy = np.array(found.pop("accuracy"))
    best, mean = accuracy.max(), accuracy.mean()
    print(
        f"{graph_name}, {method}, {len(accuracy)} settings: best {100 * best:.1f}, mean {100 * mean:.1f}, "
        f"defaults {100 * accuracy[0]:.1f}"
    )
    for name, values_of_one in found.items():
        chosen = accuracy[int(np.argmax(values_of_one))]
        print(
            f"| {graph_name} | {method} | {name} | {spearmanr(values_of_one, accuracy).statistic:+.2f} | "
            f"{100 * (best - chosen):.1f} | {100 * (best - mean):.1f} | {100 * (best - accuracy[0]):.1f} |",
            flush=True,
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=["digits", "cora", "chameleon_filtered", "citeseer", "actor"])
    parser.add_argument("--method", default="fossil")
    parser.add_argument("--set", nargs="*", default=["hidden=128", "width=64"], help="settings that stay the same")
    parser.add_argument("--settings", type=int, default=16, help="how many are drawn")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    print("| graph | method | criterion | correlation | lost by it | lost at random | lost by defaults |")
    print("|---|---|---|---|---|---|---|")
    fixed = parse_assignments(arguments.set)
    for graph in arguments.graphs:
        measure(graph, arguments.method, fixed, arguments.settings, arguments.epochs, arguments.splits)


if __name__ == "__main__":
    main()
