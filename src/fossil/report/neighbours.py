"""Tables of neighbours."""

from __future__ import annotations

from fossil.graph.graph import Array
from fossil.neighbours.base import Nearest
from fossil.report.tables import Table


def neighbours_table(ids: Array, rows: Array, found: Nearest) -> Table:
    """Return a row for each neighbour of each node.

    Args:
        ids: N ids of all nodes.
        rows: the nodes whose neighbours were looked for.
        found: their neighbours.
    """
    records = [
        {"id": ids[row].item(), "rank": rank, "neighbour": ids[near].item(), "cosine": round(float(cosine), 7)}
        for row, nearest, cosines in zip(rows, found.rows, found.similarities, strict=True)
        for rank, (near, cosine) in enumerate(zip(nearest, cosines, strict=True), start=1)
    ]
    shown = [(str(each["id"]), str(each["rank"]), str(each["neighbour"]), f"{each['cosine']:.4f}") for each in records]
    return Table("Neighbours", ("id", "rank", "neighbour", "cosine"), shown, records)
