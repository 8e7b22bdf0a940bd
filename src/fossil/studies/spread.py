"""How much a method depends on being tuned: validation accuracy over the settings that its search has tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from fossil.report.tables import Table, Value

if TYPE_CHECKING:
    from fossil.studies.trials import Found

SPREAD = "searched-spread"
"""The name of the table among those of a study."""

Figures: TypeAlias = Mapping[str, int | float | None]
"""Of one search: `trials`, and where any setting counts all of `FIGURES`."""

FIGURES = ("settings", "best", "defaults", "lower_quartile", "median", "upper_quartile", "worst")

_HEADER = ["Graph", "Method", "Trials", "Best", "Defaults", "Median", "Middle half", "Worst"]
_NOTE = (
    "Accuracy on validation nodes in percent, mean over the encoders of a setting; test labels are not read. The best "
    "of many is partly luck."
)


def figures_of(found: Found) -> Figures:
    """Return how the settings of a search that keep its limits spread."""
    spread = found.spread
    if spread is None:
        return {"trials": len(found.trials)}
    low, median, high = spread.quartiles
    values = (len(spread.values), spread.best, spread.usual, low, median, high, spread.worst)
    return {"trials": len(found.trials), **dict(zip(FIGURES, values, strict=True))}


def spread_table(searches: Iterable[tuple[str, str, Figures | None]], notes: Sequence[str]) -> Table:
    """Return a line for each search.

    Args:
        searches: titles of graph and row, and what was found; None where nothing is known.
        notes: what is to be said beside it.
    """
    rows: list[list[str]] = []
    records: list[dict[str, Value]] = []
    for graph, row, found in searches:
        if found is None or "best" not in found:
            rows.append([graph, row, "–" if found is None else f"{found['trials']:g}", *["–"] * 5])
            continue
        best, usual, low, median, high, worst = (_percent(found[name]) for name in FIGURES[1:])
        rows.append([graph, row, f"{found['trials']:g}", best, usual, median, f"{low} to {high}", worst])
        records.append({"graph": graph, "row": row, **found})
    return Table("Spread over settings", _HEADER, rows, records, [_NOTE, *notes])


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
