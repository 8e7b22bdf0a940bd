"""What the nodes of a map can be coloured by: labels, what was learnt, degrees, and the columns of the user's table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Array, Features, Graph
from fossil.graph.structure import undirected
from fossil.readers.cells import DATES
from fossil.readers.column import MEASURED, ColumnPlan
from fossil.report.contract import ColumnMeta, brief
from fossil.runs.run import Run

_MOST = 40  # columns of a table
_VALUES = 1_000_000  # of such columns and of what was learnt: with more, 100,000 nodes would not fit into 15 MB
_FEWEST = 4
_WHOLE = 1e-4  # of a number's scale: what float32 leaves of whole numbers
_DAYS_A_YEAR = 365.2425
_LARGEST_COUNT = 1e15  # beyond it a double has no whole numbers to the last digit
_GROUPED = 10_000  # from which on thousands are set apart: a year is none


LARGEST_PAGE = 100_000
"""Nodes of a page; of larger runs it shows a sample."""


@dataclass(frozen=True, eq=False)
class NodeColumn:
    """One value for each node.

    Attributes:
        name: by which the page asks for it.
        title: what people read.
        about: where it comes from, in a sentence.
        values: N category numbers, -1 where there is none; or N doubles, NaN where there is none.
        names: of the categories; None where these are numbers.
    """

    name: str
    title: str
    about: str
    values: Array
    names: tuple[str, ...] | None = None

    def of(self, rows: Array) -> NodeColumn:
        """Return the column of some nodes."""
        return replace(self, values=self.values[rows])

    def meta(self) -> ColumnMeta:
        """Return what a legend needs."""
        if self.names is None:
            known = self.values[np.isfinite(self.values)]
            low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
            missing = len(self.values) - len(known)
            return ColumnMeta(self.name, self.title, self.about, "number", [], [], missing, low, high)
        counts = np.bincount(self.values[self.values >= 0], minlength=len(self.names)).tolist()
        missing = int((self.values < 0).sum())
        return ColumnMeta(
            self.name, self.title, self.about, "category", list(self.names), counts, missing, 0.0, len(self.names) - 1.0
        )

    def shown(self, row: int) -> str:
        """Return the value of one node for people."""
        value = self.values[row]
        if self.names is not None:
            return self.names[value] if value >= 0 else "unknown"
        if not np.isfinite(value):
            return "none"
        if value != np.round(value) or abs(value) >= _LARGEST_COUNT:
            return f"{value:.6g}"
        return f"{value:,.0f}" if abs(value) >= _GROUPED else f"{value:.0f}"


def columns_of(run: Run, errors: Array | None = None) -> list[NodeColumn]:
    """Return the columns of a run's nodes, the label first.

    Args:
        run: a finished run.
        errors: share of its splits in which the probe was wrong about each node (N), NaN where it was not asked.
    """
    graph = run.graph
    found = [*_labels(graph), *_learnt(run), *_surroundings(graph), *_errors(errors), *_table(run)]
    return [_brief(column) for column in found]


def _brief(column: NodeColumn) -> NodeColumn:
    """Return a column in words that can be told for every node."""
    names = None if column.names is None else tuple(map(brief, column.names))
    return replace(column, title=brief(column.title), about=brief(column.about), names=names)


def class_names(graph: Graph) -> tuple[str, ...]:
    """Return what each class is called, by its number where it has no name."""
    return tuple(graph.label_names) or tuple(map(str, range(graph.num_classes)))


def has_classes(graph: Graph) -> bool:
    """Tell whether nodes have one class each."""
    return graph.labels is not None and graph.labels.ndim == 1


def degrees(graph: Graph) -> Array:
    """Return how many others each node has an edge with, in either direction."""
    found: Array = np.diff(undirected(graph.adjacency).indptr)
    return found


def agreement(graph: Graph) -> Array:
    """Return which share of a node's labelled neighbours has its class (N); NaN where it cannot be told."""
    assert graph.labels is not None
    edges = sp.coo_array(undirected(graph.adjacency))
    mine, theirs = graph.labels[edges.row], graph.labels[edges.col]
    known = (mine >= 0) & (theirs >= 0)
    asked = np.bincount(edges.row[known], minlength=graph.num_nodes)
    same = np.bincount(edges.row[known & (mine == theirs)], minlength=graph.num_nodes)
    return np.where(asked > 0, same / np.maximum(asked, 1), np.nan)


def _labels(graph: Graph) -> Iterator[NodeColumn]:
    if has_classes(graph):
        assert graph.labels is not None
        about = "The class of each node; a method without labels never saw it."
        yield NodeColumn("label", "label", about, graph.labels, class_names(graph))


