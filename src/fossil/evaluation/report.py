"""Scores of runs, a row for each method and graph, with the published figure beside it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from fossil.errors import EvaluationError, FossilWarning
from fossil.evaluation.protocol import PROTOCOLS, Protocol, SplitScore, score, score_classes
from fossil.evaluation.statistics import Summary
from fossil.fit import Embeddings, resolve_epochs, resolve_settings
from fossil.graph.catalog import known_name
from fossil.graph.graph import Array, Graph
from fossil.methods.registry import get_method, recipes
from fossil.methods.supervised import Supervised, SupervisedSettings
from fossil.run import Run, RunConfig
from fossil.settings import LARGEST_SEED, Settings
from fossil.storage import write_json
from fossil.training.runtime import resolve_device

if TYPE_CHECKING:
    from rich.table import Table

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
        accuracy: selected on validation nodes; the interval is over encoders, over splits if there is one encoder.
        test_maximum: the optimistic figure, where the protocol has it.
        features: accuracy of the raw input features on the same splits, where asked for.
        published: figure printed in the paper for exactly these settings, or None.
        protocol: how all this came about, in words.
        supervised: whether each run was trained on labels, and is scored on the one split they come from.
    """

    graph: str
    method: str
    encoders: int
    splits: int
    accuracy: Summary
    test_maximum: Summary | None
    features: Summary | None
    published: float | None
    protocol: str
    supervised: bool = False


def evaluate_runs(
    runs: Sequence[Run], protocol: Protocol, *, splits: int | None = None, features: bool = False, device: str = "auto"
) -> list[Row]:
    """Score runs under a protocol; runs that differ in their seed alone share a row.

    In a row of several runs each encoder is scored on the split of its own seed, as the paper does; a single run is
    scored on ten splits. A run that was trained on labels is scored on the split they come from and on no other. Every
    raw value is written to `scores-PROTOCOL.json` in its run folder.

    Args:
        runs: finished runs.
        protocol: how to score.
        splits: splits per run, in place of the above.
        features: also score the input features.
        device: where the probes are fitted.

    Raises:
        EvaluationError: a run has no labels, its splits cannot be drawn, it was trained on another split, or it is
            given twice.
        RunError: a run is not finished.

    Warns:
        FossilWarning: some vectors of a run are far longer than others, and the protocol takes them as they are.
    """
    target = str(resolve_device(device))
    grouped: dict[tuple[str, int | None, str], list[Run]] = {}
    for run in runs:
        grouped.setdefault(_all_but_the_seed(run.config), []).append(run)
    for members in grouped.values():
        _refuse_repeats(members)
    rows = []
    for members in grouped.values():
        supervised = isinstance(members[0].config.settings, SupervisedSettings)
        count = 1 if supervised else splits or (SPLITS_OF_A_SINGLE_RUN if len(members) == 1 else 1)
        of_embeddings = [_score_run(run, protocol, count, target) for run in members]
        of_features = [score_features(run.graph, protocol, _seeds(run, count), target) for run in members if features]
        config, known = members[0].config, known_name(members[0].graph)
        differences = _differences(config, known)
        recipe = recipes(config.method).get(known)
        split = protocol.draw(_labels(members[0]), config.seed, known)
        rows.append(
            Row(
                graph=config.graph,
                method=" ".join([get_method(config.method).title, *differences]),
                encoders=len(members),
                splits=count,
                accuracy=_summary(protocol, of_embeddings, "accuracy"),
                test_maximum=_summary(protocol, of_embeddings, "test_maximum")
                if protocol.optimistic and not supervised
                else None,
                features=_summary(protocol, of_features, "accuracy") if features else None,
                published=recipe.published if recipe and not differences else None,
                protocol=protocol.describe(known, split, supervised=supervised),
                supervised=supervised,
            )
        )
    return rows


def _refuse_repeats(members: Sequence[Run]) -> None:
    """Raise EvaluationError where one encoder would count as two, which makes an interval too narrow."""
    seen: dict[str, Run] = {}
    for run in members:
        identity, seed = run.config.identity, run.config.seed
        if identity in seen:
            first = seen[identity].path
            raise EvaluationError(
                f"{run.path} (seed {seed}) is given twice, and would count as two encoders."
                if first.resolve() == run.path.resolve()
                else f"{first} and {run.path} have the same graph, settings and seed ({seed}), and would count as two "
                "encoders.",
                remedy="Name each encoder once; for another one, train with another --seed.",
            )
        seen[identity] = run


