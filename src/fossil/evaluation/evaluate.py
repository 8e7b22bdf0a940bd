"""Scores of runs, a row for each method and graph, with the published figure beside it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TypeAlias

import numpy as np

from fossil.datasets.catalog import known_name
from fossil.errors import EvaluationError, FossilWarning
from fossil.evaluation.protocol import PROTOCOLS, Protocol, protocol
from fossil.evaluation.statistics import Summary
from fossil.evaluation.tasks.node_classification import NodeClassification, SplitScore
from fossil.graph.graph import Array, Graph
from fossil.graph.splits import TrainingSplit
from fossil.methods.registry import get_method, recipes
from fossil.runs.config import RunConfig
from fossil.runs.embeddings import FitResult
from fossil.runs.plan import as_asked, resolve_epochs, resolve_settings
from fossil.runs.run import Run
from fossil.settings import LARGEST_SEED
from fossil.storage import write_json
from fossil.training.devices import resolve_device

Scorable: TypeAlias = Run | FitResult
"""A run folder, or what a fit returned."""

SPLITS_OF_A_SINGLE_RUN = 10
# Longest vector by the median one, above which probes were seen to lose accuracy that was there: 37 did no harm.
_UNEVEN = 100


@dataclass(frozen=True)
class Row:
    """The scores of one method on one graph.

    Attributes:
        graph: name of the graph.
        method: title of the method, with what sets these runs apart from its defaults on this graph.
        encoders: number of runs, each trained with a seed of its own.
        splits: splits per run.
        metrics: the task's metrics by name, `accuracy` first, selected on validation nodes; the interval is over
            encoders, over splits if there is one encoder. `test_maximum` is the optimistic figure, where the protocol
            has it.
        features: accuracy of the raw input features on the same splits, where asked for.
        published: figure printed in the paper for exactly these settings, or None.
        protocol: how all this came about, in words.
        confidence: of the intervals.
        supervised: whether each run was trained on labels, and is scored on the one split they come from.
    """

    graph: str
    method: str
    encoders: int
    splits: int
    metrics: Mapping[str, Summary]
    features: Summary | None
    published: float | None
    protocol: str
    confidence: float
    supervised: bool = False

    @property
    def accuracy(self) -> Summary:
        """What methods are compared by."""
        return self.metrics["accuracy"]


def evaluate(
    runs: Sequence[Scorable | str | Path] | Scorable | str | Path,
    *,
    protocol: str | Protocol | None = None,
    splits: int | None = None,
    features: bool = False,
    nodes_per_class: int | None = None,
    device: str = "auto",
) -> list[Row]:
    """Score runs, folders or results of `fossil.embed`, by a linear probe; runs that differ in their seed share a row.

    In a row of several runs each encoder is scored on the split of its own seed, as the paper does; a single run is
    scored on ten splits. A run that was trained on labels is scored on the split they come from and on no other. Every
    raw value is written to `scores-PROTOCOL.json` in its run folder, where there is one.

    Args:
        runs: one run or several: folders, `Run`s, or what `fossil.embed` returned.
        protocol: how splits are drawn, what is fitted and what chooses: `paper` (the default) or `released`, or either
            with `-unit-rows`, or `converged`. Runs that were trained on labels settle it.
        splits: splits per run, in place of the above.
        features: also score the raw input features on the same splits.
        nodes_per_class: train on this many nodes of each class, on every graph.
        device: where the probes are fitted.

    Raises:
        EvaluationError: a run has no labels, its splits cannot be drawn, it was trained on another split, or it is
            given twice.
        RunError: a run is not finished.

    Warns:
        FossilWarning: some vectors of a run are far longer than others, and the protocol takes them as they are.

    >>> import fossil
    >>> result = fossil.embed("digits", method="dgi", epochs=2, settings={"width": 16})
    >>> [row] = fossil.evaluate(result, splits=1)
    >>> row.graph, row.method, row.accuracy.n
    ('digits', 'DGI width=16 epochs=2', 1)
    """
    given = [runs] if isinstance(runs, Run | FitResult | str | Path) else list(runs)
    opened = [Run.open(run) if isinstance(run, str | Path) else run for run in given]
    rule = _rule(opened, protocol, nodes_per_class)
    return evaluate_runs(opened, rule, splits=splits, features=features, device=device)


def evaluate_runs(
    runs: Sequence[Scorable],
    protocol: Protocol,
    *,
    splits: int | None = None,
    features: bool = False,
    device: str = "auto",
) -> list[Row]:
    """Score runs under one protocol; see `evaluate`."""
    target, task = str(resolve_device(device)), NodeClassification(protocol)
    grouped: dict[tuple[str, int | None, str], list[Scorable]] = {}
    for run in runs:
        grouped.setdefault(_all_but_the_seed(run.config), []).append(run)
    for members in grouped.values():
        _refuse_repeats(members)
    rows = []
    for members in grouped.values():
        trained_on = training_split(members[0])
        count = 1 if trained_on else splits or (SPLITS_OF_A_SINGLE_RUN if len(members) == 1 else 1)
        scores = [_score_run(run, task, count, target) for run in members]
        of_features = [_score_features(run.graph, task, _seeds(run, count), target) for run in members if features]
        config, known = members[0].config, known_name(members[0].graph)
        differences = _differences(config, known)
        recipe = recipes(config.method).get(known)
        rows.append(
            Row(
                graph=config.graph,
                method=" ".join([get_method(config.method).title, *differences]),
                encoders=len(members),
                splits=count,
                metrics=_metrics(task, scores),
                features=_summary(task, of_features, "accuracy") if features else None,
                published=recipe.published if recipe and not differences else None,
                protocol=task.describe(members[0].graph, seed=config.seed, trained_on=trained_on),
                confidence=protocol.confidence,
                supervised=trained_on is not None,
            )
        )
    return rows


def training_split(run: Scorable) -> TrainingSplit | None:
    """Return the split whose labels a run was trained on; None where it was trained on none."""
    return get_method(run.config.method).training_split(run.config.settings, known_name(run.graph))


def default_protocol(runs: Sequence[Scorable]) -> Protocol:
    """Return `paper`, or the protocol on whose splits the runs that were trained on labels were trained.

    Raises:
        EvaluationError: they were trained on splits of different rules, so that no table can hold them all.
    """
    splits = [(training_split(run), known_name(run.graph)) for run in runs]
    wanted = {PROTOCOLS[split.rule.name].explaining(split.rule, known) for split, known in splits if split is not None}
    if len(wanted) > 1:
        raise EvaluationError(
            "These runs were trained on splits of different rules.", remedy="Score the runs of each rule apart."
        )
    return wanted.pop() if wanted else PROTOCOLS["paper"]


def score_result(result: FitResult, protocol: Protocol, seeds: Sequence[int], device: str = "cpu") -> list[SplitScore]:
    """Score what `fit` returned: on one split per seed, or, if it was trained on labels, on its own split alone."""
    task = NodeClassification(protocol)
    return task.score(result.vectors, result.graph, seeds, trained_on=training_split(result), device=device)


def _rule(runs: Sequence[Scorable], named: str | Protocol | None, nodes_per_class: int | None) -> Protocol:
    rule = default_protocol(runs) if named is None else protocol(named) if isinstance(named, str) else named
    return rule if nodes_per_class is None else rule.per_class_everywhere(nodes_per_class)


def _refuse_repeats(members: Sequence[Scorable]) -> None:
    """Raise EvaluationError where one encoder would count as two, which makes an interval too narrow."""
    seen: dict[str, Scorable] = {}
    for run in members:
        identity, seed = run.config.identity, run.config.seed
        if identity in seen:
            first = seen[identity]
            same = first is run or (first.path and run.path and first.path.resolve() == run.path.resolve())
            twice = f"{_where(run)} (seed {seed}) is given twice"
            alike = f"{_where(first)} and {_where(run)} have the same graph, settings and seed ({seed})"
            raise EvaluationError(
                f"{twice if same else alike}, and would count as two encoders.",
                remedy="Name each encoder once; for another one, train with another --seed.",
            )
        seen[identity] = run


def _where(run: Scorable) -> str:
    return "A result in memory" if run.path is None else str(run.path)


def _all_but_the_seed(config: RunConfig) -> tuple[str, int | None, str]:
    """Return what runs of one row have in common: the graph, the epochs, and everything else but the seed."""
    shared = replace(config, seed=0, settings=as_asked(get_method(config.method), config.settings))
    return config.graph, config.training.epochs, shared.identity


def _differences(config: RunConfig, known: str) -> list[str]:
    """Return what sets a run apart from the method's own defaults on this graph, in words for a table."""
    kind = get_method(config.method)
    _, expected = resolve_settings(kind, config.preset, known, {})
    usual, actual = as_asked(kind, expected).model_dump(), as_asked(kind, config.settings).model_dump()
    changed = [f"{key}={value}" for key, value in actual.items() if usual[key] != value]
    if config.training.epochs != resolve_epochs(kind, known, None):
        changed.append(f"epochs={config.training.epochs}")
    return ([] if config.preset == next(iter(kind.presets)) else [f"({config.preset})"]) + changed


