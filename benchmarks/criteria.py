"""When to stop, and with which settings, without labels? Criteria beside what a probe with labels says.

Trains FOSSIL with channels on a graph from which 5 % of the edges and 10 % of the feature columns were taken out,
stops at several epochs to compute every criterion of `fossil.training.criteria` and the accuracy of a converged probe
on several splits, and appends one record per checkpoint to a JSON-lines file. Labels judge the criteria and do nothing
else. Trainings go in pairs of seeds, because some criteria compare two of them. What the file already holds is not
trained again, so that the tables can be made in several sittings:

    python benchmarks/criteria.py --seeds 4 --device cuda --precision tf32
    python benchmarks/criteria.py --graphs cora --settings defaults dropout=0.3,temperature=0.8 --device cuda
    python benchmarks/criteria.py --table-only

Criteria are computed on the vectors that a run gives out, which hold untrained rows beside the trained ones, and again
on a `view`, the trained rows alone under dropout, whose mask is the same at every checkpoint. The columns:

- among checkpoints: Spearman's correlation of criterion and accuracy over the checkpoints of a training, its sign such
  that 1 is best; the mean over trainings, and the least and greatest mean of a graph. The row of the last epoch has
  the correlation of the number of epochs itself, which a criterion that only rises or only falls cannot beat;
- among settings: the same over settings, at the last checkpoint, of means over seeds. Losses and ranks of different
  temperatures and widths are compared as they are, which is one thing that is asked here;
- stopping: what is lost, in points of accuracy, at the checkpoint that the criterion likes best, the first of equals,
  against the best one of that training; beside it stopping at a fixed epoch, and at the epoch that loses least on all
  other graphs. The best one is chosen by looking at test labels, so that even validation labels lose something;
- less than the method's own number of epochs, or the checkpoint nearest to it: by how many points less is lost;
- choosing: the same among settings at their last checkpoint.

Intervals are Student's t over graphs, from three on: trainings on one graph are alike, and the question is what to
expect of another graph.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import fossil
from criteria_table import key_of, print_tables
from fossil.datasets.catalog import known_name
from fossil.evaluation.protocol import protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.graph.graph import Graph
from fossil.graph.heldout import HeldOut, hold_out
from fossil.methods.base import Record
from fossil.methods.fossil_channels import FossilChannels
from fossil.nn.effective_rank import sampled_rank
from fossil.readers.read import LoadedGraph
from fossil.readers.source import open_graph
from fossil.runs.plan import plan_run
from fossil.seeding import torch_generator
from fossil.settings import parse_assignments
from fossil.training import criteria
from fossil.training.devices import describe_device, resolve_device
from fossil.training.history import History
from fossil.training.trainer import Trainer
from records import read_records

# Those that take longest come last, where a limit of time leaves them out.
GRAPHS = [
    *("cora", "citeseer", "chameleon_filtered_directed", "squirrel_filtered_directed"),
    *("actor", "amazon_photo", "pubmed", "coauthor_cs"),
]
SETTINGS = ["defaults", "temperature=0.8", "dropout=0.3", "width=128", "learning_rate=0.001"]
EPOCHS = [10, 20, 30, 50, 75, 100, 150, 200, 300, 400]
RESULTS = Path(__file__).parent / "results" / "criteria.jsonl"
PROTOCOL = "converged"
_FLUSHED = 20  # epochs between two looks at the losses
_COMPARED = 1024  # nodes whose neighbours and rows are compared with those of other looks


def main() -> None:
    """Train what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--method", default="fossil_channels", choices=["fossil_channels", "fossil_channels_v2"])
    parser.add_argument("--settings", nargs="+", default=SETTINGS, help="each defaults, or KEY=VALUE,KEY=VALUE...")
    parser.add_argument("--epochs", nargs="+", type=int, default=EPOCHS, help="the checkpoints")
    parser.add_argument("--seeds", type=int, default=2, help="trainings of each graph and settings, an even number")
    parser.add_argument("--splits", type=int, default=5, help="splits per checkpoint")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further pair after this long")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table-only", action="store_true")
    arguments = parser.parse_args()
    if arguments.seeds % 2:
        parser.error("--seeds: trainings go in pairs; give an even number")
    if sorted(set(arguments.epochs)) != arguments.epochs or arguments.epochs[0] < 1:
        parser.error("--epochs: give rising numbers, from 1 on")
    try:
        records = read_records(arguments.results, key_of)
        settings = [settings_of(text) for text in arguments.settings]
    except (ValueError, fossil.FossilError) as error:
        parser.error(str(error))

    done, began = {key_of(record) for record in records}, time.perf_counter()
    for first in range(0, 0 if arguments.table_only else arguments.seeds, 2):
        for graph in arguments.graphs:
            for changed in settings:
                wanted = {
                    "graph": graph,
                    "method": arguments.method,
                    "set": changed,
                    "epochs": arguments.epochs,
                    "splits": arguments.splits,
                    "precision": arguments.precision,
                }
                seeds = (first, first + 1)
                keys = {key_of(wanted | {"seed": s, "epoch": epoch}) for s in seeds for epoch in arguments.epochs}
                if keys <= done or time.perf_counter() - began > arguments.seconds:
                    continue
                try:
                    found = measure(wanted, seeds, arguments.device)
                except fossil.FossilError as error:  # the tables lack it, and the next sitting tries again
                    print(f"{graph} {changed or 'defaults'} seeds {first}, {first + 1} failed: {error}", flush=True)
                    continue
                records += found
                arguments.results.parent.mkdir(parents=True, exist_ok=True)
                with arguments.results.open("a") as stream:
                    stream.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in found)
                reached = ", ".join(f"{one['epoch']}: {100 * one['accuracy']:.2f}" for one in found)
                spent = ", ".join(f"{key} {sum(one[key] for one in found):.1f}" for key in found[0] if "seconds" in key)
                print(f"{graph} {changed or 'defaults'} seeds {first}, {first + 1}: {reached} ({spent})", flush=True)
    print_tables(records)


