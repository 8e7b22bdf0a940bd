"""Write vectors in the form that another program reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fossil.errors import RunError, SettingError
from fossil.graph.graph import Graph
from fossil.runs.embeddings import Embeddings
from fossil.runs.exports.base import Exporter, Subject
from fossil.runs.exports.registry import get_exporter
from fossil.storage import reading, taking_name


def export(
    found: Embeddings,
    to: str,
    out: Path | None = None,
    *,
    graph: Graph | None = None,
    run: Path | None = None,
    force: bool = False,
) -> Path:
    """Write vectors in another form, whole or not at all; return where.

    Args:
        found: vectors.
        to: name of the form, such as `csv`.
        out: file or folder to write; beside the run folder and under its name when None.
        graph: what the nodes belong to, of which classes, features and edges are taken.
        run: the run folder, if there is one.
        force: replace what was exported there before.

    Raises:
        SettingError: there is no such form, its package is missing, or nobody said where to write.
        RunError: something stands there already, or it cannot be written.
    """
    kind = get_exporter(to)
    if out is None:
        if run is None:
            raise SettingError(
                "These vectors have no run folder to be written beside.", remedy="Name a file with --out."
            )
        folder = run.resolve() if run.name in ("", "..") else run  # "." has no name of its own
        out = folder.with_name(folder.name + kind.suffix)
    check_free(kind, out, force=force)
    subject = Subject(
        found, None if graph is None else _among(found, graph), "vectors" if graph is None else graph.name
    )
    _check_text(subject)
    with taking_name(out) as path:
        kind.write(subject, path, out.suffix.lower())
    return out


def check_free(kind: type[Exporter], path: Path, *, force: bool) -> None:
    """Raise RunError where something stands at `path` that may not be replaced."""
    with reading(path):
        if not (path.exists() or path.is_symlink()):
            return
        if not (kind.wrote(path) if kind.is_folder else path.is_file()):
            raise RunError(f"{path} holds something else.", remedy="Choose another --out; nothing was touched.")
    if not force:
        raise RunError(f"{path} already exists.", remedy="Replace it with --force, or choose another --out.")


def _among(found: Embeddings, graph: Graph) -> Graph:
    """Return the graph of the nodes that have vectors, in their order, with the edges among them."""
    rows = graph.rows(found.ids.tolist())
    if len(rows) == graph.num_nodes and (rows[1:] > rows[:-1]).all():
        return graph
    labels = None if graph.labels is None else graph.labels[rows]
    return replace(
        graph, adjacency=graph.adjacency[rows][:, rows], features=graph.features[rows], ids=graph.ids[rows],
        labels=labels, published_splits={},
    )  # fmt: skip


def _check_text(subject: Subject) -> None:
    """Raise RunError for a text that holds half a character, which no file in UTF-8 can."""
    for text in subject.texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RunError(
                f"{text!r} cannot be written in UTF-8: it holds half a character.", remedy="Rename it and train anew."
            ) from error
