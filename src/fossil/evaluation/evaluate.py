"""Scores of encoders, a row for each method and graph, with what is to be beaten and the published figure beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np

from fossil.datasets.catalog import known_name
from fossil.errors import EvaluationError, warn_the_caller
from fossil.evaluation.protocol import PROTOCOLS, Protocol, protocol
from fossil.evaluation.rows import ByEncoder, Row
from fossil.evaluation.statistics import Summary
from fossil.evaluation.subjects import Scorable, Subject, by_row, subject_of, training_split
from fossil.evaluation.tasks.node_classification import NodeClassification, SplitScore
from fossil.evaluation.untrained import UNTRAINED, UntrainedScores, is_trained
from fossil.graph.graph import Graph
from fossil.graph.published import PUBLISHED
from fossil.progress import Progress, silent
from fossil.runs.config import RunConfig
from fossil.runs.embeddings import FitResult
from fossil.runs.lock import locked
from fossil.runs.run import Run
from fossil.storage import write_json
from fossil.training.devices import resolve_device

SPLITS_OF_A_SINGLE_RUN = 10
# Longest vector by the median one, above which probes were seen to lose accuracy that was there: 37 did no harm.
_UNEVEN = 100


def evaluate(
    runs: Sequence[Scorable | str | Path] | Scorable | str | Path,
    *,
    protocol: str | Protocol | None = None,
    splits: int | None = None,
    features: bool | None = None,
    nodes_per_class: int | None = None,
    device: str = "auto",
    progress: Progress = silent,
    keep: bool = True,
) -> list[Row]:
    """Score runs, folders or results of `fossil.embed`, by a linear probe; runs that differ in their seed share a row.

    In a row of several runs each encoder is scored on the split of its own seed, as the paper does; a single run is
    scored on ten splits. A run that was trained on labels is scored on the split they come from and on no other. Every
    raw value is written to `scores-PROTOCOL.json` in its run folder, where there is one and `keep` is not False.

    Args:
        runs: one run or several: folders, `Run`s, what `fossil.embed` returned, or what
            `fossil.evaluation.vectors.read_vectors` did.
        protocol: how splits are drawn, what is fitted and what chooses: `paper` (the default) or `released`, or either
            with `-unit-rows`, or `converged`; `public` or `geom_gcn` for splits that were published with the graph.
            Runs that were trained on labels settle it.
        splits: splits per run, in place of the above; of published splits none counts twice.
        features: also score what nothing was trained for, features and propagated features, on the same splits, and
            mark who does not beat them; when None, where there is more than one row to compare.
        nodes_per_class: train on this many nodes of each class, on every graph.
        device: where the probes are fitted.
        progress: told now and then which share of all scoring is done.
        keep: write raw values to the run folders.

    Raises:
        EvaluationError: it is no run, a run has no labels or not the published splits, its splits cannot be drawn, it
            was trained on another split, or it is given twice; or there are to be no splits.
        RunError: a run is not finished.

    Warns:
        FossilWarning: some vectors of a run are far longer than others, and the protocol takes them as they are; or
            runs of different seeds have equal vectors, and count once; or propagated features do not fit in memory.

    >>> import fossil
    >>> result = fossil.embed("digits", method="dgi", epochs=2, settings={"width": 16})
    >>> [row] = fossil.evaluate(result, splits=1)
    >>> row.graph, row.method, row.accuracy.n
    ('digits', 'DGI width=16 epochs=2', 1)
    """
    given = [runs] if isinstance(runs, Scorable | str | Path | Mapping | np.ndarray) else list(runs)
    opened = [subject_of(Run.open(run) if isinstance(run, str | Path) else run) for run in given]
    rule = _rule(opened, protocol, nodes_per_class)
    return _rows(opened, rule, splits, features, device, progress, keep)


def score_result(result: FitResult, protocol: Protocol, seeds: Sequence[int], device: str = "cpu") -> list[SplitScore]:
    """Score what `fit` returned: on one split per seed, or, if it was trained on labels, on its own split alone."""
    task = NodeClassification(protocol)
    return task.score(result.vectors, result.graph, seeds, trained_on=training_split(result), device=device)


def default_protocol(subjects: Sequence[Subject]) -> Protocol:
    """Return `paper`, or the protocol on whose splits the encoders that were trained on labels were trained.

    Raises:
        EvaluationError: they were trained on splits of different rules, so that no table can hold them all.
    """
    splits = [(subject.trained_on, known_name(subject.graph)) for subject in subjects]
    wanted = {PROTOCOLS[split.rule.name].explaining(split.rule, known) for split, known in splits if split is not None}
    if len(wanted) > 1:
        raise EvaluationError(
            "These runs were trained on splits of different rules.", remedy="Score the runs of each rule apart."
        )
    return wanted.pop() if wanted else PROTOCOLS["paper"]


def _rule(subjects: Sequence[Subject], named: str | Protocol | None, nodes_per_class: int | None) -> Protocol:
    rule = default_protocol(subjects) if named is None else protocol(named) if isinstance(named, str) else named
    return rule if nodes_per_class is None else rule.per_class_everywhere(nodes_per_class)


def _rows(
    subjects: Sequence[Subject],
    protocol: Protocol,
    splits: int | None,
    features: bool | None,
    device: str,
    progress: Progress,
    keep: bool,
) -> list[Row]:
    if splits is not None and splits < 1:
        raise EvaluationError(f"splits={splits} is not accepted.", remedy="Score at least one split.")
    task, target = NodeClassification(protocol), str(resolve_device(device))
    for subject in subjects:
        task.check(subject.graph)
    rows, grouped, untrained = [], by_row(subjects), UntrainedScores(task, target)
    wanted = len(grouped) > 1 if features is None else features
    compared = [wanted and is_trained(members[0]) for members in grouped]
    times = [len(members) * (1 + len(UNTRAINED) * has) for members, has in zip(grouped, compared, strict=True)]
    parts = _parts(progress, sum(times))
    for members, has in zip(grouped, compared, strict=True):
        first = members[0]
        count = splits or (SPLITS_OF_A_SINGLE_RUN if len(members) == 1 else 1)
        scores = {member.seed: _score(member, task, count, target, next(parts), keep) for member in members}
        every_split = list(dict.fromkeys(score.seed for of_one in scores.values() for score in of_one))
        majority = task.baseline(first.graph, every_split)
        fair = [metric.name for metric in task.metrics if metric.fair]
        row = Row(
            graph=first.graph.name,
            method=first.method,
            scores=scores,
            metrics=_metrics(task, scores),
            majority={name: Summary(tuple(getattr(one, name) for one in majority)) for name in fair},
            truth=f"{truth_of(first.graph, protocol)} {protocol.rule(known_name(first.graph)).nodes_per_class}",
            published=first.published,
            protocol=task.describe(first.graph, seed=first.seed, trained_on=first.trained_on),
            confidence=protocol.confidence,
            supervised=first.trained_on is not None,
            trained=is_trained(first),
        )
        found = untrained.of(members, count, row.truth, parts) if has else {}
        rows.append(replace(row, untrained=tuple(_beside(row, task, *one) for one in found.items())))
    return rows


def _beside(row: Row, task: NodeClassification, title: str, scores: ByEncoder) -> Row:
    """Return the row of something untrained on the graph and the splits of another row."""
    beside = replace(row, method=title, scores=scores, metrics=_metrics(task, scores))
    return replace(beside, published=None, supervised=False, trained=False)


def _parts(whole: Progress, count: int) -> Iterator[Progress]:
    """Return what each of `count` equal parts reports its own share to, so that `whole` hears the share of all."""

    def report(done: int, share: float) -> None:
        whole((done + share) / count)

    return (partial(report, done) for done in range(count))


def _score(
    subject: Subject, task: NodeClassification, splits: int, device: str, progress: Progress, keep: bool
) -> list[SplitScore]:
    """Score one encoder and, where that is asked for, keep every raw value in its folder, where it has one."""
    seeds, trained_on = subject.split_seeds(splits, task.protocol), subject.trained_on
    scores = task.score(subject.vectors, subject.graph, seeds, trained_on=trained_on, device=device, progress=progress)
    if trained_on is None and task.protocol.rows == "as they are":
        _warn_of_uneven_lengths(subject, task.protocol)
    if keep and subject.folder is not None and subject.config is not None:
        content = {
            "protocol": task.to_dict(),
            "description": task.describe(subject.graph, trained_on=trained_on),
            "method": subject.config.method,
            "graph": subject.config.graph,
            "seed": subject.seed,
            "scores": [asdict(value) for value in scores],
        }
        _keep(subject.folder, subject.config, task.protocol.name, content)
    return scores


def _keep(folder: Path, config: RunConfig, protocol: str, content: dict[str, object]) -> None:
    """Write raw scores into the run's folder, unless another run has taken its place meanwhile."""
    with locked(folder):
        now = Run.open(folder)
        same = now.finished and (now.config.identity, now.config.training.epochs) == (
            config.identity,
            config.training.epochs,
        )
        if same:
            write_json(folder / f"scores-{protocol}.json", content)
        else:
            warn_the_caller(f"The run in {folder} has changed since it was scored: its scores are not kept there.")


