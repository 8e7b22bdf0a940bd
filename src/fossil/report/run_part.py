"""What a page has of one run: what it says of it, and arrays with a value for each node that is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fossil.evaluation.answers import answers
from fossil.evaluation.evaluate import SPLITS_OF_A_SINGLE_RUN
from fossil.evaluation.protocol import Protocol
from fossil.evaluation.subjects import subject_of
from fossil.graph.graph import Array
from fossil.graph.structure import undirected
from fossil.neighbours.exact import ExactNeighbours
from fossil.report.arrays import category_codes, number_steps, packed, packed_texts, places
from fossil.report.columns import LARGEST_PAGE, NodeColumn, columns_of
from fossil.report.contract import Pair, Plan, Probe, RunMeta, brief
from fossil.report.cosines import cosines_between
from fossil.report.layout import layout_of
from fossil.report.probe import describe_probe
from fossil.report.run_meta import describe_run
from fossil.report.subgraphs import NodeSubgraphs, sampler_of, subgraphs_of
from fossil.report.transport import chosen_pairs
from fossil.runs.run import Run
from fossil.seeding import numpy_generator
from fossil.training.devices import resolve_device

_NEAREST_VECTORS = 10  # neighbours of a node by its vector
_GRAPH_NEIGHBOURS = 10  # neighbours of a node in the graph


@dataclass(frozen=True, eq=False)
class RunPart:
    """What a page has of one run.

    Attributes:
        meta: what it says of the run.
        arrays: packed arrays by name, as `frontend/DATA.md` lists them.
        pairs: pairs of subgraphs, with the transport plan of each.
    """

    meta: RunMeta
    arrays: dict[str, Any]
    pairs: list[tuple[Pair, Plan]]


def run_part(run: Run, rule: Protocol | None, splits: int | None, device: str) -> RunPart:
    """Return what a page has of a run.

    Args:
        run: a finished run.
        rule: the protocol to probe the vectors by; None where there is nothing to score.
        splits: how many of its splits; see `fossil.evaluate`.
        device: where probes are fitted.
    """
    graph, vectors = run.graph, run.embeddings.vectors
    rows = shown_rows(graph.num_nodes)
    page_rows = np.full(graph.num_nodes, -1)  # of each node of the graph, -1 where it is not shown
    page_rows[rows] = np.arange(len(rows))
    layout = layout_of(run)
    probe, errors = _probe(run, rule, splits, device, page_rows)
    columns = [column.of(rows) for column in columns_of(run, errors)]
    near, cosines = ExactNeighbours(vectors[rows]).nearest(np.arange(len(rows)), _NEAREST_VECTORS)
    subgraphs = subgraphs_of(sampler_of(run), rows)
    pairs, pairs_about = chosen_pairs(run, subgraphs, rows, rows[near], page_rows)
    x, y = places(layout.positions[rows])
    ids, lengths = packed_texts([brief(str(key)) for key in graph.ids[rows].tolist()])
    arrays = {
        "x": packed(x),
        "y": packed(y),
        "near/rows": packed(near.astype(np.uint32)),
        "near/cosines": packed(_cosine_steps(cosines)),
        "ids": packed(ids),
        "ids/lengths": packed(lengths),
    }
    arrays |= {f"column/{number}": _column(column) for number, column in enumerate(columns)}
    arrays |= _graph_arrays(run, rows, page_rows) | _subgraph_arrays(subgraphs, page_rows)
    return RunPart(describe_run(run, rows, layout.how, columns, pairs, pairs_about, probe), arrays, pairs)


def shown_rows(nodes: int) -> Array:
    """Return the nodes that a page shows: all, or a sample of `LARGEST_PAGE`, in the order of the graph."""
    if nodes <= LARGEST_PAGE:
        return np.arange(nodes)
    return np.sort(numpy_generator(0, "report", "sample").choice(nodes, LARGEST_PAGE, replace=False))


def _probe(
    run: Run, rule: Protocol | None, splits: int | None, device: str, page_rows: Array
) -> tuple[Probe | None, Array | None]:
    """Return what a probe gets wrong, and how often it is wrong about each node; both None without a protocol."""
    if rule is None:
        return None, None
    given = answers(subject_of(run), rule, splits or SPLITS_OF_A_SINGLE_RUN, str(resolve_device(device)))
    return describe_probe(run.graph, given, page_rows), given.errors


def _column(column: NodeColumn) -> dict[str, Any]:
    if column.names is not None:
        return packed(category_codes(column.values, len(column.names)))
    meta = column.meta()
    steps, step = number_steps(column.values, meta.low, meta.high)
    return packed(steps, step=step)


def _graph_arrays(run: Run, rows: Array, page_rows: Array) -> dict[str, Any]:
    """Return the first neighbours of each node in the graph, how near their vectors are, and how many there are."""
    edges = undirected(run.graph.adjacency)
    source = np.repeat(page_rows, np.diff(edges.indptr))
    target = page_rows[edges.indices]
    is_shown = (source >= 0) & (target >= 0)
    source, target = source[is_shown], target[is_shown]
    starts = np.searchsorted(source, np.arange(len(rows)))
    kept = np.arange(len(source)) - starts[source] < _GRAPH_NEIGHBOURS if len(source) else np.empty(0, bool)
    source, target = source[kept], target[kept]
    vectors = run.embeddings.vectors
    return {
        "degrees": packed(np.diff(edges.indptr)[rows].astype(np.uint32)),
        "graph/counts": packed(np.bincount(source, minlength=len(rows)).astype(np.uint8)),
        "graph/rows": packed(target.astype(np.uint32)),
        "graph/cosines": packed(_cosine_steps(cosines_between(vectors, rows[source], rows[target]))),
    }


def _cosine_steps(cosines: Array) -> Array:
    """Return cosines in 255 steps from -1 to 1."""
    return np.round((np.clip(cosines, -1, 1) + 1) / 2 * 255).astype(np.uint8)


def _subgraph_arrays(subgraphs: NodeSubgraphs, page_rows: Array) -> dict[str, Any]:
    """Return the subgraphs whose nodes are all on the page."""
    rows = page_rows[subgraphs.nodes]
    kept = subgraphs.filled & (rows >= 0).all(axis=1)
    size = subgraphs.nodes.shape[1]
    first, second = np.triu_indices(size, 1)
    bits = np.packbits(subgraphs.adjacency[kept][:, first, second], axis=1) if kept.any() else np.empty(0, np.uint8)
    return {
        "subgraphs/filled": packed(kept.astype(np.uint8)),
        "subgraphs/rows": packed(rows[kept][:, :-1].astype(np.uint32)),
        "subgraphs/edges": packed(bits),
    }