def _all_but_the_seed(config: RunConfig) -> tuple[str, int | None, str]:
    """Return what runs of one row have in common: the graph, the epochs, and everything else but the seed."""
    shared = replace(config, seed=0, settings=_as_asked(config.settings))
    return config.graph, config.training.epochs, shared.identity


def _as_asked(settings: Settings) -> Settings:
    """Return the settings without what a run fills in from its graph and its seed."""
    if not isinstance(settings, SupervisedSettings):
        return settings
    return settings.updated({"split_seed": None, "num_classes": None})


def _differences(config: RunConfig, known: str) -> list[str]:
    """Return what sets a run apart from the method's own defaults on this graph, in words for a table."""
    default = next(iter(get_method(config.method).presets))
    _, expected = resolve_settings(config.method, config.preset, known, {})
    usual, actual = _as_asked(expected).model_dump(), _as_asked(config.settings).model_dump()
    changed = [f"{key}={value}" for key, value in actual.items() if usual[key] != value]
    if config.training.epochs != resolve_epochs(config.method, known, None):
        changed.append(f"epochs={config.training.epochs}")
    return ([] if config.preset == default else [f"({config.preset})"]) + changed


def default_protocol(runs: Sequence[Run]) -> Protocol:
    """Return `paper`, or the protocol on whose splits the runs that were trained on labels were trained.

    Raises:
        EvaluationError: they were trained on splits of different rules, so that no table can hold them all.
    """
    wanted = {_protocol_of(run.config.settings) for run in runs if isinstance(run.config.settings, SupervisedSettings)}
    if len(wanted) > 1:
        raise EvaluationError(
            "These runs were trained on splits of different rules.", remedy="Score the runs of each rule apart."
        )
    return wanted.pop() if wanted else PROTOCOLS["paper"]


def _protocol_of(settings: SupervisedSettings) -> Protocol:
    named = PROTOCOLS[settings.split]
    return named if settings.nodes_per_class is None else named.per_class_everywhere(settings.nodes_per_class)


def score_result(result: Embeddings, protocol: Protocol, seeds: Sequence[int], device: str = "cpu") -> list[SplitScore]:
    """Score what `fit` returned: on one split per seed, or, if it was trained on labels, on its own split alone."""
    settings = result.method.config if isinstance(result.method, Supervised) else None
    assert result.graph.labels is not None
    return _score(result.vectors, result.graph.labels, known_name(result.graph), settings, protocol, seeds, device)


def _score(
    vectors: Array,
    labels: Array,
    graph_name: str,
    settings: Settings | None,
    protocol: Protocol,
    seeds: Sequence[int],
    device: str,
) -> list[SplitScore]:
    if not isinstance(settings, SupervisedSettings):
        return score(vectors, labels, protocol, graph_name=graph_name, seeds=seeds, device=device)
    trained, asked, seed = settings.split_rule(graph_name), protocol.rule(graph_name), settings.split_seed
    assert seed is not None
    if trained != asked:
        per_class = "" if settings.nodes_per_class is None else f" --nodes-per-class {settings.nodes_per_class}"
        raise EvaluationError(
            f"This run was trained on labels of another split than protocol {protocol.name!r} would score it on. "
            f"Trained: {trained.describe()} Asked for: {asked.describe()}",
            remedy=f"Score it with --protocol {settings.split}{per_class}, or train it anew with --set split=RULE and "
            "--set nodes_per_class=N.",
        )
    return [score_classes(vectors, labels, trained.draw(labels, seed), seed)]


def score_features(graph: Graph, protocol: Protocol, seeds: Sequence[int], device: str = "cpu") -> list[SplitScore]:
    """Score the raw input features of a graph: what a linear model knows without any graph learning."""
    features: Array = graph.features.toarray() if graph.has_sparse_features else graph.features
    assert graph.labels is not None
    return score(features, graph.labels, protocol, graph_name=known_name(graph), seeds=seeds, device=device)


