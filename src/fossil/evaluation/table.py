"""Scores as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fossil.evaluation.evaluate import Row
from fossil.evaluation.statistics import Summary

if TYPE_CHECKING:
    from rich.table import Table


def table_of(rows: Sequence[Row]) -> Table:
    """Return the rows as a table, accuracies in percent."""
    from rich.table import Table

    optional = {
        "test maximum": any("test_maximum" in row.metrics for row in rows),
        "raw features": any(row.features for row in rows),
        "published": any(row.published for row in rows),
    }
    shown = [name for name, wanted in optional.items() if wanted]
    confidence = f"{100 * rows[0].confidence:g} % interval"
    table = Table("graph", "method", "encoders × splits", "accuracy", confidence, *shown)
    for row in rows:
        cells = {
            "test maximum": _percent(row.metrics.get("test_maximum")),
            "raw features": _percent(row.features),
            "published": "" if row.published is None else f"{row.published:.2f}",
        }
        interval = (
            f"{100 * row.accuracy.low:.2f} to {100 * row.accuracy.high:.2f}"
            if row.accuracy.has_interval
            else "one value"
        )
        table.add_row(
            row.graph,
            row.method,
            f"{row.encoders} × {'own split' if row.supervised else row.splits}",
            f"{100 * row.accuracy.mean:.2f}",
            interval,
            *(cells[name] for name in shown),
        )
    return table


def _percent(summary: Summary | None) -> str:
    return "" if summary is None else f"{100 * summary.mean:.2f} ± {100 * summary.half_width:.2f}"
