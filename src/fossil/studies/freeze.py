"""Settings are frozen and test labels opened: what was found beside the defaults, on nodes that chose nothing.

Encoders are trained before anything is opened, with seeds that the search has not used. The opening is written down
first, and labels are read after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fossil.datasets.catalog import known_name
from fossil.errors import SettingError
from fossil.evaluation.statistics import Summary, paired_difference
from fossil.evaluation.tasks.node_classification import class_numbers, score, score_classes
from fossil.graph.graph import Array, Graph
from fossil.progress import CountProgress, silent
from fossil.storage import write_json
from fossil.studies.objectives import ValidationAccuracy
from fossil.studies.sealed import Openings, SealedGraph, seal
from fossil.studies.search_folder import SearchFolder
from fossil.studies.search_plan import SearchPlan
from fossil.studies.trials import Found
from fossil.training.devices import resolve_device


@dataclass(frozen=True)
class Frozen:
    """Test accuracies of what was found and of the defaults.

    Attributes:
        best: of the settings that were found, one value for each encoder.
        defaults: of the method's own settings on the same splits; None where these are what was found.
        difference: of the two, paired by encoder.
        openings: how often the labels of these test nodes were opened, this time included.
        test_nodes: how many they are.
    """

    best: Summary
    defaults: Summary | None
    difference: Summary | None
    openings: int
    test_nodes: int


def freeze(
    plan: SearchPlan,
    out: Path,
    found: Found,
    graph: Graph,
    encoders: int,
    progress: CountProgress = silent,
) -> Frozen:
    """Train what was found and the defaults with fresh seeds, open the test labels, and score both.

    Args:
        plan: of the search.
        out: its folder, where the opening is counted and `frozen.json` is written.
        found: what it found.
        graph: with all of its labels.
        encoders: how many are trained with each settings.
        progress: how many encoders of how many are trained.

    Raises:
        SettingError: the search had no labels, so that none are sealed; or it found nothing.
        RunError: the folder cannot be written, or another process searches in it.
    """
    searched, best = check_freeze(plan, encoders), found.best
    if best is None:
        raise SettingError("The search has found nothing yet.", remedy="Search for longer first.")
    seeds = range(plan.encoders, plan.encoders + encoders)
    published = next(iter(searched.splits.values()))[0]
    sealed = seal(graph, searched.protocol, seeds, published=published)
    wanted = {"best": dict(best.settings)}
    usual = plan.settings(plan.usual)
    if usual != wanted["best"]:
        wanted["defaults"] = usual
    with SearchFolder(out).claimed(plan.to_dict()):
        trained: dict[str, dict[int, Array]] = {name: {} for name in wanted}
        for seed in seeds:
            for name, settings in wanted.items():
                graph_of_seed = sealed.for_training(seed, with_labels=plan.kind.needs_labels)
                trained[name][seed] = plan.train(graph_of_seed, settings, seed).vectors
                progress(sum(map(len, trained.values())), len(wanted) * encoders)
        number = Openings(out).add({"settings": wanted["best"], "encoders": encoders, "trials": len(found.trials)})
        scores = {
            name: [_test_accuracy(plan, sealed, graph, vectors, seed) for seed, vectors in of_one.items()]
            for name, of_one in trained.items()
        }
        summaries = {name: sealed.protocol.summarize(values) for name, values in scores.items()}
        usual_scores = scores.get("defaults")
        content: Mapping[str, Any] = {
            "openings": number,
            "protocol": sealed.protocol.name,
            "test_nodes": len(sealed.test_nodes),
            "trials": len(found.trials),
            "seeds": list(seeds),
            "settings": wanted,
            "test_accuracy": scores,
        }
        write_json(out / "frozen.json", content)
    return Frozen(
        best=summaries["best"],
        defaults=summaries.get("defaults"),
        difference=None if usual_scores is None else paired_difference(scores["best"], usual_scores),
        openings=number,
        test_nodes=len(sealed.test_nodes),
    )


def check_freeze(plan: SearchPlan, encoders: int) -> SealedGraph:
    """Return the sealed graph of a search.

    Raises:
        SettingError: it had no labels, so that none are sealed; or there is nothing to train.
    """
    if not isinstance(plan.objective, ValidationAccuracy):
        raise SettingError("No labels are sealed: this search uses none.", remedy="Leave out --freeze.")
    if encoders < 1:
        raise SettingError(f"{encoders} encoders score nothing.", remedy="At least one is needed (--freeze).")
    return plan.objective.sealed


def _test_accuracy(plan: SearchPlan, sealed: SealedGraph, graph: Graph, vectors: Array, seed: int) -> float:
    """Return the accuracy on test nodes, whose labels `graph` has."""
    number, split = sealed.splits[seed]
    if plan.kind.needs_labels:
        return score_classes(vectors, class_numbers(graph), split, number).accuracy
    [found] = score(
        vectors,
        class_numbers(graph),
        sealed.protocol,
        graph_name=known_name(graph),
        seeds=[number],
        published=graph.published_splits,
        device=str(resolve_device(plan.training.device)),
    )
    return found.accuracy
