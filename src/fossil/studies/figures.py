"""The figures of a study: a value against a swept setting, a panel for each graph; against their size; ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any, BinaryIO

from fossil.errors import EvaluationError
from fossil.printable import printable
from fossil.report.critical_difference import critical_difference
from fossil.report.figure import new_figure
from fossil.report.lettering import TITLE, write_literally
from fossil.settings import spelt
from fossil.storage import write_atomically
from fossil.studies.entries import FigureEntry, Quantity
from fossil.studies.ranking import Ranking, ranking
from fossil.studies.results import SCORED, Results, middle, over_encoders, scale

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("png", "svg")
_PANELS_A_ROW = 4  # as in the paper
_LABELS: Mapping[Quantity, str] = {
    "accuracy": "accuracy in %", "macro_f1": "macro F1 in %", "test_maximum": "test maximum in %",
    "seconds": "seconds of a training", "epoch_seconds": "seconds of an epoch", "memory": "most memory in GB",
    "lambda_mean": "mean of λ", "effective_rank": "effective rank",
}  # fmt: skip


def draw_figure(results: Results, entry: FigureEntry, folder: Path) -> list[Path]:
    """Write a figure that a study asks for as PNG and SVG, and return the files.

    Raises:
        SettingError: matplotlib is not installed.
        EvaluationError: there is nothing to draw yet.
        RunError: a file cannot be written.
    """
    figure = {"sweep": _sweep, "growth": _growth, "ranks": _ranks}[entry.kind](results, entry)
    paths = [folder / f"{results.plan.study.name}-{entry.name}.{kind}" for kind in KINDS]
    for path, kind in zip(paths, KINDS, strict=True):
        write_atomically(path, partial(_save, figure, kind))
    return paths


def notes_of(results: Results, entry: FigureEntry) -> list[str]:
    """Return what must be said beside a figure: how ranks are read, with the warning that few graphs need.

    Of one that cannot be drawn yet that is why.
    """
    if entry.kind == "ranks":
        return _ranking(results, entry).notes
    return [] if is_measured(results, entry) else [_nothing_yet(entry).what]


def is_measured(results: Results, entry: FigureEntry) -> bool:
    """Tell whether there is something to draw: any value, or for ranks those of all rows on two graphs at least."""
    if entry.kind == "ranks":
        return _ranking(results, entry).ranks is not None
    plan, name = results.plan, entry.protocol or results.plan.study.protocols[0]
    places = [(row, column) for row in range(len(plan.rows)) for column in range(len(plan.columns))]
    return any(results.values(row, column, entry.value, name) for row, column in places)


def _save(figure: Figure, kind: str, stream: BinaryIO) -> None:
    import matplotlib as mpl

    # Names of parts of an SVG from a fixed word, and no date, so that equal figures are equal files.
    with mpl.rc_context({"svg.hashsalt": "fossil"}):
        figure.savefig(stream, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def _sweep(results: Results, entry: FigureEntry) -> Figure:
    """Return a panel for each graph: a line for each method over the values of the swept setting."""
    plan, sweep = results.plan, results.plan.study.sweep
    assert sweep is not None
    columns = [column for column in range(len(plan.columns)) if column not in plan.unreadable]
    drawn = {column: _lines(results, entry, column) for column in columns}
    if not any(lines for lines in drawn.values()):
        raise _nothing_yet(entry)
    across = min(_PANELS_A_ROW, len(columns))
    down = math.ceil(len(columns) / across)
    figure = new_figure(2.9 * across + 0.3, 2.5 * down + 0.5)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in sweep.values)
    # A line has one colour in all panels, also where another one is missing.
    colours = {series: f"C{number}" for number, series in enumerate(dict.fromkeys(row.series for row in plan.rows))}
    shown: dict[str, Artist] = {}
    for panel, column in zip(panels, columns, strict=False):
        for series, points in drawn[column].items():
            if numeric:
                points.sort(key=itemgetter(0))
            at = [value if numeric else sweep.values.index(value) for value, _, _ in points]
            means, halves = [middle for _, middle, _ in points], [half or 0.0 for _, _, half in points]
            style: dict[str, Any] = {"marker": "o", "markersize": 3.5, "capsize": 2, "elinewidth": 0.8}
            shown[series] = panel.errorbar(at, means, yerr=halves, color=colours[series], **style)
        write_literally(panel.set_title("", fontsize="medium"), plan.columns[column])
        panel.grid(alpha=0.3)
        if not numeric:
            panel.set_xticks(range(len(sweep.values)), [printable(spelt(value)) for value in sweep.values])
            for text in panel.get_xticklabels():
                text.set_parse_math(False)
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    figure.supxlabel(sweep.name, fontsize="medium")
    interval = ", ± half the 95 % interval" if any(half for lines in drawn.values() for half in _halves(lines)) else ""
    figure.supylabel(_LABELS[entry.value] + interval, fontsize="medium")
    if len(colours) > 1:
        _set_legend(panels[0], shown)
    if title := entry.title or plan.study.title:
        write_literally(figure.suptitle("", fontsize="medium"), title, longest=TITLE)
    return figure


def _set_legend(panel: Axes, shown: Mapping[str, Artist]) -> None:
    """Say what each line is of: its title as it is, whatever matplotlib takes a sign in it for."""
    legend = panel.legend(list(shown.values()), [str(number) for number in range(len(shown))], fontsize="small")
    for text, name in zip(legend.get_texts(), shown, strict=True):
        write_literally(text, name)


def _lines(results: Results, entry: FigureEntry, column: int) -> dict[str, list[tuple[Any, float, float | None]]]:
    """Return for each series of one graph the swept value, what a table has for it, and half the interval if scored."""
    name, factor = entry.protocol or results.plan.study.protocols[0], scale(entry.value)
    found: dict[str, list[tuple[Any, float, float | None]]] = {}
    for number, row in enumerate(results.plan.rows):
        summary = over_encoders(results.values(number, column, entry.value, name), name)
        if summary is not None:
            half = None if summary.half_width is None or entry.value not in SCORED else factor * summary.half_width
            found.setdefault(row.series, []).append((row.swept, factor * middle(summary, entry.value), half))
    return found


def _halves(lines: Mapping[str, Sequence[tuple[Any, float, float | None]]]) -> list[float | None]:
    return [half for points in lines.values() for _, _, half in points]


def _growth(results: Results, entry: FigureEntry) -> Figure:
    """Return one panel: a line for each row over the number of nodes, on logarithmic axes."""
    plan, name = results.plan, entry.protocol or results.plan.study.protocols[0]
    figure = new_figure(6.4, 4.4)
    panel = figure.subplots()
    sizes: set[float] = set()
    shown: dict[str, Artist] = {}
    for number, row in enumerate(plan.rows):
        points = sorted(_sizes(results, entry, number, name))
        if points:
            sizes |= {size for size, _ in points}
            at, middles = zip(*points, strict=True)
            [shown[row.title]] = panel.plot(at, middles, marker="o", markersize=4, color=f"C{number % 10}")
    if not sizes:
        raise _nothing_yet(entry)
    panel.set_xscale("log")
    panel.set_xticks(sorted(sizes), [f"{size:,.0f}" for size in sorted(sizes)], rotation=30)
    panel.set_xticks([], minor=True)
    if entry.value not in SCORED:
        _set_log_scale(panel)
    panel.set_xlabel("nodes")
    panel.set_ylabel(_LABELS[entry.value])
    panel.grid(alpha=0.3)
    _set_legend(panel, shown)
    if title := entry.title or plan.study.title:
        write_literally(panel.set_title("", fontsize="medium"), title, longest=TITLE)
    return figure


def _set_log_scale(panel: Axes) -> None:
    """Make the scale of the values logarithmic, with ticks that read as plain numbers: 0.002, 0.003, 0.005."""
    from matplotlib.ticker import LogLocator

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _: "")


def _sizes(results: Results, entry: FigureEntry, row: int, name: str) -> Sequence[tuple[float, float]]:
    """Return the number of nodes and the value of one row at each size, graphs of one size together."""
    found: dict[float, list[float]] = {}
    for column in range(len(results.plan.columns)):
        values = results.values(row, column, entry.value, name)
        records = [results.records[cell.key] for cell in results.cells(row, column) if cell.seed in values]
        nodes = [record.nodes for record in records if record.nodes is not None]
        if nodes:
            each = [mean(one.values()) for one in values.values()]
            middle = mean(each) if entry.value in SCORED else median(each)
            found.setdefault(mean(nodes), []).append(scale(entry.value) * middle)
    return [(size, mean(middles)) for size, middles in found.items()]


def _ranking(results: Results, entry: FigureEntry) -> Ranking:
    return ranking(results, entry.value, entry.protocol or results.plan.study.protocols[0])


def _ranks(results: Results, entry: FigureEntry) -> Figure:
    """Return mean ranks on a line, with a bar over those that are not shown to differ."""
    found = _ranking(results, entry)
    if found.ranks is None:
        raise EvaluationError(
            f"There is nothing to draw in {entry.name!r}. {found.reason}",
            remedy="Train what is missing: fossil study run FILE.",
        )
    return critical_difference(found.ranks, entry.title or results.plan.study.title, found.notes)


def _nothing_yet(entry: FigureEntry) -> EvaluationError:
    return EvaluationError(
        f"There is nothing to draw in {entry.name!r} yet.", remedy="Train something first: fossil study run FILE."
    )
