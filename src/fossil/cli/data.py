"""`fossil data`: which graphs there are, in which formats others come, and what is in one."""

from __future__ import annotations

from pathlib import Path

import typer

from fossil.cli import complete
from fossil.cli.reading import Reading, reads_a_graph
from fossil.cli.show import Form, converting_bar, plain_console, show_graph, show_table
from fossil.report.tables import Format, Table, Value

app = typer.Typer(help="Named graphs, formats, and what is in a graph.", no_args_is_help=True)


@app.command("list")
def list_graphs(form: Form = Format.TABLE) -> None:
    """List the named graphs and whether their files are at hand."""
    from fossil.datasets.catalog import CATALOG
    from fossil.datasets.fetch import is_address, where

    rows: list[list[str]] = []
    records: list[dict[str, Value]] = []
    folders: dict[str, None] = {}  # in their order, each once
    for entry in CATALOG.values():
        missing = "to download" if all(map(is_address, entry.origins.values())) else "to bring"
        folder = where(entry.origins) if entry.origins else None
        state = "at hand" if folder else missing if entry.origins else "built in"
        rows.append([entry.name, *(f"{n:,}" if n is not None else "chosen" for n in entry.counts), state])
        records.append({"name": entry.name, **entry.counts._asdict(), "files": str(folder or state)})
        folders |= {str(folder): None} if folder else {}
    header = ("name", "nodes", "edges", "features", "classes", "files")
    notes = [f"at hand: under {' and '.join(folders)}"] if folders else []
    show_table(plain_console(), Table("Catalogue", header, rows, records, notes), form)


@app.command("formats")
def list_formats(form: Form = Format.TABLE) -> None:
    """List the forms in which a graph of one's own can come."""
    from fossil.readers.registry import readers

    rows: list[list[str]] = []
    records: list[dict[str, Value]] = []
    for name, reader in sorted(readers().items()):
        rows.append([name, reader.form, ", ".join(reader.suffixes), "yes" if reader.has_columns else "no"])
        suffixes, has_columns = list(reader.suffixes), reader.has_columns
        records.append({"reader": name, "takes": reader.form, "suffixes": suffixes, "columns": has_columns})
    header = ("reader", "takes", "suffixes", "columns")
    show_table(plain_console(), Table("Formats", header, rows, records), form)


@app.command("describe")
@reads_a_graph
def describe(
    source: str = typer.Argument(
        ..., metavar="INPUT", autocompletion=complete.graphs, help="A catalogue name or a path."
    ),
    *,
    reading: Reading,
) -> None:
    """Show the size of a graph, what is odd about it, what it gives away, and how its columns become features."""
    from fossil.evaluation.audit import describe_audit
    from fossil.graph.describe import describe_graph
    from fossil.readers.source import open_graph

    console = plain_console()
    loaded = open_graph(source, **reading.options())
    show_graph(console, loaded)
    for topic, text in (describe_graph(loaded.graph) | describe_audit(loaded.graph)).items():
        console.print(f"  {topic:12}{text}")


@app.command("convert")
@reads_a_graph
def convert(
    source: Path = typer.Argument(
        ...,
        metavar="INPUT",
        help="A folder with nodes and edges, as files or as folders of part files; or a table.",
    ),
    out: Path = typer.Option(..., "--out", help="Folder to write; a conversion that was stopped goes on there."),
    feature_type: str = typer.Option("float32", "--feature-type", help="How features are stored: float32 or float16."),
    memory: str | None = typer.Option(
        None, "--memory", help="How much to use, such as 8GB; else half of what is free."
    ),
    force: bool = typer.Option(
        False, "--force", help="Replace what stands in the folder, once the new graph is whole."
    ),
    *,
    reading: Reading,
) -> None:
    """Turn tables larger than memory into a folder of arrays, which every command takes as a graph."""
    from fossil.readers.disk import read_encoding
    from fossil.readers.read import LoadedGraph
    from fossil.runs.conversion import convert as convert_tables

    with converting_bar() as progress:
        graph = convert_tables(
            source,
            out,
            feature_type=feature_type,
            memory=memory,
            force=force,
            progress=progress,
            **reading.options(),
        )
    show_graph(plain_console(), LoadedGraph(graph, read_encoding(out)))