def settings_of(text: str) -> dict[str, Any]:
    """Return the settings that differ from the defaults, of a text such as `dropout=0.3,width=128`."""
    return {} if text == "defaults" else parse_assignments(text.split(","))


@cache
def graph_of(name: str) -> Graph:
    """Read a graph once."""
    return open_graph(name).graph


class Look(NamedTuple):
    """What of a checkpoint is compared with other checkpoints and seeds, for the vectors and for a view.

    Attributes:
        nearest: the nearest nodes of each compared node (M×10).
        rows: the vectors of these nodes (M×D), on the host.
    """

    nearest: dict[str, Tensor]
    rows: dict[str, Tensor]


class Judge:
    """Computes the criteria of vectors on one graph.

    Args:
        held: what was held out of it.
        seed: decides which nodes are sampled, and the dropout of the views.
        device: where.
    """

    def __init__(self, held: HeldOut, seed: int, device: torch.device) -> None:
        self.seed, self.device = seed, device
        self.edges, self.non_edges = (torch.from_numpy(pairs).to(device) for pairs in (held.edges, held.non_edges))
        self.values = torch.from_numpy(held.values).to(device)
        self.compared = criteria.sampled(held.graph.num_nodes, _COMPARED, seed, device)

    def views(self, trainer: Trainer) -> tuple[Tensor, Tensor]:
        """Return the two views of all nodes, under the same two masks whenever it is asked."""
        method, draws = trainer.method, ("first view", "second view")
        assert isinstance(method, FossilChannels)
        first, second = (
            method.view(trainer.prepared.tensors, torch_generator(self.seed, draw, device=self.device))
            for draw in draws
        )
        return first, second

    def look(self, vectors: Tensor, view: Tensor) -> Look:
        """Return what other looks are compared with."""
        seen = {"vectors": vectors, "view": view}
        return Look(
            {name: criteria.nearest(one, self.compared).cpu() for name, one in seen.items()},
            {name: one[self.compared].cpu() for name, one in seen.items()},
        )

    def alone(self, vectors: Tensor, first: Tensor, second: Tensor) -> dict[str, float]:
        """Return what needs one checkpoint alone."""
        aligned, uniform = criteria.alignment(first, second), criteria.uniformity(first, self.seed)
        found = {"alignment": aligned, "uniformity": uniform, "alignment + uniformity": aligned + uniform}
        for name, one in (("vectors", vectors), ("view", first)):
            found |= {
                f"{name}: RankMe": criteria.rankme(one, self.seed),
                f"{name}: participation ratio": float(sampled_rank(one)),
                f"{name}: held-out edges": criteria.edges_found(one, self.edges, self.non_edges),
                f"{name}: held-out features": criteria.features_found(one, self.values, self.seed),
            }
        return found

    def between_seeds(self, first: Look, second: Look) -> dict[str, float]:
        """Return how far two seeds agree."""
        found = {}
        for name in first.rows:
            kept = criteria.neighbours_kept(first.nearest[name], second.nearest[name])
            rows = [look.rows[name].to(self.device) for look in (first, second)]
            found |= {f"{name}: seeds share neighbours": kept, f"{name}: CKA of seeds": criteria.linear_cka(*rows)}
        return found


