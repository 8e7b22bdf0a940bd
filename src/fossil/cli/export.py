"""`fossil export`: the vectors of a run in the form that another program reads."""

from __future__ import annotations

from pathlib import Path

import typer

from fossil.cli import complete


def command(
    run: Path = typer.Argument(..., metavar="RUN", help="A finished run folder."),
    to: str = typer.Option(
        ...,
        "--to",
        autocompletion=complete.exports,
        help="parquet, csv, word2vec, anndata, numpy or tensorboard (its projector).",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="File to write, a folder for tensorboard; by default beside RUN, under its name."
    ),
    force: bool = typer.Option(False, "--force", help="Replace what was exported there before."),
) -> None:
    """Write the vectors of a run, with classes and edges where there is room for them, for another program."""
    from fossil.cli.show import plain_console
    from fossil.runs.run import Run

    plain_console().print(f"{to} → {Run.open(run).export(to, out, force=force)}")
