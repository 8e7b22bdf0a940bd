"""What the page is told, in the words of `frontend/src/data.ts`; names become camel case on the way there."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

FORMAT = 1

_LONGEST_TEXT = 2000  # characters of an id, a class or a column that a page shows


@dataclass(frozen=True)
class Fact:
    """A name and what is said of it."""

    name: str
    value: str


@dataclass(frozen=True)
class ColumnMeta:
    """What a map can be coloured by."""

    name: str
    title: str
    about: str
    kind: Literal["category", "number"]
    names: list[str]
    counts: list[int]
    missing: int
    low: float
    high: float


@dataclass(frozen=True)
class Subgraph:
    """Nodes around an anchor, which stands last; edges name places among them."""

    rows: list[int]
    ids: list[str]
    edges: list[tuple[int, int]]


@dataclass(frozen=True)
class NodeNeighbours:
    """Nodes near another one, in the graph or by their vectors: the first of `total`."""

    rows: list[int]
    ids: list[str]
    cosines: list[float]
    total: int


@dataclass(frozen=True)
class Weight:
    """λ, or how far a node trusts a channel."""

    name: str
    value: float


@dataclass(frozen=True)
class NodeFacts:
    """What is known of one node."""

    row: int
    id: str
    degree: int
    attributes: list[Fact]
    weights: list[Weight]
    in_graph: NodeNeighbours
    in_embedding: NodeNeighbours
    subgraph: Subgraph | None


@dataclass(frozen=True)
class TablePage:
    """Some rows of the table of all nodes."""

    total: int
    rows: list[int]
    ids: list[str]
    columns: list[str]
    titles: list[str]
    cells: list[list[str]]


@dataclass(frozen=True)
class Pair:
    """Two nodes whose subgraphs are compared."""

    a: int
    b: int
    a_id: str
    b_id: str
    kind: Literal["positive", "negative"]
    about: str
    value: float


@dataclass(frozen=True)
class Plan:
    """What moves where between two subgraphs, and what it costs."""

    source: Subgraph
    target: Subgraph
    source_labels: list[int]
    target_labels: list[int]
    mass: list[float]
    alpha: float
    feature_cost: float
    structure_cost: float
    value: float
    row_error: float
    column_error: float
    about: str


@dataclass(frozen=True)
class Interval:
    """A mean, and between what it lies; None where too few values say so."""

    mean: float
    low: float | None
    high: float | None
    about: str


@dataclass(frozen=True)
class ScoreRow:
    """The accuracy of one method on one graph."""

    graph: str
    method: str
    kind: Literal["run", "untrained", "majority"]
    accuracy: Interval
    values: list[float]
    macro_f1: float
    published: float | None
    beaten: bool


@dataclass(frozen=True)
class Difference:
    """Who is ahead of whom on a graph, on the same splits."""

    graph: str
    first: str
    second: str
    difference: Interval
    verdict: str


@dataclass(frozen=True)
class Scores:
    """What was scored, how, and how rows differ."""

    protocol: list[str]
    rows: list[ScoreRow]
    differences: list[Difference]


@dataclass(frozen=True)
class Tally:
    """How often the probe was wrong on some of the test nodes."""

    bin: str
    tested: int
    wrong: int


@dataclass(frozen=True)
class Mistake:
    """A node that the probe gets wrong."""

    row: int
    id: str
    truth: str
    answer: str
    tested: int
    wrong: int


@dataclass(frozen=True)
class Probe:
    """What the probe gets wrong, and where."""

    about: str
    classes: list[str]
    confusion: list[int]
    by_degree: list[Tally]
    by_agreement: list[Tally]
    worst: list[Mistake]


@dataclass(frozen=True)
class Encoded:
    """What became of a column."""

    column: str
    role: str
    how: str
    width: int


@dataclass(frozen=True)
class Topic:
    """What an audit says of something."""

    topic: str
    text: str


@dataclass(frozen=True)
class Series:
    """A number that was recorded, epoch by epoch."""

    name: str
    values: list[float | None]


@dataclass(frozen=True)
class Training:
    """What was recorded while training."""

    epochs: list[int]
    series: list[Series]


@dataclass(frozen=True)
class SubgraphRule:
    """How subgraphs are drawn."""

    size: int
    about: str


@dataclass(frozen=True)
class Setting:
    """A setting that differs from what is usual."""

    name: str
    value: str
    usual: str
    meaning: str


@dataclass(frozen=True)
class RunMeta:
    """All that the page says of one run, but for what it has of every node."""

    name: str
    graph: str
    method: str
    seed: int
    nodes_key: str
    nodes: int
    total_nodes: int
    edges: int
    directed: bool
    features: int
    width: int
    layout: str
    columns: list[ColumnMeta]
    colour: str | None
    notes: list[str]
    findings: list[str]
    encoding: list[Encoded]
    audit: list[Topic]
    summary: list[Fact]
    training: Training
    subgraphs: SubgraphRule
    pairs: list[Pair]
    pairs_about: str
    probe: Probe | None
    provenance: list[Fact]
    settings: list[Setting]


@dataclass(frozen=True)
class Meta:
    """All that the page says, but for what it has of every node."""

    version: str
    kind: Literal["report", "explore"]
    made: str
    runs: list[RunMeta]
    scores: Scores | None
    unscored: str | None
    format: int = FORMAT


def brief(text: str) -> str:
    """Return a text of a user as a page has it: one of a megabyte, told many times over, would be most of the page."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} … ({len(text):,} characters)"


def plain(value: Any) -> Any:
    """Return a record as plain values, its names in camel case; numbers that JSON has not become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {_camel(field.name): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _camel(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)
