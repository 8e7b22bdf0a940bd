"""One picture of a run: the nodes on a plane, coloured by label, by the weight of structure or by channel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import RunError, SettingError, nearest
from fossil.graph.graph import Array, Graph
from fossil.methods.registry import get_method
from fossil.report.columns import class_names, has_classes
from fossil.report.figure import new_figure
from fossil.report.layout import Layout, flatten, layout_of
from fossil.report.lettering import write_literally
from fossil.runs.embeddings import Embeddings, FitResult
from fossil.runs.lock import locked
from fossil.runs.run import Run
from fossil.storage import write_atomically

_SUFFIXES = (".png", ".pdf", ".svg")
_MOST_NAMES = 20  # in a legend


def check_map(path: Path, *, force: bool) -> None:
    """Raise, before any work is done, where a map could not be drawn to `path`.

    Raises:
        SettingError: matplotlib is not installed, or the suffix is none of a picture.
        RunError: there is a file already, and nobody said that it may be replaced.
    """
    new_figure()
    picture_kind(path)
    if path.exists() and not force:
        raise RunError(f"{path} already exists.", remedy="Replace it with --force, or choose another --out.")


def draw_map(path: Path, run: Run | FitResult, colour: str | None = None) -> None:
    """Write a picture of a run's vectors, of the kind that the suffix names.

    Args:
        path: `.png`, `.pdf` or `.svg`; what stands there is replaced.
        run: a finished run, or what `fossil.embed` returned.
        colour: what it says: `label`, `lambda` (the weight of structure, where the method has it), `channel` (the one
            that the node trusts most, where it has them) or `none`; when None the label, where there is one class per
            node.

    Raises:
        SettingError: matplotlib is not installed, or the run has not what the colour is to say.
        RunError: the run is not finished, or the file cannot be written.
    """
    found = run if isinstance(run, FitResult) else run.embeddings
    graph, figure, kind = run.graph, new_figure(), picture_kind(path)
    chosen = colour or ("label" if has_classes(graph) else "none")
    _check_colour(chosen, found, graph)
    with _keeping_others_out(path, run):
        pass  # a folder that is being written to is told of before a layout is looked for
    layout = Layout(*flatten(found.vectors)) if isinstance(run, FitResult) else layout_of(run)
    positions, how = layout.positions, layout.how
    axes = figure.add_subplot()
    if chosen == "label":
        assert graph.labels is not None
        _scatter_classes(axes, positions, graph.labels, class_names(graph))
    elif chosen == "channel":
        assert found.channels is not None
        _scatter_classes(axes, positions, np.argmax(list(found.channels.values()), axis=0), list(found.channels))
    else:
        points = axes.scatter(positions[:, 0], positions[:, 1], s=6, c=found.fusion if chosen == "lambda" else None)
        if chosen == "lambda":
            figure.colorbar(points, label="λ, the weight of structure")
    title = get_method(run.config.method).title
    about = f": {len(graph.ids):,} nodes, {title}, {how}"
    write_literally(axes.set_title("", fontsize="medium"), graph.name, about)
    axes.set_xticks([])
    axes.set_yticks([])
    with _keeping_others_out(path, run):
        write_atomically(path, lambda stream: figure.savefig(stream, format=kind, dpi=130))


def _keeping_others_out(path: Path, run: Run | FitResult) -> AbstractContextManager[None]:
    """Lock the folder of a run where a picture goes there."""
    in_its_folder = run.path is not None and path.parent.resolve() == run.path.resolve()
    return locked(path.parent) if in_its_folder else nullcontext()


def picture_kind(path: Path) -> str:
    """Return the kind of picture that a suffix names.

    Raises:
        SettingError: it names none.
    """
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise SettingError(f"A picture cannot be written to {path}.", remedy=f"Use one of {', '.join(_SUFFIXES)}.")
    return suffix.removeprefix(".")


def _check_colour(colour: str, found: Embeddings, graph: Graph) -> None:
    possible = {
        "label": has_classes(graph),
        "lambda": found.fusion is not None,
        "channel": found.channels is not None,
        "none": True,
    }
    if colour not in possible:
        raise SettingError(f"colour={colour!r} is not accepted.", remedy=nearest(colour, possible))
    if not possible[colour]:
        missing = {"label": "one class for each node", "lambda": "λ for each node", "channel": "channels"}[colour]
        others = " or ".join(other for other, has in possible.items() if has)
        raise SettingError(f"colour={colour!r} needs {missing}, which is not there.", remedy=f"Use {others}.")


def _scatter_classes(axes: Any, positions: Array, numbers: Array, names: Sequence[str]) -> None:
    """Draw each node in the colour of its number; those below zero are unknown."""
    colours, known = _colours(len(names)), numbers >= 0
    shown: list[str] = []

    def scatter(mine: Array, name: str, colour: Any) -> None:
        if mine.any():
            axes.scatter(*positions[mine].T, s=6, color=colour)
            shown.append(name)

    scatter(~known, "unknown", "lightgrey")
    if len(names) > _MOST_NAMES:
        scatter(known, "", colours[numbers[known]])
        axes.set_xlabel(f"{len(names):,} classes, too many for a legend", fontsize="small")
        return
    for number, name in enumerate(names):
        scatter(numbers == number, name, colours[number])
    if shown:
        # Names are given to the entries afterwards: a label that begins with an underscore is left out by matplotlib.
        entries = map(str, range(len(shown)))
        legend = axes.legend(axes.collections, entries, markerscale=3, fontsize="small", loc="best")
        for text, name in zip(legend.get_texts(), shown, strict=True):
            write_literally(text, name)


def _colours(count: int) -> Array:
    """Return a colour for each class, no two alike: C×4."""
    from matplotlib import colormaps

    if count <= 20:
        return colormaps["tab10" if count <= 10 else "tab20"](np.arange(count))
    return colormaps["turbo"](np.linspace(0, 1, count))
