"""What a study asks for, cell by cell: which training each one is, and which scores of it are wanted.

A cell is one training with its scores. Its key is a hash of all that decides the numbers: the content of the graph, the
method and its version, every setting, epochs, precision and seed. Another hash says how vectors are scored. What is
not in a hash does not matter: titles, the order of rows, the device, the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fossil.datasets import catalog
from fossil.datasets.catalog import known_name
from fossil.datasets.fetch import where
from fossil.errors import DataError, EvaluationError, GraphError, SettingError, nearest
from fossil.evaluation.evaluate import truth_of
from fossil.evaluation.protocol import Protocol, protocol
from fossil.evaluation.tasks.node_classification import NodeClassification
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.methods.registry import get_method
from fossil.readers.read import LoadedGraph
from fossil.readers.source import open_graph
from fossil.runs.config import RunConfig
from fossil.runs.plan import Plan, plan_run
from fossil.studies.entries import Study
from fossil.studies.file import read_study
from fossil.studies.rows import Row, rows_of
from fossil.studies.searched import Searched, how_searched, read_searched

MOST_CELLS = 200_000
WHOLE = {"sampled": "never"}
"""Of every training: a run by itself takes steps on samples where memory is short, and no key says that it did."""


@dataclass(frozen=True)
class Scoring:
    """How the vectors of a cell are to be scored: under which protocol, its hash, and on which splits."""

    protocol: str
    key: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Cell:
    """One training and the scores that are wanted of it; `row` and `column` are positions in the plan."""

    row: int
    column: int
    seed: int
    key: str
    scorings: tuple[Scoring, ...]


class Graphs:
    """The graphs of a study, each read once.

    Args:
        study: whose they are.
        folder: where relative paths begin.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self.study, self.folder = study, folder
        self._loaded: dict[tuple[int, str], LoadedGraph] = {}
        self._scoring: dict[tuple[int, str, str], str] = {}

    def open(self, column: int, seed: int) -> LoadedGraph:
        """Return the graph of a column, the one of this seed where each seed has its own."""
        entry = self.study.graphs[column]
        key = (column, entry.source(self.folder, seed))
        if key not in self._loaded:
            self._loaded[key] = open_graph(key[1], treatment=self.treatment(column), **entry.reading(self.folder))
        return self._loaded[key]

    def put(self, column: int, seed: int, loaded: LoadedGraph) -> None:
        """Take a graph that was read elsewhere for the one of a column and seed."""
        self._loaded[column, self.study.graphs[column].source(self.folder, seed)] = loaded

    def scoring_key(self, column: int, seed: int, rule: Protocol) -> str:
        """Return the hash of how the vectors of a graph are scored.

        Raises:
            EvaluationError: they cannot be, under this protocol.
        """
        key = (column, self.study.graphs[column].source(self.folder, seed), rule.name)
        if key not in self._scoring:
            graph = self.open(column, seed).graph
            NodeClassification(rule).check(graph)
            self._scoring[key] = scoring_key(graph, rule)
        return self._scoring[key]

    def treatment(self, column: int) -> Treatment | None:
        """Return what is done about oddities of a graph; None where nothing is said."""
        return Treatment.build(self.study.graphs[column].treatment) if self.study.graphs[column].treatment else None

    def is_at_hand(self, column: int, seed: int) -> bool:
        """Tell whether a graph can be read without a download."""
        entry = self.study.graphs[column]
        if not entry.is_named:
            return not entry.optional or Path(entry.source(self.folder, seed)).exists()
        found = catalog.find(entry.input.partition(":")[0])
        return not found.origins or where(found.origins) is not None


@dataclass(frozen=True, eq=False)
class StudyPlan:
    """Every cell of a study, and what cannot be one.

    Attributes:
        study: what was asked for.
        file: where it is written.
        rows: methods with their variants, in order.
        columns: titles of the graphs, in order.
        cells: what can be trained and scored: all of the first seed first, so that what is there early is balanced.
        unreadable: why a graph cannot be read, by column.
        unscorable: why a graph cannot be scored, by column and protocol.
        impossible: why a method cannot have a graph, by row and column.
        searched: what its searches found; None where it asks for none.
    """

    study: Study
    file: Path
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    unreadable: dict[int, str]
    unscorable: dict[tuple[int, str], str]
    impossible: dict[tuple[int, int], str]
    searched: Searched | None = None

    @cached_property
    def keys(self) -> frozenset[str]:
        """The trainings; rows that come to the same one share it."""
        return frozenset(cell.key for cell in self.cells)

    def name_of(self, cell: Cell) -> str:
        """Return a cell in words."""
        return f"{self.columns[cell.column]}, {self.rows[cell.row].title}, seed {cell.seed}"

    def row_titled(self, title: str) -> int:
        """Return the position of a row.

        Raises:
            SettingError: there is none of that title.
        """
        titles = [row.title for row in self.rows]
        if title not in titles:
            raise SettingError(f"{self.file}: there is no row {title!r}.", remedy=nearest(title, titles))
        return titles.index(title)


def open_study(file: Path, *, download: bool = False) -> tuple[StudyPlan, Graphs]:
    """Read a study file and plan it; see `plan_study`."""
    study = read_study(file)
    graphs = Graphs(study, file.parent)
    return plan_study(study, file, graphs, download=download), graphs


