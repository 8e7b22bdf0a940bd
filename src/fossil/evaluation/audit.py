"""What a graph gives away: nodes that are copies of others, and how far a plain lookup of neighbour lists gets.

Where many test nodes have exactly the neighbours of a training node, and its class with them, a high score may be a
lookup and say nothing about learning. Chameleon and Squirrel are such graphs (Platonov et al., ICLR 2023).

>>> import scipy.sparse as sp
>>> from fossil.graph.graph import Graph
>>> lists = sp.csr_array(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]]))
>>> audit(Graph("small", lists, np.eye(3), np.arange(3))).same_out
2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fossil.datasets.catalog import CATALOG, known_name
from fossil.errors import EvaluationError
from fossil.evaluation.protocol import PROTOCOLS
from fossil.graph.graph import Array, Graph
from fossil.graph.splits import Split
from fossil.seeding import numpy_generator

SPLITS = 10
"""Splits that a lookup is scored on, as many as a single run."""

# Methods are often closer to each other than this on one graph, so that a lookup worth as much can decide who is ahead.
# Of the catalogue's graphs at hand Chameleon and Squirrel have more than 45 points, and no other has 4.
LEAK = 0.05
# On few test nodes a lookup may be ahead by as much by luck, but hardly right for a quarter more of the nodes found.
FAR_MORE = 0.25
_LONG = 2  # one neighbour in common is what all leaves of a hub share, and what homophily is made of


@dataclass(frozen=True)
class Lookup:
    """What copying the class of training nodes with the very same list scores, over the test nodes of some splits.

    Attributes:
        lists: `out` for the nodes that a node points to, `in` for those that point to it.
        protocol: whose splits they are.
        splits: how many.
        found: share of test nodes that have the list of a training node.
        right: share of these whose class the majority of those training nodes has; 0 where none is found.
        overall: share of all test nodes that are right; those not found get the most frequent class of training nodes.
        majority: share of all test nodes that this class alone gets right.
        long: share of test nodes that have the list of a training node, of two nodes or more.
        gain: what looking up those adds to `majority`.
    """

    lists: str
    protocol: str
    splits: int
    found: float
    right: float
    overall: float
    majority: float
    long: float
    gain: float

    @property
    def is_leak(self) -> bool:
        """Whether lists of two nodes or more, looked up, are right far more often than the most frequent class.

        That is: by five points on all test nodes, and by a quarter of those that are found.
        """
        return self.gain >= max(LEAK, FAR_MORE * self.long)

    def __str__(self) -> str:
        splits = f"({self.protocol}, {self.splits} splits)"
        if not self.found:
            return f"no test node has the neighbour list of a training node {splits}"
        return (
            f"{100 * self.found:.1f} % of test nodes have the neighbour list of a training node, and copying its class "
            f"is right for {100 * self.right:.1f} % of these. With the most frequent class elsewhere, that scores "
            f"{100 * self.overall:.1f} % of all test nodes; the most frequent class alone, {100 * self.majority:.1f} % "
            f"{splits}"
        )


@dataclass(frozen=True)
class Audit:
    """What was found in a graph.

    Attributes:
        duplicates: nodes that have the features and the neighbours of another node, in both directions.
        same_out: nodes that point to exactly the nodes that another one points to, at least one.
        same_in: nodes to which exactly the nodes point that point to another one, at least one; None where every edge
            has its reverse, so that both are the same.
        lookups: one for each kind of list; none where there are no classes, or too few labelled nodes to split.
    """

    duplicates: int
    same_out: int
    same_in: int | None
    lookups: tuple[Lookup, ...]


def audit(graph: Graph) -> Audit:
    """Look for copies, and for what a lookup would score, in time that grows with the number of edges."""
    lists = {"out": neighbour_lists(graph.adjacency)}
    if graph.is_directed:
        lists["in"] = neighbour_lists(sp.csr_array(graph.adjacency.T))
    same = {kind: int((_shared(groups) & (groups >= 0)).sum()) for kind, groups in lists.items()}
    return Audit(_duplicates(graph, list(lists.values())), same["out"], same.get("in"), _lookups(graph, lists))


def describe_audit(graph: Graph) -> dict[str, str]:
    """Return what an audit found, by topic, with a warning where a score may be a lookup."""
    found = audit(graph)
    if found.same_in is None:
        shared = f"{found.same_out:,} nodes have exactly the neighbours of another"
    else:
        shared = (
            f"{found.same_out:,} nodes point to exactly the nodes that another points to; "
            f"{found.same_in:,} are pointed to by exactly the nodes that point to another"
        )
    lines = {
        "copies": f"{found.duplicates:,} nodes have the features and the neighbours of another",
        "same lists": shared,
    }
    for lookup in found.lookups:
        lines["lookup" if found.same_in is None else f"lookup {lookup.lists}"] = str(lookup)
    leaks = [lookup.lists for lookup in found.lookups if lookup.is_leak]
    if leaks:
        what = "neighbours" if found.same_in is None else f"{' and '.join(leaks)}-neighbours"
        lines["warning"] = f"a score on this graph may be a lookup of {what}. {_remedy(graph)}"
    return lines


def _remedy(graph: Graph) -> str:
    known = known_name(graph)
    without = [name for name in CATALOG if known and name.startswith(f"{known}_filtered")]
    if without:
        return f"Report {' or '.join(without)} beside it, where a lookup gains next to nothing."
    return "Leave copies out of the graph, or keep nodes of one list in one part of a split, and report that beside it."


def neighbour_lists(adjacency: sp.csr_array) -> Array:
    """Return a number for each node (N), equal for equal lists of neighbours; -1 for an empty one."""
    nodes, lengths = adjacency.shape[0], np.diff(adjacency.indptr)
    filled = np.flatnonzero(lengths)
    groups = np.full(nodes, -1)
    if len(filled):
        random = numpy_generator(0, "audit", "lists")
        # A list is known by the sum of random words of its members. Two words of 64 bits: no two lists share both by
        # chance, and nothing is sorted but N sums.
        sums = []
        for _ in range(2):
            words = random.integers(2**64, size=nodes, dtype=np.uint64)
            sums.append(np.add.reduceat(words[adjacency.indices], adjacency.indptr[filled]))
        groups[filled] = _numbered(sums)
    return groups


def _numbered(keys: Sequence[Array]) -> Array:
    """Return a number for each position, equal where all keys are."""
    order = np.lexsort(keys)
    fresh = np.zeros(len(order), bool)
    for key in keys:
        fresh[1:] |= key[order][1:] != key[order][:-1]
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(fresh)
    return numbers


def _shared(groups: Array) -> Array:
    """Tell which members are not alone in their group."""
    found: Array = np.bincount(groups + 1)[groups + 1] > 1  # the first group is -1
    return found


def _duplicates(graph: Graph, lists: Sequence[Array]) -> int:
    alike = _numbered(lists)
    nodes = np.flatnonzero(_shared(alike))  # features matter where the lists are shared
    features = graph.features[nodes]
    if features.dtype == np.float16:  # which SciPy does not take; float32 holds the same numbers
        features = features.astype(np.float32)
    rows = sp.csr_array(features)  # in which -0.0 and 0.0 are both left out
    rows.eliminate_zeros()
    seen = Counter(
        (group, rows.indices[start:end].tobytes(), rows.data[start:end].tobytes())
        for group, start, end in zip(alike[nodes].tolist(), rows.indptr[:-1], rows.indptr[1:], strict=True)
    )
    return sum(count for count in seen.values() if count > 1)


def _lookups(graph: Graph, lists: dict[str, Array]) -> tuple[Lookup, ...]:
    """Score a lookup of each kind of list, on published splits where the graph has ten, else on those of `paper`."""
    if graph.labels is None:
        return ()
    name = "geom_gcn" if "geom_gcn" in graph.published_splits else "paper"
    known = known_name(graph)
    try:
        seeds = PROTOCOLS[name].rule(known).seeds(0, SPLITS, graph.published_splits)
        splits = [PROTOCOLS[name].draw(graph.labels, seed, known, graph.published_splits) for seed in seeds]
    except EvaluationError:  # too few labelled nodes, or several tasks
        return ()
    lengths = {
        "out": np.diff(graph.adjacency.indptr),
        "in": np.bincount(graph.adjacency.indices, minlength=graph.num_nodes),
    }
    found = []
    for kind, groups in lists.items():
        counted = np.sum([_look_up(graph.labels, groups, lengths[kind], split) for split in splits], axis=0)
        nodes, hits, right, *others = counted.tolist()
        found.append(Lookup(kind, name, len(splits), hits / nodes, right / max(hits, 1), *(x / nodes for x in others)))
    return tuple(found)


def _look_up(labels: Array, groups: Array, lengths: Array, split: Split) -> Array:
    """Count test nodes: all, found, right of these, right overall, right by majority, found and gained by long ones."""
    majority = np.bincount(labels[split.train]).argmax()
    answers = np.full(groups.max(initial=-1) + 2, -1)  # the last one is for empty lists, whose number is -1
    train = split.train[groups[split.train] >= 0]
    classes = int(labels.max()) + 1
    votes, counts = np.unique(groups[train] * classes + labels[train], return_counts=True)
    group, label = np.divmod(votes, classes)
    order = np.lexsort((-label, counts))  # the greatest count is written last, of equals the first class
    answers[group[order]] = label[order]
    looked_up = answers[groups[split.test]]
    found, truth = looked_up >= 0, labels[split.test]
    right, usual = found & (looked_up == truth), majority == truth
    long = found & (lengths[split.test] >= _LONG)
    overall = right | (~found & usual)
    gained = int((right & long).sum()) - int((usual & long).sum())
    return np.array([len(truth), found.sum(), right.sum(), overall.sum(), usual.sum(), long.sum(), gained])
