"""From edge lists and columns, as a reader found them, to a `Graph`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.findings import Finding, Treatment
from fossil.graph.graph import Array, Features, Graph
from fossil.graph.published import NOWHERE
from fossil.graph.troubles import Troubles

_MOSTLY_ONE_WAY = 0.9  # share of edges without their reverse from which on each may stand for both directions


@dataclass(frozen=True, eq=False)
class RawGraph:
    """What a reader delivers: node positions of every edge, before anything was decided about oddities.

    `source` and `target` hold E positions each; duplicates and self loops are still there.
    """

    name: str
    source: Array
    target: Array
    features: Features
    ids: Array
    labels: Array | None = None
    label_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    published_splits: Mapping[str, Array] = field(default_factory=dict)


def assemble(raw: RawGraph, treatment: Treatment | None = None) -> Graph:
    """Report every oddity of `raw`, treat it as `treatment` says, and return the graph.

    Raises:
        GraphError: an oddity that `treatment` refuses, an edge to a position outside the graph, or no node at all.
    """
    treatment = treatment or Treatment()
    nodes = len(raw.ids)
    if nodes == 0:
        raise GraphError(f"{raw.name} has no nodes.", remedy="Check that the node table is not empty.")
    source, target = raw.source.astype(np.int64), raw.target.astype(np.int64)
    _check_positions(np.concatenate([source, target]), nodes)
    findings, troubles = list(raw.findings), Troubles(raw.name)

    def note(kind: str, where: Array, done: str, refused: bool) -> None:
        if len(where) == 0:
            return
        examples = tuple(dict.fromkeys(str(raw.ids[i]) for i in where[:20]))[:3]
        if refused:
            troubles.add(
                f"{raw.name} has {len(where):,} {kind} (for example {', '.join(examples)}), which are refused.",
                remedy="Mend the input or choose another treatment.",
            )
        findings.append(Finding(kind, len(where), done, examples))

    loops = source == target
    note("self loops", source[loops], _past(treatment.self_loops), treatment.self_loops == "refuse")
    if treatment.self_loops == "remove":
        source, target = source[~loops], target[~loops]

    keys, first = np.unique(source * nodes + target, return_index=True)
    repeated = np.ones(len(source), bool)
    repeated[first] = False
    note("duplicate edges", source[repeated], "merged", treatment.duplicates == "refuse")
    source, target = np.divmod(keys, nodes)

    # Both sides are distinct: saying so spares two hash tables, which cost far more than the sort that remains.
    one_way = ~np.isin(target * nodes + source, keys, assume_unique=True)
    done = direction_done(treatment.direction, int(np.count_nonzero(one_way)), len(one_way))
    note("edges without their reverse", source[one_way], done, False)
    if treatment.direction == "symmetrize":
        source, target = (
            np.concatenate([source, target[one_way]]),
            np.concatenate([target, source[one_way]]),
        )
    elif treatment.direction == "reverse":
        source, target = target, source

    adjacency = sp.csr_array((np.ones(len(source), np.float32), (source, target)), shape=(nodes, nodes))
    adjacency.sort_indices()
    features: Features
    if sp.issparse(raw.features):
        features = sp.csr_array(raw.features, dtype=np.float32, copy=True)
        features.eliminate_zeros()
        features.sort_indices()
    else:
        features = np.asarray(raw.features, np.float32)  # a dense matrix can be most of the memory: no needless copy

    touched = np.zeros(nodes, bool)
    touched[source] = touched[target] = True
    isolated = np.flatnonzero(~touched)
    note("isolated nodes", isolated, _past(treatment.isolated), treatment.isolated == "refuse")
    zero = np.flatnonzero(np.diff(features.indptr) == 0 if sp.issparse(features) else ~features.any(axis=1))
    note("zero feature rows", zero, _past(treatment.zero_features), treatment.zero_features == "refuse")
    troubles.raise_any()

    keep = np.ones(nodes, bool)
    if treatment.isolated == "drop":
        keep[isolated] = False
    if treatment.zero_features == "drop":
        keep[zero] = False
    labels = raw.labels
    ids, splits = np.asarray(raw.ids), raw.published_splits
    if not keep.all():
        if not keep.any():
            raise GraphError(
                f"Every node of {raw.name} would be dropped.", remedy="Keep isolated or zero-feature nodes."
            )
        adjacency = sp.csr_array(adjacency[keep][:, keep])
        features = features[keep]
        ids = ids[keep]
        labels = None if labels is None else labels[keep]
        splits, lost = _kept_splits(splits, keep)
        findings += lost
    return Graph(
        name=raw.name,
        adjacency=adjacency,
        features=features,
        ids=ids,
        labels=labels,
        label_names=raw.label_names,
        feature_names=raw.feature_names,
        findings=tuple(findings),
        published_splits=splits,
    )


def direction_done(direction: str, one_way: int, edges: int) -> str:
    """Return in words what is done about edges without their reverse, given how many of all edges they are."""
    if direction == "keep" and one_way > _MOSTLY_ONE_WAY * edges:
        return "kept; if each stands for both directions, choose --direction symmetrize"
    return {"keep": "kept", "symmetrize": "reverse added", "reverse": "reversed"}[direction]


def _kept_splits(splits: Mapping[str, Array], keep: Array) -> tuple[dict[str, Array], list[Finding]]:
    """Return the published splits of the nodes that are kept, without those that lost a node and so became others."""
    kept, lost = {}, []
    for name, parts in splits.items():
        missing = int((parts[:, ~keep] != NOWHERE).any(axis=0).sum())
        if missing:
            lost.append(Finding(f"dropped nodes in the published splits {name!r}", missing, "these splits left out"))
        else:
            kept[name] = parts[:, keep]
    return kept, lost


def _check_positions(ends: Array, nodes: int) -> None:
    if len(ends) == 0:
        return
    lowest, highest = int(ends.min()), int(ends.max())
    if lowest < 0 or highest >= nodes:
        outside = lowest if lowest < 0 else highest
        raise GraphError(f"An edge names node {outside}, but there are {nodes} nodes.", remedy="Number nodes from 0.")


def encode_labels(values: Sequence[object]) -> tuple[Array, tuple[str, ...]]:
    """Number the distinct labels in sorted order; empty strings and None become -1.

    >>> encode_labels(["b", "a", "", "b"])
    (array([ 1,  0, -1,  1]), ('a', 'b'))
    """
    texts = ["" if value is None else str(value).strip() for value in values]
    names = sorted({text for text in texts if text}, key=_natural)
    number = {name: i for i, name in enumerate(names)}
    return np.asarray([number.get(text, -1) for text in texts], dtype=np.int64), tuple(names)


def _natural(text: str) -> tuple[int, float, str]:
    """Sort key under which labels that are numbers come in numerical order."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # The text "nan" is a word here: a number that is not even equal to itself would leave the order to chance.
    return (1, 0.0, text) if math.isnan(number) else (0, number, text)


def _past(choice: str) -> str:
    return {"remove": "removed", "keep": "kept", "drop": "dropped", "refuse": "refused"}[choice]
