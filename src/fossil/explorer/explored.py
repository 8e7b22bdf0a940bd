"""What the page asks about one run, answered when it is asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fossil.explorer.asking import RefusedError
from fossil.explorer.ids import Ids
from fossil.explorer.light import LightRun
from fossil.explorer.table import Table
from fossil.graph.graph import Array
from fossil.graph.structure import undirected
from fossil.neighbours.base import unit_rows
from fossil.progress import Progress, silent
from fossil.report.arrays import in_square
from fossil.report.columns import NodeColumn, columns_of
from fossil.report.contract import Fact, NodeFacts, NodeNeighbours, Pair, Plan, RunMeta, Subgraph, Weight
from fossil.report.layout import layout_of
from fossil.report.run_meta import describe_run
from fossil.report.subgraphs import NodeSubgraphs, as_subgraph, sampler_of, subgraphs_of
from fossil.report.transport import chosen_pairs, solve
from fossil.runs.neighbours import Searches
from fossil.runs.run import Run
from fossil.seeding import numpy_generator

_NEAR = 10  # neighbours of a node by its vector
_LISTED = 50  # neighbours of a node in the graph
_ANCHORS = 400  # around which pairs are looked for that are worth a look
_WEIGHTS = {"lambda": "λ"}
_CHANNEL = "channel:"


class ExploredRun:
    """One run, of which only what is asked for at every turn is in memory.

    Places, columns, ids and edges are; vectors and their index stay in their files; features are let go of once the
    columns are read back from them.

    Args:
        run: a finished run.
        exact: whether neighbours are found by comparing with every vector; when None below 20,000 nodes.
        progress: is told which share of the preparation is done.

    Raises:
        RunError: the run is not finished.
        SettingError: an index is needed, and usearch is not installed.
    """

    def __init__(self, run: Run, *, exact: bool | None = None, progress: Progress = silent) -> None:
        run.check_finished()
        self._searches = Searches(run.mapped_vectors, run.path)
        self._search = self._searches.choose(exact, lambda share: progress(0.8 * share))
        layout = layout_of(run)
        progress(0.9)
        self.columns = {column.name: _narrow(column) for column in columns_of(run)}
        self._sampler = sampler_of(run, ahead=False)
        edges = undirected(run.graph.adjacency)
        self._ends, self._neighbours = edges.indptr, edges.indices
        self._light = LightRun.of(run)
        self._every = np.arange(run.graph.num_nodes)
        self._solving = threading.Lock()  # a plan uses every core by itself
        self.ids = Ids(run.graph.ids)
        self.table = Table(self.ids, list(self.columns.values()))
        self.coordinates = in_square(layout.positions).astype(np.float32)
        pairs, about = self._pairs(run)
        self.meta: RunMeta = describe_run(run, self._every, layout.how, [*self.columns.values()], pairs, about, None)
        progress(1.0)

    def __len__(self) -> int:
        return len(self.ids)

    def node(self, row: int) -> NodeFacts:
        """Return what is known of one node."""
        near = self._search.nearest(np.array([row]), _NEAR)
        mine = self._linked(row)
        listed = mine[:_LISTED].astype(np.int64)
        subgraph = self._subgraph(row)
        facts, weights = [], []
        for name, column in self.columns.items():
            if name in _WEIGHTS or name.startswith(_CHANNEL):
                weights.append(Weight(_WEIGHTS.get(name) or name.removeprefix(_CHANNEL), float(column.values[row])))
            else:
                facts.append(Fact(column.title, column.shown(row)))
        return NodeFacts(
            row=row,
            id=self.ids[row],
            degree=len(mine),
            attributes=facts,
            weights=weights,
            in_graph=self._listed(listed, self._cosines(row, listed), len(mine)),
            in_embedding=self._listed(near.rows[0], near.similarities[0], len(self) - 1),
            subgraph=self._as_subgraph(subgraph) if subgraph.filled[0] else None,
        )

    def plan(self, a: int, b: int) -> Plan:
        """Return the transport plan between the subgraphs of two nodes, solved now.

        Raises:
            RefusedError: one of them has no subgraph.
        """
        with self._solving:
            both = [self._subgraph(row) for row in (a, b)]
            for row, each in zip((a, b), both, strict=True):
                if not each.filled[0]:
                    raise RefusedError(f"Too few nodes are in reach of {self.ids[row][:80]} for a subgraph.")
            return solve(self._light, both[0], both[1], self._every)[0]

    def _subgraph(self, row: int) -> NodeSubgraphs:
        """Draw the subgraph of one node, the same one whenever it is asked for."""
        return subgraphs_of(self._sampler, np.array([row]))

    def _as_subgraph(self, drawn: NodeSubgraphs) -> Subgraph:
        return as_subgraph(self._light.graph, drawn.nodes[0], drawn.adjacency[0], self._every)

    def _linked(self, row: int) -> Array:
        """Return the nodes that one has an edge with, in either direction."""
        found: Array = self._neighbours[self._ends[row] : self._ends[row + 1]]
        return found

    def _cosines(self, row: int, others: Array) -> Array:
        vectors = self._light.arrays["vectors"]
        found: Array = unit_rows(vectors[others]) @ unit_rows(vectors[row : row + 1])[0]
        return found

    def _listed(self, rows: Array, cosines: Array, total: int) -> NodeNeighbours:
        numbers = rows.tolist()
        return NodeNeighbours(numbers, [self.ids[row] for row in numbers], [float(each) for each in cosines], total)

    def _pairs(self, run: Run) -> tuple[Sequence[tuple[Pair, Plan]], str]:
        """Return pairs that are worth a look, from around some nodes drawn at random."""
        drawn = numpy_generator(0, "explorer", "pairs").choice(len(self), min(_ANCHORS, len(self)), replace=False)
        linked = [self._linked(row)[:_NEAR] for row in drawn]
        near = self._search.nearest(drawn, _NEAR).rows
        anchors = np.unique(np.concatenate([drawn, near.ravel(), *linked]).astype(np.int64))
        subgraphs = subgraphs_of(self._sampler, anchors)
        near = self._search.nearest(anchors, _NEAR).rows
        found, about = chosen_pairs(run, subgraphs, anchors, near, self._every)
        # With the subgraphs that are drawn when they are asked for, so that the list says what the page then shows.
        plans = [self.plan(pair.a, pair.b) for pair, _ in found]
        return [(replace(pair, value=plan.value), plan) for (pair, _), plan in zip(found, plans, strict=True)], about


def _narrow(column: NodeColumn) -> NodeColumn:
    """Return a column in the types that the page takes: int32 for categories, float32 for numbers."""
    return replace(column, values=column.values.astype(np.float32 if column.names is None else np.int32))
