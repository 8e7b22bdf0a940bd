"""What a notebook shows of vectors and runs: a few facts and a small map, without computing anything for long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fossil.errors import FossilError
from fossil.graph.graph import Array, Graph
from fossil.printable import printable, shortened
from fossil.settings import spelt
from fossil.storage import read_json

if TYPE_CHECKING:
    from fossil.runs.config import RunConfig
    from fossil.runs.embeddings import Embeddings
    from fossil.runs.run import Run

_MOST_POINTS = 1000
_MOST_NODES_READ = 100_000  # of a run on the disk, whose vectors are read for the map
_SIDE = 240  # of the map, in pixels
# After Paul Tol's schemes for colour-blind readers, the darkest made lighter for dark pages.
_COLOURS = (
    "#CC6677", "#6699CC", "#DDCC77", "#228833", "#88CCEE", "#994455", "#44AA99", "#999933", "#AA4499", "#EE8866",
)  # fmt: skip
_REST = "#999999"


def embeddings_card(found: Embeddings) -> str:
    """Return HTML about vectors: of a fit, of new nodes, or by themselves."""
    graph: Graph | None = getattr(found, "graph", None)
    config: RunConfig | None = getattr(found, "config", None)
    facts = {"nodes": f"{len(found):,}", "width": f"{found.vectors.shape[1]:,}"}
    title, labels = type(found).__name__, None
    if graph is not None:
        facts = _graph_facts(graph) | facts
        labels = None if graph.labels is None or graph.num_nodes != len(found) else graph.labels
    if config is not None:
        title = f"{config.method} on {config.graph}"
        facts |= _config_facts(config, len(getattr(found, "history", [])))
        facts |= _score_facts(getattr(found, "path", None), labels)
    return _card(title, facts, _picture(found.vectors, labels, () if graph is None else graph.label_names))


def run_card(run: Run) -> str:
    """Return HTML about a run folder, finished or not."""
    try:
        config = run.config
        facts = {"folder": str(run.path)}
        if not run.finished:
            unfinished = {"state": "not finished: go on with the same call and resume=True"}
            return _card(f"{config.method} on {config.graph}", facts | unfinished | _config_facts(config, None), "")
        summary = run.summary
        facts |= {"nodes": f"{summary['nodes']:,}", "width": f"{summary['width']:,}"}
        facts |= {"effective rank": f"{summary['effective_rank']:g}", "trained in": f"{summary['seconds']:.1f} s"}
        facts |= _config_facts(config, summary["epochs"])
        if summary["nodes"] > _MOST_NODES_READ:
            facts |= _score_facts(run.path, None) | {"map": f"not above {_MOST_NODES_READ:,} nodes"}
            return _card(f"{config.method} on {config.graph}", facts, "")
        graph = run.graph
        facts = _graph_facts(graph) | facts | _score_facts(run.path, graph.labels)
        picture = _picture(run.embeddings.vectors, graph.labels, graph.label_names)
        return _card(f"{config.method} on {config.graph}", facts, picture)
    except (FossilError, KeyError, TypeError, ValueError) as error:  # a damaged folder is shown as such
        return _card("Run", {"folder": str(run.path), "state": str(error)}, "")


def _graph_facts(graph: Graph) -> dict[str, str]:
    classes = {"classes": f"{graph.num_classes:,}"} if graph.num_classes else {}
    return {"nodes": f"{graph.num_nodes:,}", "directed edges": f"{graph.num_edges:,}"} | classes


def _config_facts(config: RunConfig, epochs: int | None) -> dict[str, str]:
    """Return seed, epochs and the settings that differ from the method's defaults."""
    fields = type(config.settings).model_fields
    changed = [f"{name}={spelt(value)}" for name, value in config.settings if value != fields[name].default]
    trained = {} if epochs is None else {"epochs": f"{epochs:,}"}
    return trained | {"seed": str(config.seed), "settings": ", ".join(changed) or "the method's defaults"}


def _score_facts(folder: Path | None, labels: Array | None) -> dict[str, str]:
    """Return the scores that the folder has: none is computed here."""
    found: dict[str, str] = {}
    for path in [] if folder is None else sorted(folder.glob("scores-*.json")):
        try:
            values = [float(one["accuracy"]) for one in read_json(path)["scores"]]
            splits = f"mean of {len(values)} splits" if len(values) > 1 else "one split"
            found[f"accuracy ({path.stem.removeprefix('scores-')})"] = f"{100 * np.mean(values):.2f} %, {splits}"
        except (FossilError, KeyError, TypeError, ValueError):
            continue  # it is no file of scores
    return found or ({} if labels is None else {"accuracy": "not scored yet: fossil.evaluate"})


