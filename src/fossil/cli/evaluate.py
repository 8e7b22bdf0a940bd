"""`fossil evaluate`: honest scores of finished runs."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Run folders; several seeds of the same method and graph share a row."
    ),
    protocol: str | None = typer.Option(
        None,
        help="How splits are drawn, what is fitted and what chooses: paper (default), released, or converged; with "
        "-unit-rows added to one of the first two, each vector is divided by its length first. Runs that were trained "
        "on labels are scored on the splits they were trained on, and so are all others beside them.",
    ),
    splits: int | None = typer.Option(None, min=1, help="Splits per run; 10 for a row of one run, else 1."),
    features: bool = typer.Option(False, "--features", help="Also score the raw input features on the same splits."),
    nodes_per_class: int | None = typer.Option(
        None,
        min=1,
        help="Train on this many nodes of each class, on every graph; under released, it needs more than 1,500 "
        "labelled nodes.",
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0."),
) -> None:
    """Score embeddings by a linear probe, supervised runs by their own class scores; every raw value is kept."""
    from fossil.cli.show import plain_console
    from fossil.evaluation.evaluate import evaluate
    from fossil.evaluation.table import table_of

    console = plain_console()
    rows = evaluate(
        runs, protocol=protocol, splits=splits, features=features, nodes_per_class=nodes_per_class, device=device
    )
    console.print(table_of(rows), soft_wrap=False)
    for text in dict.fromkeys(row.protocol for row in rows):
        console.print(text)