def plan_study(study: Study, file: Path, graphs: Graphs, *, download: bool = False) -> StudyPlan:
    """Resolve every cell of a study, without training anything.

    Args:
        study: what is asked for.
        file: where it is written.
        graphs: reads the graphs.
        download: fetch files that are not at hand; else such a graph counts as unreadable.

    Raises:
        SettingError: a method, preset or setting is unknown or impossible, or two rows have one title.
        GraphError: a graph of the user's own cannot be read.
    """
    searched = None if study.search is None else read_searched(study.folder_of_searches(file), how_searched(study))
    rows = rows_of(study, file, searched)
    for entry in study.wanted_tables():
        if entry.reference is not None and entry.reference not in [row.title for row in rows]:
            remedy = nearest(entry.reference, [row.title for row in rows])
            raise SettingError(f"{file}: the reference {entry.reference!r} is no row of the study.", remedy=remedy)
    asked = len(rows) * len(study.graphs) * len(study.seeds)
    if asked > MOST_CELLS:
        raise SettingError(f"{file} asks for {asked:,} trainings.", remedy=f"Ask for {MOST_CELLS:,} at most.")
    plan = StudyPlan(study, file, rows, study.columns, (), {}, {}, {})
    cells = [cell for seed in study.seeds for cell in _cells_of_seed(plan, graphs, seed, download)]
    return replace(plan, cells=tuple(cells), searched=searched)


def plan_cell(plan: StudyPlan, graphs: Graphs, row: int, column: int, seed: int, **others: Any) -> Plan:
    """Return the training of one cell, ready to start; `others` are further arguments of `plan_run`.

    Raises:
        SettingError: the settings of this row are not accepted on this graph; the message says which.
        GraphError: the method cannot have this graph.
    """
    of, study = plan.rows[row], plan.study
    if of.found and plan.columns[column] not in of.found:
        raise GraphError(f"{of.title} was not searched on this graph.", remedy="Its search could not be done.")
    training = {
        "epochs": of.epochs,
        "precision": study.precision,
        "checkpoint_seconds": 600,
        **WHOLE,
    }
    try:
        return plan_run(
            graphs.open(column, seed), method=of.method, preset=of.preset,
            settings=of.settings | dict(of.found.get(plan.columns[column], {})),
            training=training | others.pop("training", {}), seed=seed, treatment=graphs.treatment(column),
            use_recipe=of.recipe, **others,
        )  # fmt: skip
    except SettingError as error:
        raise SettingError(
            f"{plan.file}, {of.title} on {plan.columns[column]}: {error.what}", remedy=error.remedy
        ) from error


def training_key(config: RunConfig) -> str:
    """Return the hash of all that the vectors of a training depend on."""
    return _hash(
        {
            "graph": config.fingerprint,
            "method": config.method,
            "version": get_method(config.method).version,
            "settings": config.settings.model_dump(mode="json"),
            "epochs": config.training.epochs,
            "precision": config.training.precision,
            "seed": config.seed,
        }
    )


def scoring_key(graph: Graph, rule: Protocol) -> str:
    """Return the hash of all that scores of vectors depend on, but for the splits, which a score has by number."""
    drawn = rule.rule(known_name(graph))
    # How a mean gets its interval, and what a protocol is called, does not touch a score.
    others = rule.model_dump(
        exclude={"name", "resamples", "confidence", "per_class_graphs", "nodes_per_class"}, mode="json"
    )
    task = [NodeClassification.name, NodeClassification.version]
    return _hash({"task": task, "truth": truth_of(graph, rule), "per_class": drawn.nodes_per_class, "protocol": others})


def _hash(parts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _cells_of_seed(plan: StudyPlan, graphs: Graphs, seed: int, download: bool) -> Iterator[Cell]:
    """Yield the cells of one seed; what cannot be a cell is noted in the plan."""
    for column in range(len(plan.columns)):
        if column in plan.unreadable:
            continue
        named = plan.study.graphs[column].is_named
        if not (download and named) and not graphs.is_at_hand(column, seed):
            where_to = "`fossil study run` looks for them where they are published" if named else "it is optional"
            plan.unreadable[column] = f"its files are not at hand; {where_to}"
            continue
        try:
            graphs.open(column, seed)
        except DataError as error:
            plan.unreadable[column] = f"{error.what} {error.remedy}"
            continue
        except (GraphError, SettingError) as error:
            raise type(error)(f"{plan.file}, {plan.columns[column]}: {error.what}", remedy=error.remedy) from error
        scorings = tuple(_scorings(plan, graphs, column, seed))
        for row in range(len(plan.rows)):
            if (row, column) in plan.impossible or not scorings:
                continue
            if plan.rows[row].kind.undirected and _has_both_ways(plan.study, column):
                plan.impossible[row, column] = "It makes every graph undirected by itself, and has the column ↔."
                continue
            try:
                config = plan_cell(plan, graphs, row, column, seed).config
            except GraphError as error:
                plan.impossible[row, column] = f"{error.what} {error.remedy}"
                continue
            yield Cell(row, column, seed, training_key(config), scorings)


def _has_both_ways(study: Study, column: int) -> bool:
    """Tell whether the graph of a column is there with its edges in both directions too, as another column."""
    entry = study.graphs[column]
    both = entry.model_copy(update={"treatment": entry.treatment | {"direction": "symmetrize"}, "title": ""})
    others = [other.model_copy(update={"title": ""}) for other in study.graphs]
    return entry.treatment.get("direction") != "symmetrize" and both in others


def _scorings(plan: StudyPlan, graphs: Graphs, column: int, seed: int) -> Iterator[Scoring]:
    graph = graphs.open(column, seed).graph
    for name in plan.study.protocols:
        if (column, name) in plan.unscorable:
            continue
        rule = protocol(name)
        try:
            key = graphs.scoring_key(column, seed, rule)
            seeds = rule.rule(known_name(graph)).seeds(seed, plan.study.splits, graph.published_splits)
        except EvaluationError as error:
            plan.unscorable[column, name] = f"{error.what} {error.remedy}"
            continue
        yield Scoring(name, key, tuple(seeds))