def _score_features(graph: Graph, task: NodeClassification, seeds: Sequence[int], device: str) -> list[SplitScore]:
    """Score the raw input features of a graph: what a linear model knows without any graph learning."""
    features: Array = graph.features.toarray() if graph.has_sparse_features else graph.features
    return task.score(features, graph, seeds, device=device)


def _score_run(run: Scorable, task: NodeClassification, splits: int, device: str) -> list[SplitScore]:
    task.check(run.graph)
    found, trained_on = run if isinstance(run, FitResult) else run.embeddings, training_split(run)
    if not np.array_equal(found.ids, run.graph.ids):
        raise EvaluationError(
            f"The embeddings in {_where(run)} belong to other nodes than its graph.", remedy="Make the run again."
        )
    scores = task.score(found.vectors, run.graph, _seeds(run, splits), trained_on=trained_on, device=device)
    if trained_on is None and task.protocol.rows == "as they are":
        _warn_of_uneven_lengths(found.vectors, _where(run), task.protocol)
    if run.path is not None:
        content = {
            "protocol": task.to_dict(),
            "description": task.describe(run.graph, trained_on=trained_on),
            "method": run.config.method,
            "graph": run.config.graph,
            "seed": run.config.seed,
            "scores": [asdict(value) for value in scores],
        }
        write_json(run.path / f"scores-{task.protocol.name}.json", content)
    return scores


