"""`fossil data`: which graphs there are, in which formats others come, and what is in one."""

from __future__ import annotations

import typer

from fossil.cli import complete, reading

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
    edges: reading.Edges = None,
    label: reading.Label = None,
    columns: reading.Columns = [],  # noqa: B006
    structural_features: reading.StructuralFeatures = False,
    missing: reading.Missing = "refuse",
    missing_indicator: reading.MissingIndicator = False,
    direction: reading.Direction = "keep",
    unknown_edges: reading.UnknownEdges = "refuse",
    edge_weights: reading.EdgeWeights = "refuse",
    self_loops: reading.SelfLoops = "remove",
    duplicates: reading.Duplicates = "merge",
    isolated: reading.Isolated = "keep",
    zero_features: reading.ZeroFeatures = "keep",
) -> None:
    """Show the size of a graph, what is odd about it, and how its columns become features."""
    from fossil.cli.show import plain_console, show_graph
    from fossil.graph.describe import describe_graph
    from fossil.graph.findings import Treatment
    from fossil.readers.source import open_graph

    console = plain_console()
    loaded = open_graph(
        source,
        treatment=Treatment.build(
            {
                "missing": missing,
                "missing_indicator": missing_indicator,
                "direction": direction,
                "unknown_edges": unknown_edges,
                "edge_weights": edge_weights,
                "self_loops": self_loops,
                "duplicates": duplicates,
                "isolated": isolated,
                "zero_features": zero_features,
            }
        ),
        edges=edges,
        label=label,
        roles=reading.parse_roles(columns),
        structural_features=structural_features,
    )
    show_graph(console, loaded)
    for topic, text in describe_graph(loaded.graph).items():
        console.print(f"  {topic:12}{text}")
