"""`fossil map`: a picture of a finished run."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    run: Path = typer.Argument(..., metavar="RUN", help="A finished run folder."),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="File to write: .png, .pdf or .svg; by default map.png in the run folder."
    ),
    colour: str | None = typer.Option(
        None,
        "--colour",
        "--color",
        help="What the colour of a node says: label (where there are labels, the default), lambda, channel or none.",
    ),
    force: bool = typer.Option(False, "--force", help="Replace the file."),
) -> None:
    """Draw the nodes of a run on a plane: UMAP where it is installed, else t-SNE, or principal components if many."""
    from fossil.cli.show import plain_console
    from fossil.report.map import check_map, draw_map
    from fossil.runs.run import Run

    opened, path = Run.open(run), out or run / "map.png"
    check_map(path, force=force)
    draw_map(path, opened, colour)
    plain_console().print(f"map → {path}")