def _card(title: str, facts: Mapping[str, str], picture: str) -> str:
    """Return a table of facts beside a picture; every text is escaped here."""
    cell = 'style="text-align:left;vertical-align:top;padding:1px 12px 1px 0'
    rows = "".join(
        f'<tr style="background:none"><th {cell};font-weight:normal;opacity:.7">{_text(name)}</th>'
        f'<td {cell};max-width:28em;overflow-wrap:anywhere">{_text(value, 400)}</td></tr>'
        for name, value in facts.items()
    )
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:24px;align-items:flex-start">'
        f'<div><strong>{_text(title, 100)}</strong><table style="margin:6px 0 0;color:inherit;font-size:inherit">'
        f"{rows}</table></div>{picture}</div>"
    )


def _picture(vectors: Array, labels: Array | None, names: Sequence[str]) -> str:
    """Return principal components of at most a thousand nodes, coloured by class, with a legend."""
    nodes = len(vectors)
    if nodes < 3 or vectors.shape[1] < 2:
        return ""
    rows = np.unique(np.linspace(0, nodes - 1, min(nodes, _MOST_POINTS)).astype(np.int64))
    positions = _plane(np.asarray(vectors[rows], np.float64))
    groups = _groups(None if labels is None or labels.ndim != 1 else labels, rows, names)
    # A line of no length with round ends is a dot: a few bytes each, where a circle of its own takes fifty.
    dots = "".join(
        f'<path d="{"".join(f"M{x:.0f} {y:.0f}h0" for x, y in positions[mine])}" stroke="{colour}"/>'
        for _, colour, mine in groups
    )
    legend = "".join(
        f'<div><span style="color:{colour}">●</span> {_text(name)}</div>' for name, colour, _ in groups if name
    )
    some = f"{len(rows):,} of {nodes:,} nodes" if len(rows) < nodes else f"{nodes:,} nodes"
    return (
        '<div style="display:flex;gap:12px"><figure style="margin:0">'
        f'<svg width="{_SIDE}" height="{_SIDE}" viewBox="-20 -20 1040 1040" role="img" '
        'aria-label="Map of the vectors" fill="none" stroke-width="20" stroke-linecap="round" '
        f'style="border:1px solid #9995;border-radius:4px">{dots}</svg>'
        f'<figcaption style="font-size:smaller;opacity:.7">principal components, {some}</figcaption></figure>'
        f'<div style="font-size:smaller;max-width:14em;overflow-wrap:anywhere">{legend}</div></div>'
    )


def _plane(vectors: Array) -> Array:
    """Return the first two principal components of unit vectors, stretched to a square of a thousand."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    centred = unit - unit.mean(axis=0)
    # Of the two products of the matrix with itself, the smaller one: at most a thousand rows.
    if centred.shape[0] <= centred.shape[1]:
        values, left = np.linalg.eigh(centred @ centred.T)
        positions = left[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0))
    else:
        positions = centred @ np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    lowest, widest = positions.min(axis=0), np.ptp(positions, axis=0).max()
    stretched: Array = 1000 * (positions - lowest) / (widest if widest > 0 else 1)
    return stretched


def _groups(labels: Array | None, rows: Array, names: Sequence[str]) -> list[tuple[str, str, Array]]:
    """Return name, colour and members of each class that is drawn: the largest, then the rest."""
    if labels is None:
        return [("", _COLOURS[1], np.arange(len(rows)))]
    mine = labels[rows]
    classes, counts = np.unique(mine[mine >= 0], return_counts=True)
    shown = np.sort(classes[np.argsort(-counts, kind="stable")][: len(_COLOURS)]).tolist()
    named: list[Any] = [names[number] if number < len(names) else number for number in shown]
    groups = [
        (str(name) or "(empty)", colour, np.flatnonzero(mine == number))
        for number, name, colour in zip(shown, named, _COLOURS, strict=False)
    ]
    rest = np.flatnonzero(~np.isin(mine, shown))
    return [("others or unknown", _REST, rest), *groups] if len(rest) else groups


def _text(text: str, longest: int = 40) -> str:
    """Return a text of anybody's as HTML shows it, and as nothing that a browser obeys."""
    return escape(shortened(printable(text), longest))