def _warn_of_uneven_lengths(subject: Subject, protocol: Protocol) -> None:
    lengths = np.linalg.norm(subject.vectors, axis=1)
    longest, median = lengths.max(), np.median(lengths)
    if longest > _UNEVEN * median > 0:
        unit = protocol.split if protocol.split not in PUBLISHED else "paper"
        warn_the_caller(
            f"The longest vector of {subject.where} is {longest / median:,.0f} times as long as the median one, and a "
            f"probe follows the longest. --protocol {unit}-unit-rows scores directions alone."
        )


def _metrics(task: NodeClassification, scores: ByEncoder) -> dict[str, Summary]:
    """Summarize every metric that all scores have."""
    every = [score for of_one in scores.values() for score in of_one]
    present = [metric.name for metric in task.metrics if all(getattr(one, metric.name) is not None for one in every)]
    return {name: _summary(task, scores, name) for name in present}


def _summary(task: NodeClassification, scores: ByEncoder, name: str) -> Summary:
    """Summarize one value per encoder, its mean over splits; one value per split where there is a single encoder.

    Splits of the same encoder are not independent, so pooling them would make the interval too narrow.
    """
    values = [[float(getattr(one, name)) for one in of_one] for of_one in scores.values()]
    return task.protocol.summarize(values[0] if len(values) == 1 else [mean(of_one) for of_one in values])


def truth_of(graph: Graph, protocol: Protocol) -> str:
    """Return a digest of node ids and labels, and of the published splits that the protocol takes."""
    assert graph.labels is not None
    answers = "\n".join(
        f"{node}\t{label}" for node, label in zip(graph.ids.tolist(), graph.labels.tolist(), strict=True)
    )
    digest = hashlib.sha256(answers.encode())
    if protocol.split in PUBLISHED:
        digest.update(graph.published_splits[protocol.split].tobytes())
    return digest.hexdigest()
