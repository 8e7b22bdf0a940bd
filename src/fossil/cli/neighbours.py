"""`fossil neighbours`: which nodes of a run are nearest to one."""

from __future__ import annotations

from pathlib import Path

import typer

from fossil.cli.show import Form, plain_console, progress_bar, show_table
from fossil.report.tables import Format


def command(
    run: Path = typer.Argument(..., metavar="RUN", help="A finished run folder."),
    ids: list[str] = typer.Argument(..., metavar="ID", help="Ids of nodes; after -- where one begins with a hyphen."),
    k: int = typer.Option(10, "-k", min=1, help="How many neighbours of each."),
    exact: bool | None = typer.Option(
        None,
        "--exact/--no-exact",
        help="Compare with every vector, or use an index, which is built once and kept in the run folder (needs the "
        "extra neighbours); by default exact below 20,000 nodes.",
    ),
    form: Form = Format.TABLE,
) -> None:
    """List the nodes whose vectors are nearest to those of some nodes, by their cosine."""
    import numpy as np

    from fossil.report.neighbours import neighbours_table
    from fossil.runs.run import Run

    found = Run.open(run).embeddings
    rows = np.array([found.row(key) for key in ids])
    with progress_bar("building the index of neighbours") as progress:
        search = found.searches.choose(exact, progress)
    show_table(plain_console(), neighbours_table(found.ids, rows, search.nearest(rows, k)), form)