def measure(wanted: dict[str, Any], seeds: tuple[int, int], device: str) -> list[dict[str, Any]]:
    """Train two seeds on the same graph, and return what is to be recorded of each checkpoint."""
    where, graph = resolve_device(device), graph_of(wanted["graph"])
    held = hold_out(graph, seed=seeds[0])
    judge = Judge(held, seeds[0], where)
    first, second = (list(checkpoints(wanted, graph, held, judge, seed)) for seed in seeds)
    found = []
    for (one, look), (other, its_look) in zip(first, second, strict=True):
        shared = judge.between_seeds(look, its_look)
        for record in (one, other):
            record["criteria"] = {name: _rounded(value) for name, value in (record["criteria"] | shared).items()}
            found.append(wanted | record | {"device": describe_device(where), "torch": torch.__version__})
    return sorted(found, key=lambda record: (record["seed"], record["epoch"]))


def checkpoints(
    wanted: dict[str, Any], graph: Graph, held: HeldOut, judge: Judge, seed: int
) -> Iterator[tuple[dict[str, Any], Look]]:
    """Train one encoder, and yield record and look of each of its checkpoints."""
    device, task = judge.device, NodeClassification(protocol(PROTOCOL))
    gc.collect()  # captured steps of earlier trainings hold memory until then
    if device.type == "cuda":
        torch.cuda.empty_cache()
    training = {"epochs": wanted["epochs"][-1], "device": str(device), "precision": wanted["precision"]}
    source = LoadedGraph(held.graph)
    plan = plan_run(source, method=wanted["method"], settings=wanted["set"], training=training, seed=seed)
    model = plan.kind.build(plan.config.settings, held.graph.num_features, seed).to(device)
    prepared = model.prepare(held.graph, device)
    model.check_trainable(prepared)
    trainer = Trainer(model, prepared, seed, device, plan.config.training.precision)
    splits = task.protocol.rule(known_name(graph)).seeds(seed, wanted["splits"], graph.published_splits)
    history = History()

    def after_step(number: int, record: Record) -> bool:
        history.add(number, record)
        if number % _FLUSHED == 0:
            history.flush()  # so that a GPU does not run far ahead, and a diverging training ends
        return number in wanted["epochs"]

    def embedded() -> tuple[Tensor, Tensor, Tensor]:
        return model.eval().encode(prepared).vectors.float(), *judge.views(trainer)

    with torch.no_grad():
        trainer.fit()
        vectors, view, _ = embedded()
        before = judge.look(vectors, view)
    while trainer.steps < plan.epochs:
        clock = [time.perf_counter()]
        trainer.run(plan.epochs, after_step)  # up to the next checkpoint
        history.flush()
        clock.append(time.perf_counter())
        with torch.no_grad():
            vectors, view, other = embedded()
            found: dict[str, float | None] = {**judge.alone(vectors, view, other)}
            look = judge.look(vectors, view)
        for name in look.nearest:
            found[f"{name}: neighbours kept"] = criteria.neighbours_kept(before.nearest[name], look.nearest[name])
        losses = [record["contrast"] for record in history.records]
        found |= {"loss": criteria.recent_loss(losses), "fall of the loss": criteria.loss_improvement(losses)}
        before = look
        clock.append(time.perf_counter())
        # The graph as published, whose name and number of features decide how splits are drawn.
        scores = task.score(vectors.cpu().numpy(), graph, splits, device=str(device))
        clock.append(time.perf_counter())
        names = ("training_seconds", "criteria_seconds", "evaluation_seconds")
        yield (
            {
                "seed": seed,
                "epoch": trainer.steps,
                "accuracy": fmean(score.accuracy for score in scores),
                "validation_accuracy": fmean(score.validation_accuracy for score in scores),
                "criteria": found,
                **dict(zip(names, np.diff(clock).round(3).tolist(), strict=True)),
            },
            look,
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.7g}")


if __name__ == "__main__":
    main()