def table_of(rows: Sequence[Row], protocol: Protocol) -> Table:
    """Return the rows as a table for the terminal, accuracies in percent."""
    from rich.table import Table

    optional = {
        "test maximum": any(row.test_maximum for row in rows),
        "raw features": any(row.features for row in rows),
        "published": any(row.published for row in rows),
    }
    shown = [name for name, wanted in optional.items() if wanted]
    confidence = f"{100 * protocol.confidence:g} % interval"
    table = Table("graph", "method", "encoders × splits", "accuracy", confidence, *shown)
    for row in rows:
        cells = {
            "test maximum": _percent(row.test_maximum),
            "raw features": _percent(row.features),
            "published": "" if row.published is None else f"{row.published:.2f}",
        }
        interval = (
            f"{100 * row.accuracy.low:.2f} to {100 * row.accuracy.high:.2f}"
            if row.accuracy.has_interval
            else "one value"
        )
        table.add_row(
            row.graph,
            row.method,
            f"{row.encoders} × {'own split' if row.supervised else row.splits}",
            f"{100 * row.accuracy.mean:.2f}",
            interval,
            *(cells[name] for name in shown),
        )
    return table


def _score_run(run: Run, protocol: Protocol, splits: int, device: str) -> list[SplitScore]:
    labels = _labels(run)
    arrays = run.arrays
    if not np.array_equal(arrays["ids"], run.graph.ids):
        raise EvaluationError(
            f"The embeddings in {run.path} belong to other nodes than its graph.", remedy="Make the run again."
        )
    known, settings = known_name(run.graph), run.config.settings
    scores = _score(arrays["vectors"], labels, known, settings, protocol, _seeds(run, splits), device)
    supervised = isinstance(settings, SupervisedSettings)
    if not supervised and not protocol.unit_rows:
        _warn_of_uneven_lengths(arrays["vectors"], run, protocol)
    content = {
        "protocol": protocol.model_dump(),
        "description": protocol.describe(known, supervised=supervised),
        "method": run.config.method,
        "graph": run.config.graph,
        "seed": run.config.seed,
        "scores": [asdict(value) for value in scores],
    }
    write_json(run.path / f"scores-{protocol.name}.json", content)
    return scores


def _warn_of_uneven_lengths(vectors: Array, run: Run, protocol: Protocol) -> None:
    lengths = np.linalg.norm(vectors, axis=1)
    longest, median = lengths.max(), np.median(lengths)
    if longest > _UNEVEN * median > 0:
        warnings.warn(
            f"The longest vector of {run.path} is {longest / median:,.0f} times as long as the median one, and a probe "
            f"follows the longest. --protocol {protocol.split}-unit-rows scores directions alone.",
            FossilWarning,
            stacklevel=4,
        )


def _seeds(run: Run, splits: int) -> list[int]:
    """Return the split seeds of a run: its own seed first, so that several runs see several splits."""
    settings = run.config.settings
    if isinstance(settings, SupervisedSettings) and settings.split_seed is not None:
        return [settings.split_seed]
    return [(run.config.seed + 1000 * i) % (LARGEST_SEED + 1) for i in range(splits)]


def _labels(run: Run) -> Array:
    labels = run.graph.labels
    if labels is None:
        raise EvaluationError(
            f"The graph of {run.path} has no labels to score against.",
            remedy="Embed again with --label COLUMN; where that column was no feature, --resume trains nothing anew.",
        )
    if labels.ndim == 2:
        raise EvaluationError(
            f"The graph of {run.path} has {labels.shape[1]} binary tasks; accuracy needs one class per node.",
            remedy="Score its embeddings.npz with a metric for such tasks.",
        )
    return labels


def _summary(protocol: Protocol, scores: Sequence[Sequence[SplitScore]], name: str) -> Summary:
    """Summarize one value per encoder, its mean over splits; one value per split where there is a single encoder.

    Splits of the same encoder are not independent, so pooling them would make the interval too narrow.
    """
    values = [[float(getattr(one, name)) for one in of_run] for of_run in scores]
    return protocol.summarize(values[0] if len(values) == 1 else [mean(of_run) for of_run in values])


def _percent(summary: Summary | None) -> str:
    return "" if summary is None else f"{100 * summary.mean:.2f} ± {100 * summary.half_width:.2f}"
