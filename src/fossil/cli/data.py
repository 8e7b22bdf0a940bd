"""`fossil data`: which graphs there are, in which formats others come, and what is in one."""

from __future__ import annotations

from pathlib import Path

import typer

from fossil.cli import complete

app = typer.Typer(help="Named graphs, formats, and what is in a graph.", no_args_is_help=True)


@app.command("list")
def list_graphs() -> None:
    """List the named graphs and whether their files are at hand."""
    from rich.table import Table

    from fossil.cli.show import plain_console
    from fossil.datasets.catalog import CATALOG
    from fossil.datasets.fetch import where

    table = Table("name", "nodes", "edges", "features", "classes", "files", title="Catalogue", title_justify="left")
    for entry in CATALOG.values():
        counts = [f"{count:,}" if count is not None else "chosen" for count in entry.counts]
        place = where(entry.origins) if entry.origins else "built in"
        table.add_row(entry.name, *counts, str(place or "to download"))
    plain_console().print(table, soft_wrap=False)


@app.command("formats")
def list_formats() -> None:
    """List the forms in which a graph of one's own can come."""
    from rich.table import Table

    from fossil.cli.show import plain_console
    from fossil.readers.registry import readers

    table = Table("reader", "takes", "suffixes", "columns", title="Formats", title_justify="left")
    for name, reader in sorted(readers().items()):
        table.add_row(name, reader.form, ", ".join(reader.suffixes), "yes" if reader.has_columns else "no")
    plain_console().print(table, soft_wrap=False)


@app.command("describe")
def describe(
    source: str = typer.Argument(
        ..., metavar="INPUT", autocompletion=complete.graphs, help="A catalogue name or a path."
    ),
    edges: Path | None = typer.Option(None, help="Edge table, when INPUT is a node table."),
    label: str | None = typer.Option(None, help="Column of classes."),
    columns: list[str] = typer.Option([], "--column", metavar="NAME=ROLE", help="What a column is; may be repeated."),
    structural_features: bool = typer.Option(False, "--structural-features", help="Make features from the edges."),
) -> None:
    """Show the size of a graph, what is odd about it, and how its columns become features."""
    from fossil.cli.embed import parse_roles
    from fossil.cli.show import plain_console, show_graph
    from fossil.graph.describe import describe_graph
    from fossil.readers.source import open_graph

    console = plain_console()
    loaded = open_graph(
        source, edges=edges, label=label, roles=parse_roles(columns), structural_features=structural_features
    )
    show_graph(console, loaded)
    for topic, text in describe_graph(loaded.graph).items():
        console.print(f"  {topic:12}{text}")
