"""`fossil data`: which graphs there are, and what is in one."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="Named graphs, and what is in a graph.", no_args_is_help=True)


@app.command("list")
def list_graphs() -> None:
    """List the named graphs and whether their files are at hand."""
    from rich.table import Table

    from fossil.cli.terminal import plain_console
    from fossil.graph.catalog import CATALOG
    from fossil.graph.fetch import where

    table = Table("name", "nodes", "edges", "features", "classes", "files", title="Catalogue", title_justify="left")
    for entry in CATALOG.values():
        counts = [f"{count:,}" if count is not None else "chosen" for count in entry.counts]
        place = where(entry.origins) if entry.origins else "built in"
        table.add_row(entry.name, *counts, str(place or "to download"))
    plain_console().print(table, soft_wrap=False)


@app.command("describe")
def describe(
    source: str = typer.Argument(..., metavar="INPUT", help="A catalogue name or a path."),
    edges: Path | None = typer.Option(None, help="Edge table, when INPUT is a node table."),
    label: str | None = typer.Option(None, help="Column of classes."),
    columns: list[str] = typer.Option([], "--column", metavar="NAME=ROLE", help="What a column is; may be repeated."),
    structural_features: bool = typer.Option(False, "--structural-features", help="Make features from the edges."),
) -> None:
    """Show the size of a graph, what is odd about it, and how its columns become features."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    from fossil.cli.embed import reading_options, show_graph
    from fossil.cli.terminal import plain_console
    from fossil.graph.homophily import edge_homophily
    from fossil.graph.source import open_graph

    console = plain_console()
    loaded = open_graph(source, **reading_options(edges, label, columns, structural_features))
    show_graph(console, loaded)
    graph = loaded.graph
    degree = np.diff(graph.adjacency.indptr)
    _, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component)
    stored = graph.features.nnz if graph.has_sparse_features else np.count_nonzero(graph.features)
    lines = {
        "edges": "directed" if graph.is_directed else "undirected",
        "degree": f"median {np.median(degree):g}, mean {degree.mean():.1f}, greatest {degree.max():,}",
        "components": f"{len(sizes):,}, the largest with {sizes.max():,} nodes",
        "features": f"{'sparse' if graph.has_sparse_features else 'dense'}, "
        f"{100 * stored / max(1, graph.num_nodes * graph.num_features):.1f} % not zero",
        "fingerprint": graph.fingerprint,
    }
    if graph.labels is not None and graph.labels.ndim == 1:
        counts = np.bincount(graph.labels[graph.labels >= 0], minlength=graph.num_classes)
        lines["classes"] = (
            f"{graph.num_classes}, the smallest with {counts.min():,} nodes, the largest {counts.max():,}"
        )
        lines["homophily"] = f"{edge_homophily(graph):.3f} of the edges join equal labels"
    for name, text in lines.items():
        console.print(f"  {name:12}{text}")
