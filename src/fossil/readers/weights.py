"""Numbers on edges: no method uses them, so they are refused unless the caller says to leave them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fossil.errors import GraphError
from fossil.graph.findings import Finding, Treatment
from fossil.readers.cells import Column, as_floats, cell_texts


def edge_values(where: str, columns: Mapping[str, Column | Any], treatment: Treatment | None) -> tuple[Finding, ...]:
    """Return the findings about what edges hold beside their ends.

    Args:
        where: the source, for messages.
        columns: values of every edge, by name; an array may have several numbers an edge.
        treatment: what is done about weights, among other things.

    Raises:
        GraphError: a column holds numbers that differ between edges, and `treatment` does not ignore them.
    """
    weights = {name: shown for name, column in columns.items() if (shown := _different_numbers(column))}
    return weight_findings(where, weights, [name for name in columns if name not in weights], treatment)


def weight_findings(
    where: str, weights: Mapping[str, str], others: Sequence[str], treatment: Treatment | None
) -> tuple[Finding, ...]:
    """Return the findings about columns with numbers that differ between edges (two of them, by name) and about others.

    Raises:
        GraphError: there are such numbers, and `treatment` does not ignore them.
    """
    if weights and (treatment or Treatment()).edge_weights == "refuse":
        named = ", ".join(f"{name!r} (for example {shown})" for name, shown in weights.items())
        raise GraphError(
            f"{where} has numbers that differ between edges: {named}. No method here uses edge weights.",
            remedy="Leave them out with --edge-weights ignore; edges that should not count have to be removed.",
        )
    found = (("edge weights", list(weights)), ("further edge columns", others))
    return tuple(Finding(kind, len(names), "ignored", tuple(names[:3])) for kind, names in found if names)


def _different_numbers(column: Column | Any) -> str:
    """Return two numbers that differ, in words; nothing where there are none, or the column is text."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        rows = column.reshape(len(column), -1)
        differing = rows[:, (rows != rows[:1]).any(axis=0)] if len(rows) else rows
        values = differing[:, 0].astype(np.float64) if differing.size else np.empty(0)
    else:
        values = as_floats(column)
        if 2 * np.count_nonzero(np.isfinite(values)) <= sum(map(bool, cell_texts(column))):
            return ""
    distinct = np.unique(values[np.isfinite(values)])
    return f"{distinct[0]:g} and {distinct[-1]:g}" if len(distinct) > 1 else ""
