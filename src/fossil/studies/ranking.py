"""Mean ranks of a study's rows over its graphs: who is ahead more often, with the warning that few graphs need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fossil.evaluation.comparison import Ranks, mean_ranks
from fossil.report.tables import Table, Value
from fossil.studies.entries import Quantity, TableEntry
from fossil.studies.results import SCORED, Results, middle, over_encoders

_NOTHING = "–"
_MOST_NAMED = 3  # of what is missing
_FEWEST = 2  # rows, and graphs, that can be ranked


@dataclass(frozen=True)
class Ranking:
    """Ranks of the rows that train without labels, over the graphs on which all of them are measured.

    Attributes:
        ranks: means over these graphs; None where there are too few of them, or of rows.
        rows: titles of the rows, in the order of the study.
        graphs: titles of the graphs that count, in its order.
        missing: which rows are not measured on each of the other graphs, by its title.
        supervised: titles of rows that were trained on labels, and do not count.
    """

    ranks: Ranks | None
    rows: Sequence[str]
    graphs: Sequence[str]
    missing: Mapping[str, Sequence[str]]
    supervised: Sequence[str]

    @property
    def notes(self) -> list[str]:
        """What must stand beside them: how to read them, and what is left out."""
        if self.ranks is None:
            return [self.reason]
        notes = [self.ranks.reading]
        for graph, rows in self.missing.items():
            notes.append(f"Not counted: {graph}, on which {_named(rows)} {_is(rows)} not measured.")
        if self.supervised:
            notes.append(f"Not ranked, since trained on labels: {', '.join(self.supervised)}.")
        return notes

    @property
    def reason(self) -> str:
        """Why there are none."""
        if len(self.rows) < _FEWEST:
            return "No mean ranks: there are fewer than two rows that train without labels."
        count = len(self.graphs)
        lacking = [f"{row} on {graph}" for graph, rows in self.missing.items() for row in rows]
        of = f"all {len(self.rows)} rows are measured on {count or 'no'} graph{'s' * (count != 1)}"
        return f"No mean ranks yet: {of}. Missing: {_named(lacking)}."


def ranking(results: Results, quantity: Quantity, name: str) -> Ranking:
    """Rank the rows of a study on every graph on which all are measured, as its tables count them.

    Args:
        results: the records.
        quantity: by what; of costs less is better.
        name: of the protocol.
    """
    plan = results.plan
    rows = [number for number, row in enumerate(plan.rows) if not row.kind.needs_labels]
    sign = 1 if quantity in SCORED else -1
    scores: dict[str, dict[str, float]] = {plan.rows[row].title: {} for row in rows}
    missing: dict[str, list[str]] = {}
    for column, graph in enumerate(plan.columns):
        for row in rows:
            summary = over_encoders(results.values(row, column, quantity, name), name)
            if summary is None:
                missing.setdefault(graph, []).append(plan.rows[row].title)
            else:
                scores[plan.rows[row].title][graph] = sign * middle(summary, quantity)
    graphs = [graph for graph in plan.columns if graph not in missing]
    shared = {title: {graph: of[graph] for graph in graphs} for title, of in scores.items()}
    enough = len(rows) >= _FEWEST and len(graphs) >= _FEWEST
    supervised = [row.title for row in plan.rows if row.kind.needs_labels]
    return Ranking(mean_ranks(shared) if enough else None, list(shared), graphs, missing, supervised)


def ranks_table(results: Results, entry: TableEntry) -> Table:
    """Return the mean ranks that belong to a table, and the ranks on each graph, the best first."""
    assert entry.protocol is not None
    found, columns = ranking(results, entry.value, entry.protocol), results.plan.columns
    ranks = found.ranks
    order = found.rows if ranks is None else list(ranks.mean)
    rows: list[list[str]] = []
    records: list[dict[str, Value]] = []
    for title in order:
        of = {} if ranks is None else ranks.by_graph[title]
        mean = None if ranks is None else ranks.mean[title]
        shown = [f"{of[graph]:g}" if graph in of else _NOTHING for graph in columns]
        rows.append([title, _NOTHING if mean is None else f"{mean:.1f}", *shown])
        records.append(
            {
                "row": title,
                "value": entry.value,
                "protocol": entry.protocol if entry.value in SCORED else None,
                "mean_rank": mean,
                "graphs": list(of),
                "ranks": list(of.values()),
                "critical_difference": None if ranks is None else ranks.critical_difference,
                "p_value": None if ranks is None else ranks.p_value,
            }
        )
    what = f"{entry.value.replace('_', ' ')}{f' under `{entry.protocol}`' if entry.value in SCORED else ''}"
    notes = [f"Ranks of {what} on each graph, 1 is the best, equals share theirs; means are over graphs that all have."]
    if ranks is not None and ranks.p_value is not None:
        notes.append(f"Friedman's test that all rank alike: p = {ranks.p_value:.2g}.")
    return Table("Mean ranks", ["Method", "Mean rank", *columns], rows, records, [*notes, *found.notes])


def _named(titles: Sequence[str]) -> str:
    more = len(titles) - _MOST_NAMED
    return ", ".join(titles[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _is(titles: Sequence[str]) -> str:
    return "is" if len(titles) == 1 else "are"
