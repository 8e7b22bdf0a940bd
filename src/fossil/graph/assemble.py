"""From edge lists and columns, as a reader found them, to a `Graph`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from fossil.errors import GraphError
from fossil.graph.findings import Finding, Treatment, counted
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
    if len(raw.ids) == 0:
        raise GraphError(f"{raw.name} has no nodes.", remedy="Check that the node table is not empty.")
    oddities = _Oddities(raw)
    adjacency = _treated_edges(raw, treatment, oddities)
    features = _as_float32(raw.features)
    keep = ~_dropped_nodes(adjacency, features, treatment, oddities)
    oddities.raise_refused()
    ids, labels, splits, findings = np.asarray(raw.ids), raw.labels, raw.published_splits, oddities.findings
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


class _Oddities:
    """Notes what is odd about a graph: a finding for each kind, and an error for each that is refused."""

    def __init__(self, raw: RawGraph) -> None:
        self.name, self.ids = raw.name, raw.ids
        self.findings = list(raw.findings)
        self._troubles = Troubles(raw.name)

    def note(self, kind: str, nodes: Array, done: str) -> None:
        """Note one kind of oddity: the nodes where it is found, and what is done about it, which may be `refused`."""
        if len(nodes) == 0:
            return
        examples = tuple(dict.fromkeys(str(self.ids[i]) for i in nodes[:20]))[:3]
        if done == "refused":
            self._troubles.add(
                f"{self.name} has {counted(len(nodes), kind)} (for example {', '.join(examples)}), to be refused.",
                remedy="Mend the input or choose another treatment.",
            )
        self.findings.append(Finding(kind, len(nodes), done, examples))

    def raise_refused(self) -> None:
        """Raise GraphError where anything was refused, all of it in one message."""
        self._troubles.raise_any()


def _treated_edges(raw: RawGraph, treatment: Treatment, oddities: _Oddities) -> sp.csr_array:
    """Return the adjacency, with self loops, duplicates and direction treated."""
    nodes = len(raw.ids)
    source, target = raw.source.astype(np.int64), raw.target.astype(np.int64)
    _check_positions(np.concatenate([source, target]), nodes)

    loops = source == target
    oddities.note("self loops", source[loops], _past(treatment.self_loops))
    if treatment.self_loops == "remove":
        source, target = source[~loops], target[~loops]

    keys, first = np.unique(source * nodes + target, return_index=True)
    repeated = np.ones(len(source), bool)
    repeated[first] = False
    oddities.note("duplicate edges", source[repeated], _past(treatment.duplicates))
    source, target = np.divmod(keys, nodes)

    # Both sides are distinct: saying so spares two hash tables, which cost far more than the sort that remains.
    one_way = ~np.isin(target * nodes + source, keys, assume_unique=True)
    done = direction_done(treatment.direction, int(np.count_nonzero(one_way)), len(one_way))
    oddities.note("edges without their reverse", source[one_way], done)
    if treatment.direction == "symmetrize":
        source, target = (
            np.concatenate([source, target[one_way]]),
            np.concatenate([target, source[one_way]]),
        )
    elif treatment.direction == "reverse":
        source, target = target, source

    adjacency = sp.csr_array((np.ones(len(source), np.float32), (source, target)), shape=(nodes, nodes))
    adjacency.sort_indices()
    return adjacency


def _as_float32(features: Features) -> Features:
    if not sp.issparse(features):
        return np.asarray(features, np.float32)  # a dense matrix can be most of the memory: no needless copy
    copied = sp.csr_array(features, dtype=np.float32, copy=True)
    copied.eliminate_zeros()
    copied.sort_indices()
    return copied


def _dropped_nodes(adjacency: sp.csr_array, features: Features, treatment: Treatment, oddities: _Oddities) -> Array:
    """Tell which nodes are dropped (N): isolated ones and those without any feature, where the treatment says so."""
    touched = np.diff(adjacency.indptr) > 0
    touched[adjacency.indices] = True
    isolated = ~touched
    zero = np.diff(features.indptr) == 0 if sp.issparse(features) else ~features.any(axis=1)
    dropped = np.zeros(len(touched), bool)
    for kind, found, choice in (
        ("isolated nodes", isolated, treatment.isolated),
        ("zero feature rows", zero, treatment.zero_features),
    ):
        oddities.note(kind, np.flatnonzero(found), _past(choice))
        if choice == "drop":
            dropped |= found
    return dropped


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
    words = {"remove": "removed", "keep": "kept", "drop": "dropped", "merge": "merged", "refuse": "refused"}
    return words[choice]
