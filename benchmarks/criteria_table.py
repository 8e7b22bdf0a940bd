"""How well criteria without labels rank checkpoints and settings, in records of `criteria.py`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import spearmanr

from fossil.datasets.catalog import find
from fossil.evaluation.statistics import summarize
from fossil.methods.registry import get_method
from fossil.readers.source import open_graph

Record: TypeAlias = dict[str, Any]
# Each by its settings and seed: the records of its checkpoints, in rising order of epochs.
Trainings: TypeAlias = dict[tuple[str, int], list[Record]]

# Less of these is better; of all others, more.
_LESS = {"alignment", "uniformity", "alignment + uniformity", "loss", "fall of the loss"}
_LABELS = "validation accuracy (has labels)"
_USUAL = "the method's own number of epochs"
_DEFAULTS = json.dumps({})


class Row(NamedTuple):
    """What there is to say of a criterion, one number for each graph; nothing where it has no say."""

    among_checkpoints: Mapping[str, float]
    among_settings: Mapping[str, float]
    stopping: Mapping[str, float]
    choosing: Mapping[str, float]


def key_of(record: Record) -> str:
    """Return what makes two records the same measurement."""
    names = ("graph", "method", "set", "epochs", "splits", "precision", "seed", "epoch")
    return json.dumps([record[name] for name in names], sort_keys=True)


def print_tables(records: list[Record]) -> None:
    """Print two Markdown tables for every method, precision and list of checkpoints."""
    parts: dict[tuple[str, str, int, str], dict[str, Trainings]] = defaultdict(lambda: defaultdict(dict))
    for record in {key_of(record): record for record in records}.values():  # each once
        which = (record["method"], record["precision"], record["splits"], json.dumps(record["epochs"]))
        of_graph, training = parts[which][record["graph"]], (json.dumps(record["set"], sort_keys=True), record["seed"])
        of_graph.setdefault(training, []).append(record)
    for (method, precision, splits, epochs), graphs in parts.items():
        for trainings in graphs.values():
            for checkpoints in trainings.values():
                checkpoints.sort(key=lambda record: record["epoch"])
        count = sum(len(trainings) for trainings in graphs.values())
        print(f"{method}, {precision}, epochs {epochs}: {count} trainings, {splits} splits a checkpoint\n")
        usual = {graph: get_method(method).epochs_for(_nodes(graph)) for graph in graphs}
        _print(rows_of(graphs, usual), list(graphs))


def _nodes(graph: str) -> int:
    """Return the size of a graph: what the catalogue says, so that no data are needed, or that of one made anew."""
    name, _, settings = graph.partition(":")
    return (None if settings else find(name).counts.nodes) or open_graph(graph).graph.num_nodes


def rows_of(graphs: Mapping[str, Trainings], usual: Mapping[str, int]) -> dict[str, Row]:
    """Return a row for each criterion, for validation labels, and for rules that look at nothing.

    Args:
        graphs: trainings of each graph.
        usual: the number of epochs that the method has by default on each of them.
    """
    first = next(iter(next(iter(graphs.values())).values()))[0]
    # Those of both views and of the loss first, then those of the vectors, then those of a view.
    names = sorted(first["criteria"], key=lambda name: name.partition(": ")[0] if ": " in name else "")
    rows = {name: _row(graphs, _reading(name)) for name in names}
    rows[_LABELS] = _row(graphs, lambda record: record["validation_accuracy"])
    shared = sorted({record["epoch"] for of_graph in graphs.values() for one in of_graph.values() for record in one})
    lost = {epoch: _lost_at(graphs, epoch) for epoch in shared}
    nearest = {graph: min(shared, key=lambda epoch: abs(epoch - usual[graph])) for graph in graphs}
    rows[_USUAL] = _stopping({graph: lost[nearest[graph]][graph] for graph in graphs})
    # The number of epochs as a criterion: whatever only rises or only falls in a training ranks no better than this.
    last = f"always {shared[-1]} epochs"
    rows[last] = _row(graphs, lambda record: record["epoch"])._replace(among_settings={}, choosing={})
    rows["a checkpoint at random"] = _stopping({graph: fmean(one[graph] for one in lost.values()) for graph in graphs})
    if len(graphs) > 1:
        best = {graph: min(shared, key=lambda epoch: _mean_elsewhere(lost[epoch], graph)) for graph in graphs}
        rows["epochs best on other graphs"] = _stopping({graph: lost[best[graph]][graph] for graph in graphs})
    ends = {graph: _settings(one, lambda record: record["accuracy"]) for graph, one in graphs.items()}
    chosen = {
        graph: max(one.values()) - one[_DEFAULTS] for graph, one in ends.items() if _DEFAULTS in one and len(one) > 1
    }
    rows["default settings"] = Row({}, {}, {}, chosen)
    return rows


Reading: TypeAlias = Callable[[Record], float | None]
"""From a record to what is better the more there is of it."""


def _reading(name: str) -> Reading:
    sign = -1 if name in _LESS else 1

    def read(record: Record) -> float | None:
        value = record["criteria"][name]
        return None if value is None else sign * value

    return read


def _row(graphs: Mapping[str, Trainings], reading: Reading) -> Row:
    among, stopping, settings, choosing = {}, {}, {}, {}
    for graph, trainings in graphs.items():
        pairs = [[(reading(one), one["accuracy"]) for one in checkpoints] for checkpoints in trainings.values()]
        found = [rank for one in pairs if (rank := correlation(one)) is not None]
        if found:
            among[graph] = fmean(found)
        stopping[graph] = fmean(regret(one) for one in pairs)
        values, accuracies = (_settings(trainings, each) for each in (reading, lambda record: record["accuracy"]))
        ends = [(values.get(name), accuracy) for name, accuracy in accuracies.items()]
        rank = correlation(ends)
        if rank is not None:
            settings[graph] = rank
        if len(ends) > 1:
            choosing[graph] = regret(ends)
    return Row(among, settings, stopping, choosing)


def correlation(pairs: Sequence[tuple[float | None, float]]) -> float | None:
    """Return Spearman's correlation of criterion and accuracy, 0 for a criterion that tells nothing apart.

    None where there is nothing to tell apart: fewer than three pairs, or one accuracy.
    """
    known = [(value, accuracy) for value, accuracy in pairs if value is not None]
    values, accuracies = ([pair[i] for pair in known] for i in (0, 1))
    if len(known) < 3 or len(set(accuracies)) == 1:
        return None
    return float(spearmanr(values, accuracies).statistic) if len(set(values)) > 1 else 0.0


def regret(pairs: Sequence[tuple[float | None, float]]) -> float:
    """Return the best accuracy minus that of the pair of greatest criterion, the first of equals."""
    known = [(value, accuracy) for value, accuracy in pairs if value is not None]
    chosen = known[int(np.argmax([value for value, _ in known]))][1] if known else pairs[0][1]
    return max(accuracy for _, accuracy in pairs) - chosen


def _settings(trainings: Trainings, reading: Reading) -> dict[str, float]:
    """Return the mean over seeds at the last checkpoint, by settings."""
    found = defaultdict(list)
    for (settings, _), checkpoints in trainings.items():
        value = reading(checkpoints[-1])
        if value is not None:
            found[settings].append(value)
    return {settings: fmean(values) for settings, values in found.items()}


def _lost_at(graphs: Mapping[str, Trainings], epoch: int) -> dict[str, float]:
    """Return what is lost by stopping at an epoch, on each graph."""
    return {
        graph: fmean(regret([(one["epoch"] == epoch, one["accuracy"]) for one in each]) for each in trainings.values())
        for graph, trainings in graphs.items()
    }


def _mean_elsewhere(lost: Mapping[str, float], graph: str) -> float:
    return fmean(value for other, value in lost.items() if other != graph)


def _stopping(lost: Mapping[str, float]) -> Row:
    return Row({}, {}, lost, {})


def _print(rows: Mapping[str, Row], graphs: Sequence[str]) -> None:
    head = ["criterion", "among checkpoints", "least, greatest", "among settings", "least, greatest", "stopping"]
    head += [f"less than {_USUAL}", "choosing"]
    print(f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|")
    fixed = rows[_USUAL].stopping
    for name, row in rows.items():
        ranks = [cell for one in row[:2] for cell in (_mean(one), _range(one))]
        gained = {graph: fixed[graph] - lost for graph, lost in row.stopping.items()}
        points = [_mean(each, 100) for each in (row.stopping, gained, row.choosing)]
        print(f"| {name} | {' | '.join([*ranks, *points])} |")
    print("\nPoints lost by stopping, on each graph:\n")
    print("| criterion | " + " | ".join(graphs) + " |\n" + "|---" * (len(graphs) + 1) + "|")
    for name, row in rows.items():
        if row.stopping:
            print(f"| {name} | " + " | ".join(f"{100 * row.stopping[graph]:.2f}" for graph in graphs) + " |")
    print()


def _mean(values: Mapping[str, float], scale: int = 1) -> str:
    """Return the mean over graphs and half of its interval, where there is one."""
    if not values:
        return "–"
    found = summarize([scale * value for value in values.values()])
    return f"{found.mean:.2f}" + ("" if found.half_width is None else f" ± {found.half_width:.2f}")


def _range(values: Mapping[str, float]) -> str:
    return f"{min(values.values()):.2f}, {max(values.values()):.2f}" if values else "–"
