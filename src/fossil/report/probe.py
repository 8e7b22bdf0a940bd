"""What the probe gets wrong, and where: by class, by degree, by how far neighbours agree, and node by node."""

from __future__ import annotations

import numpy as np

from fossil.evaluation.answers import Answers
from fossil.graph.graph import Array, Graph
from fossil.report.columns import agreement, class_names, degrees
from fossil.report.contract import Mistake, Probe, Tally, brief

_WORST = 30
_MOST_CLASSES = 40  # of a matrix that can be read
_DEGREES = (0, 1, 2, 4, 8, 16, 32, 64)
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8)


def describe_probe(graph: Graph, found: Answers, page_rows: Array) -> Probe:
    """Return the mistakes of a probe for the page.

    Args:
        graph: with classes.
        found: the probe's answers.
        page_rows: the page's row of each node of the graph (N), -1 where it has none.
    """
    names = tuple(map(brief, class_names(graph)))
    shown = len(names) <= _MOST_CLASSES
    splits = f"{found.splits} split{'s' if found.splits > 1 else ''}"
    about = (
        f"Test nodes of {splits}, {int(found.tested.sum()):,} answers about {int((found.tested > 0).sum()):,} nodes."
    )
    if not shown:
        about += f" {len(names):,} classes are too many for a matrix."
    return Probe(
        about=about,
        classes=list(names) if shown else [],
        confusion=found.confusion.ravel().tolist() if shown else [],
        by_degree=_by_degree(degrees(graph), found),
        by_agreement=_by_share(agreement(graph), found),
        worst=_worst(graph, names, found, page_rows),
    )


def _by_degree(values: Array, found: Answers) -> list[Tally]:
    ends = [*(start - 1 for start in _DEGREES[1:]), None]
    bins = []
    for low, high in zip(_DEGREES, ends, strict=True):
        name = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
        mine = values >= low if high is None else (values >= low) & (values <= high)
        bins.append(_tally(name, mine, found))
    return [one for one in bins if one.tested]


def _by_share(values: Array, found: Answers) -> list[Tally]:
    bins = []
    for low in _SHARES:
        high = low + 0.2
        last = low == _SHARES[-1]
        mine = (values >= low - 1e-9) & ((values <= 1) if last else (values < high - 1e-9))
        bins.append(_tally(f"{100 * low:.0f} to {100 * high:.0f} %", mine, found))
    bins.append(_tally("no labelled neighbour", np.isnan(values), found))
    return [one for one in bins if one.tested]


def _tally(name: str, mine: Array, found: Answers) -> Tally:
    return Tally(name, int(found.tested[mine].sum()), int(found.wrong[mine].sum()))


def _worst(graph: Graph, names: tuple[str, ...], found: Answers, page_rows: Array) -> list[Mistake]:
    """Return the nodes that are wrong most often, of equals those that were tested most often."""
    assert graph.labels is not None
    share = np.nan_to_num(found.errors, nan=-1.0)
    order = np.lexsort((-found.tested, -share))[:_WORST]
    return [
        Mistake(
            row=int(page_rows[node]),
            id=brief(str(graph.ids[node])),
            truth=names[graph.labels[node]],
            answer=names[found.usual[node]],
            tested=int(found.tested[node]),
            wrong=int(found.wrong[node]),
        )
        for node in order.tolist()
        if found.wrong[node] > 0
    ]