def _warn_of_uneven_lengths(vectors: Array, where: str, protocol: Protocol) -> None:
    lengths = np.linalg.norm(vectors, axis=1)
    longest, median = lengths.max(), np.median(lengths)
    if longest > _UNEVEN * median > 0:
        warnings.warn(
            f"The longest vector of {where} is {longest / median:,.0f} times as long as the median one, and a probe "
            f"follows the longest. --protocol {protocol.split}-unit-rows scores directions alone.",
            FossilWarning,
            stacklevel=4,
        )


def _seeds(run: Scorable, splits: int) -> list[int]:
    """Return the split seeds of a run: its own seed first, so that several runs see several splits."""
    trained_on = training_split(run)
    if trained_on is not None:
        return [trained_on.seed]
    return [(run.config.seed + 1000 * i) % (LARGEST_SEED + 1) for i in range(splits)]


def _metrics(task: NodeClassification, scores: Sequence[Sequence[SplitScore]]) -> dict[str, Summary]:
    """Summarize every metric that all scores have."""
    every = [score for of_run in scores for score in of_run]
    present = [metric.name for metric in task.metrics if all(getattr(one, metric.name) is not None for one in every)]
    return {name: _summary(task, scores, name) for name in present}


def _summary(task: NodeClassification, scores: Sequence[Sequence[SplitScore]], name: str) -> Summary:
    """Summarize one value per encoder, its mean over splits; one value per split where there is a single encoder.

    Splits of the same encoder are not independent, so pooling them would make the interval too narrow.
    """
    values = [[float(getattr(one, name)) for one in of_run] for of_run in scores]
    return task.protocol.summarize(values[0] if len(values) == 1 else [mean(of_run) for of_run in values])