def _learnt(run: Run) -> Iterator[NodeColumn]:
    found = run.embeddings
    if found.fusion is not None:
        about = "The weight of structure in the vector of each node, as the fusion layer chose it."
        yield NodeColumn("lambda", "λ, weight of structure", about, found.fusion.astype(np.float64))
    if found.channels:
        names = tuple(found.channels)
        most = np.argmax(list(found.channels.values()), axis=0)
        yield NodeColumn("channel", "channel trusted most", "The channel with the greatest weight.", most, names)
        for name, each in found.channels.items():
            about = f"How far each node trusts the channel {name}; weights of a node add up to one."
            yield NodeColumn(f"channel:{name}", f"weight of channel {name}", about, each.astype(np.float64))


def _surroundings(graph: Graph) -> Iterator[NodeColumn]:
    about = "How many others a node has an edge with, in either direction."
    yield NodeColumn("degree", "degree", about, degrees(graph).astype(np.float64))
    if has_classes(graph):
        about = "Which share of a node's labelled neighbours has its own class."
        yield NodeColumn("agreement", "neighbours of the same class", about, agreement(graph))


def _errors(errors: Array | None) -> Iterator[NodeColumn]:
    if errors is not None:
        about = "In which share of the splits that test a node the probe was wrong about it."
        yield NodeColumn("probe", "probe error", about, errors)


def _table(run: Run) -> Iterator[NodeColumn]:
    graph, plan = run.graph, run.plan
    features = sp.csc_array(graph.features) if graph.has_sparse_features else graph.features
    if plan is None:
        names = graph.feature_names or tuple(f"feature {number}" for number in range(graph.num_features))
        for place, name in enumerate(names[: _room(run)] if len(names) <= _MOST else ()):
            yield NodeColumn(f"table:{name}", name, "A feature, as it was trained on.", _dense(features, place))
        return
    place = 0
    shown = [column for column in plan.columns if column.feature_names][: _room(run)]
    for column in shown:
        width = len(column.feature_names)
        yield _decoded(column, [_dense(features, place + i) for i in range(width)])
        place += width


def _room(run: Run) -> int:
    """Return how many columns of its table a page about a run has room for."""
    found = run.embeddings
    learnt = len(found.channels or ()) + (found.fusion is not None)
    return min(_MOST, max(_FEWEST, _VALUES // min(run.graph.num_nodes, LARGEST_PAGE) - learnt))


def table_note(run: Run) -> str | None:
    """Return what must be said of columns that are not among `columns_of`; None where all are."""
    graph, plan, room = run.graph, run.plan, _room(run)
    wide = graph.num_features if plan is None else sum(bool(column.feature_names) for column in plan.columns)
    if wide <= room:
        return None
    if plan is None and wide > _MOST:
        return f"The {wide:,} features have no columns of a table behind them, and are not offered as colours."
    return f"Of {wide:,} columns the first {room} are offered as colours: a page has no room for more."


def _dense(features: Features, place: int) -> Array:
    column = features[:, [place]]
    return np.asarray(column.toarray() if sp.issparse(column) else column, dtype=np.float64).ravel()


def _decoded(column: ColumnPlan, parts: list[Array]) -> NodeColumn:
    """Return what stood in a column of the table, from the features that it became."""
    name, about = f"table:{column.name}", "A column of the table, read back from the features that were trained on."
    empty = parts[-1] > 0 if column.indicator else np.zeros(len(parts[0]), bool)
    if column.role == "categorical":
        hot = np.stack(parts[: len(column.categories)], axis=1)
        codes = np.where(hot.any(axis=1) & ~empty, hot.argmax(axis=1), -1)
        return NodeColumn(name, column.name, about, codes, column.categories)
    values = np.where(empty, np.nan, parts[0])
    if column.role == "boolean":
        if np.isin(values[~empty], (0.0, 1.0)).all():
            codes = np.where(empty, -1, np.nan_to_num(values)).astype(np.int64)
            return NodeColumn(name, column.name, about, codes, ("no", "yes"))
        return NodeColumn(name, column.name, about, values)
    if column.role in MEASURED:
        values = values * column.scale + column.mean + column.start
        if column.role in DATES:
            return NodeColumn(name, f"{column.name} (year)", about, 1970 + values / _DAYS_A_YEAR)
        whole = np.round(values)
        if np.nanmax(np.abs(values - whole), initial=0.0) < _WHOLE * max(1.0, column.scale):
            values = whole
    return NodeColumn(name, column.name, about, values)
