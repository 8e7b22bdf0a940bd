"""`fossil evaluate`: honest scores of finished runs, and of vectors from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fossil.cli import complete
from fossil.cli.reading import Reading, given, reads_a_graph
from fossil.cli.show import Form, plain_console, progress_bar, show_table
from fossil.errors import SettingError
from fossil.report.tables import Format

if TYPE_CHECKING:
    from fossil.evaluation.vectors import OutsideVectors

_OUTSIDE = "Vectors from elsewhere"


@reads_a_graph
def command(
    context: typer.Context,
    runs: list[Path] | None = typer.Argument(
        None, metavar="RUN", help="Run folders; several seeds of the same method and graph share a row."
    ),
    protocol: str | None = typer.Option(
        None,
        autocompletion=complete.protocols,
        help="How splits are drawn, what is fitted and what chooses: paper (default), released, or converged; with "
        "-unit-rows added to one of the first two, each vector is divided by its length first; public or geom_gcn for "
        "splits that were published with the graph. Runs that were trained on labels are scored on the splits they "
        "were trained on, and so are all others beside them.",
    ),
    splits: int | None = typer.Option(
        None, min=1, help="Splits per run; 10 for a row of one run, else 1. Of published splits, none counts twice."
    ),
    features: bool | None = typer.Option(
        None,
        "--features/--no-features",
        help="Also score features and propagated features, for which nothing is trained, on the same splits; by "
        "default where there is more than one row to compare.",
    ),
    nodes_per_class: int | None = typer.Option(
        None,
        min=1,
        help="Train on this many nodes of each class, on every graph; under released, it needs more than 1,500 "
        "labelled nodes.",
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0."),
    form: Form = Format.TABLE,
    vectors: list[Path] = typer.Option(
        [],
        "--vectors",
        metavar="FILE",
        help="Vectors to score against the labels of --graph: .npz (ids, vectors), .npy (rows in the order of the "
        "graph), or a table of ids and numbers (.csv, .tsv, .parquet); may be repeated.",
        rich_help_panel=_OUTSIDE,
    ),
    graph: str | None = typer.Option(
        None,
        metavar="INPUT",
        help="The graph they belong to: a catalogue name or a path, such as RUN/graph.npz.",
        rich_help_panel=_OUTSIDE,
    ),
    *,
    reading: Reading,
) -> None:
    """Score embeddings by a linear probe, supervised runs by their own class scores; every raw value is kept."""
    from fossil.evaluation.evaluate import evaluate
    from fossil.report.scores import scores_table

    outside = _outside(vectors, graph, reading, given(context))
    if not runs and not outside:
        raise SettingError(
            "There is nothing to score.", remedy="Name run folders, or --vectors FILE with --graph INPUT."
        )
    with progress_bar("scoring") as progress:
        rows = evaluate(
            [*(runs or []), *outside],
            protocol=protocol,
            splits=splits,
            features=features,
            nodes_per_class=nodes_per_class,
            device=device,
            progress=progress,
        )
    show_table(plain_console(), scores_table(rows), form)


def _outside(files: list[Path], source: str | None, reading: Reading, said: list[str]) -> list[OutsideVectors]:
    """Read the files and the graph they belong to; `said` are the options that say how."""
    if not files:
        idle = [*(["--graph"] if source else []), *said]
        if idle:
            raise SettingError(f"{idle[0]} has no effect without --vectors.", remedy="A run folder has its own graph.")
        return []
    if source is None:
        raise SettingError(
            f"{files[0]} holds vectors and no labels.", remedy="Name the graph they belong to with --graph INPUT."
        )
    from fossil.evaluation.vectors import read_vectors
    from fossil.readers.source import open_graph

    graph = open_graph(source, **reading.options()).graph
    return [read_vectors(file, graph) for file in files]
