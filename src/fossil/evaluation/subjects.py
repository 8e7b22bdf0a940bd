"""What is scored: sets of vectors, and where each comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fossil.datasets.catalog import known_name
from fossil.errors import EvaluationError, warn_the_caller
from fossil.evaluation.protocol import Protocol
from fossil.evaluation.vectors import OutsideVectors
from fossil.graph.graph import Array, Graph
from fossil.graph.splits import TrainingSplit
from fossil.methods.registry import get_method, recipes
from fossil.runs.config import RunConfig
from fossil.runs.embeddings import FitResult
from fossil.runs.plan import as_asked, resolve_epochs, resolve_settings
from fossil.runs.run import Run

Scorable: TypeAlias = Run | FitResult | OutsideVectors
"""A run folder, what a fit returned, or vectors from elsewhere."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One encoder's vectors, and where they come from.

    Attributes:
        where: what to call it in messages.
        graph: whose nodes they belong to.
        vectors: N×D.
        method: title of the method, with what sets it apart from its defaults on this graph, and whether it has made
            a directed graph undirected.
        seed: of the encoder, from which the seeds of its splits follow.
        row: equal for encoders that differ in their seed alone, and so share a row.
        trained_on: the split whose labels made the vectors; None where none did.
        published: figure printed in the paper for exactly these settings, or None.
        folder: where raw scores are kept; nowhere when None.
        config: what the run was asked to do; None for vectors from elsewhere.
    """

    where: str
    graph: Graph
    vectors: Array
    method: str
    seed: int
    row: Hashable
    trained_on: TrainingSplit | None = None
    published: float | None = None
    folder: Path | None = None
    config: RunConfig | None = None

    def split_seeds(self, count: int, protocol: Protocol) -> list[int]:
        """Return the seeds of its splits: its own first, so that several encoders see several splits."""
        if self.trained_on is not None:
            return [self.trained_on.seed]
        return protocol.rule(known_name(self.graph)).seeds(self.seed, count, self.graph.published_splits)


def subject_of(scored: Scorable) -> Subject:
    """Return what is to be scored.

    Raises:
        RunError: a run is not finished.
        EvaluationError: it is something else, or a run's vectors belong to other nodes than its graph.
    """
    if not isinstance(scored, Scorable):
        raise EvaluationError(
            f"A {type(scored).__name__} is not a run, nor what fossil.embed returned.",
            remedy="Score vectors with the graph whose labels they are compared with, as "
            "fossil.evaluation.vectors.OutsideVectors(NAME, VECTORS, GRAPH).",
        )
    if isinstance(scored, OutsideVectors):
        row = (scored.name, scored.graph.name)
        # Whatever type and byte order they were stored in: the lengths of half-precision rows would overflow.
        single = scored.vectors.dtype == np.float32
        vectors = scored.vectors if single else scored.vectors.astype(np.float64)
        return Subject(scored.name, scored.graph, vectors, scored.name, seed=0, row=row)
    found = scored if isinstance(scored, FitResult) else scored.embeddings
    where = "A result in memory" if scored.path is None else str(scored.path)
    if not np.array_equal(found.ids, scored.graph.ids):
        raise EvaluationError(
            f"The embeddings in {where} belong to other nodes than its graph.", remedy="Make the run again."
        )
    config, known = scored.config, known_name(scored.graph)
    kind, differences = get_method(config.method), _differences(config, known, scored.graph)
    recipe = recipes(config.method).get(known)
    made_undirected = ["(undirected)"] if kind.undirected and scored.graph.is_directed else []
    return Subject(
        where=where,
        graph=scored.graph,
        vectors=found.vectors,
        method=" ".join([kind.title, *made_undirected, *differences]),
        seed=config.seed,
        row=_all_but_the_seed(config),
        trained_on=training_split(scored),
        published=recipe.published if recipe and not differences else None,
        folder=scored.path,
        config=config,
    )


def training_split(run: Run | FitResult) -> TrainingSplit | None:
    """Return the split whose labels a run was trained on; None where it was trained on none."""
    return get_method(run.config.method).training_split(run.config.settings, known_name(run.graph))


def by_row(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """Return the encoders of each row, every one of them once.

    Raises:
        EvaluationError: an encoder is given twice; as two it would make an interval too narrow.

    Warns:
        FossilWarning: encoders of different seeds have equal vectors; the first alone is kept.
    """
    refuse_repeats(subjects)
    rows: dict[Hashable, list[Subject]] = {}
    for subject in subjects:
        rows.setdefault(subject.row, []).append(subject)
    return [_without_equals(members) for members in rows.values()]


def refuse_repeats(subjects: Sequence[Subject]) -> None:
    """Raise EvaluationError where an encoder is given twice."""
    seen: dict[Hashable, Subject] = {}
    for subject in subjects:
        first = seen.setdefault((subject.row, subject.seed), subject)
        if first is subject:
            continue
        twice = f"{subject.where} (seed {subject.seed}) is given twice"
        alike = f"{first.where} and {subject.where} have the same graph, method and seed ({subject.seed})"
        raise EvaluationError(
            f"{twice if _is_one(first, subject) else alike}, and would count as two encoders.",
            remedy="Name each encoder once; for another one, train with another --seed.",
        )


def _is_one(first: Subject, second: Subject) -> bool:
    """Tell whether two encoders of one row and seed are one folder, one result or one file."""
    if first.folder is not None and second.folder is not None:
        return first.folder.resolve() == second.folder.resolve()
    return first.vectors is second.vectors or first.config is None


def _without_equals(members: list[Subject]) -> list[Subject]:
    if len(members) == 1:
        return members
    kept: dict[str, Subject] = {}
    for subject in members:
        first = kept.setdefault(_digest(subject.vectors), subject)
        if first is not subject:
            warn_the_caller(
                f"{first.where} (seed {first.seed}) and {subject.where} (seed {subject.seed}) have equal vectors, and "
                "count as one encoder."
            )
    return list(kept.values())


def _digest(vectors: Array) -> str:
    content = np.ascontiguousarray(vectors)
    return hashlib.sha256(f"{content.dtype.str}{content.shape}".encode() + content.tobytes()).hexdigest()


def _all_but_the_seed(config: RunConfig) -> Hashable:
    """Return what runs of one row have in common: the graph, the epochs, and everything else but the seed."""
    shared = replace(config, seed=0, settings=as_asked(get_method(config.method), config.settings))
    return config.graph, config.training.epochs, shared.identity


def _differences(config: RunConfig, known: str, graph: Graph) -> list[str]:
    """Return what sets a run apart from the method's own defaults on this graph, in words for a table."""
    kind = get_method(config.method)
    _, expected = resolve_settings(kind, config.preset, known, {})
    completed = kind.complete(expected, graph, config.seed)
    usual, actual = as_asked(kind, completed).model_dump(), as_asked(kind, config.settings).model_dump()
    changed = [f"{key}={_shown(value)}" for key, value in actual.items() if usual[key] != value]
    if config.training.epochs != resolve_epochs(kind, graph, None):
        changed.append(f"epochs={config.training.epochs}")
    return ([] if config.preset == next(iter(kind.presets)) else [f"({config.preset})"]) + changed


def _shown(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, tuple) else value
