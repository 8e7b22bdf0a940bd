"""Trainings that were done elsewhere: records of other stores, and those of the script from before studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fossil.datasets.catalog import known_name
from fossil.errors import FossilError, RunError
from fossil.evaluation.protocol import protocol
from fossil.methods.registry import get_method
from fossil.runs.plan import plan_run
from fossil.studies.plan import Graphs, StudyPlan, scoring_key, training_key
from fossil.studies.recorded import read_lines
from fossil.studies.store import Record, Scores, Store
from fossil.studies.train import begin

_OF_THE_SCRIPT = ("graph", "method", "preset", "set", "direction", "protocol", "epochs", "splits", "precision", "seed")


def import_records(plan: StudyPlan, graphs: Graphs, store: Store, path: Path) -> str:
    """Take over the records of a file that a study asks for, and return in words what was taken.

    What the store has already stays as it is; scores that it lacks are added. Records of `benchmarks/accuracy.py` have
    no fingerprint and no version of the method: they are taken for trainings of today's code with the same settings.

    Raises:
        RunError: a line is no record; nothing was taken then.
    """
    counts: Counter[str] = Counter()
    found = [_understood(plan, graphs, values, where) for values, where in read_lines(path) if "left_out" not in values]
    for record in found:
        if record is None or record.key not in plan.keys:
            counts["left"] += 1
            continue
        before = store.read(record.key)
        new = record.scores if before is None else {k: v for k, v in record.scores.items() if k not in before.scores}
        if before is not None and not new:
            counts["there"] += 1
            continue
        counts["taken"] += 1
        store.write(replace(record, imported=path.name) if before is None else before.with_scores(new))
    return f"{counts['taken']} taken, {counts['there']} there already, {counts['left']} not asked for by this study"


def _understood(plan: StudyPlan, graphs: Graphs, values: dict[str, Any], where: str) -> Record | None:
    """Return a record of either kind; None where it is of a graph, of a method or of code that is not wanted."""
    if "key" in values:
        values.pop("places", None)
        return Record.from_dict(values, where)
    if not all(name in values for name in _OF_THE_SCRIPT):
        raise RunError(f"{where} is no record of a training.", remedy="Name another file; nothing was taken.")
    if values.get("code") is not None or values["method"] not in {row.method for row in plan.rows}:
        return None
    return _of_the_script(plan, graphs, values, where)


def _of_the_script(plan: StudyPlan, graphs: Graphs, values: Mapping[str, Any], where: str) -> Record | None:
    """Return what `benchmarks/accuracy.py` recorded of one training under one protocol."""
    treatment = {} if values["direction"] == "keep" else {"direction": values["direction"]}
    column = next(
        (
            number
            for number, entry in enumerate(plan.study.graphs)
            if (entry.input, entry.treatment) == (values["graph"], treatment) and number not in plan.unreadable
        ),
        None,
    )
    if column is None or values["protocol"] not in plan.study.protocols:
        return None
    trained = get_method(values["method"]).trained
    try:
        made = plan_run(
            graphs.open(column, values["seed"]), method=values["method"], preset=values["preset"],
            settings=values["set"], seed=values["seed"], treatment=graphs.treatment(column),
            training={"epochs": values["epochs"] if trained else None, "precision": values["precision"]},
        )  # fmt: skip
        rule, graph = protocol(values["protocol"]), made.graph
        seeds = rule.rule(known_name(graph)).seeds(values["seed"], values["splits"], graph.published_splits)
        key = scoring_key(graph, rule)
    except FossilError:
        return None  # settings that no longer exist
    record = replace(
        begin(made, values["graph"], None),
        key=training_key(made.config),
        seconds=values.get("seconds"),
        memory=None if values.get("peak_memory_gb") is None else 1e9 * values["peak_memory_gb"],
        effective_rank=values.get("effective_rank"),
        lambda_mean=values.get("lambda_mean"),
        device=values.get("device", ""),
        torch=values.get("torch", ""),
        failed=values.get("failed", ""),
    )
    if record.failed:
        return record
    accuracies = tuple(values["accuracies"])
    scores = Scores(
        protocol=rule.name,
        seeds=tuple(seeds[: len(accuracies)]),
        accuracies=accuracies,
        test_maxima=tuple(values.get("test_maxima", ())),
        majority=values.get("majority"),
        test_nodes=values.get("test_nodes"),
        seconds=values.get("evaluation_seconds"),
        supervised=made.kind.needs_labels,
    )
    return record.with_scores({key: scores})
