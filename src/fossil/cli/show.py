"""What the commands print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from fossil.printable import printable
from fossil.report.tables import Format, Table, as_rich, render

if TYPE_CHECKING:
    from rich.console import Console

    from fossil.readers.read import LoadedGraph
    from fossil.runs.embeddings import FitResult

Form: TypeAlias = Annotated[
    Format,
    typer.Option(
        "--format",
        metavar="FORM",
        help="How tables are printed: table, markdown, latex, csv or json; the last two have every value in full "
        "precision.",
    ),
]


def plain_console() -> Console:
    """Return the console of standard output."""
    from fossil.report.terminal import PlainConsole

    return PlainConsole()


def show_table(console: Console, table: Table, form: Format) -> None:
    """Print a table; beside its notes where people read it, alone where a program does."""
    if form is not Format.TABLE:
        text = render(table, form)
        if form is Format.CSV and console.is_terminal:  # the values as they are, for programs alone
            text = "\n".join(map(printable, text.split("\n")))
        print(text, file=console.file)
        return
    console.print(as_rich(table, console.width), soft_wrap=False)
    for note in table.notes:
        console.print(note)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show on a terminal which share of something is done, and nothing elsewhere; yields what to tell it to."""
    from rich.progress import Progress

    from fossil.report.terminal import PlainConsole

    console = PlainConsole(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def converting_bar() -> Iterator[Callable[[str, float], None]]:
    """Show the stages of a conversion with the time left of each; a line a stage where there is no terminal."""
    from fossil.report.terminal import PlainConsole
    from fossil.training.progress import Stages

    console = PlainConsole(stderr=True)
    stages = Stages(console)

    def progress(stage: str, share: float) -> None:
        if stages(stage, share) and not console.is_terminal:
            console.print(f"converting: {stage}")

    try:
        yield progress
    finally:
        stages.stop()


def show_graph(console: Console, loaded: LoadedGraph) -> None:
    """Print what was read: size, findings, and how columns became features."""
    from fossil.graph.findings import counted

    graph = loaded.graph
    console.print(
        f"{graph.name}: {counted(graph.num_nodes, 'nodes')}, {counted(graph.num_edges, 'directed edges')}, "
        f"{counted(graph.num_features, 'features')}, {graph.num_classes or 'no'} classes",
    )
    for finding in graph.findings:
        console.print(f"  {finding}")
    if loaded.plan is not None and loaded.plan.describe():
        rows = [[*map(str, row)] for row in loaded.plan.describe()]
        show_table(console, Table("Encoding plan", ("column", "role", "encoding", "width"), rows, []), Format.TABLE)


def show_result(console: Console, result: FitResult) -> None:
    """Print what was learnt, and what to do next."""
    from fossil.evaluation.protocol import PROTOCOLS
    from fossil.evaluation.tasks.node_classification import NodeClassification
    from fossil.runs.run import Run
    from fossil.runs.summary import percent, small

    assert result.path is not None
    summary = Run.open(result.path).summary
    console.print(
        f"done in {summary['seconds']:.1f} s: {summary['nodes']:,} vectors of width {summary['width']}, "
        f"effective rank {summary['effective_rank']}",
    )
    if "lambda" in summary:
        fusion, share = summary["lambda"], summary.get("structure_share")
        mean, median, low, high = map(
            small, (fusion["mean"], *(fusion["percentiles"][rank] for rank in ("50", "1", "99")))
        )
        part = "" if share is None else f"; structure makes up {percent(share['mean'])} of a vector on average"
        console.print(
            f"λ (weight of structure per node): mean {mean}, median {median}, "
            f"from {low} to {high} on 98 % of the nodes{part}"
        )
    if "channels" in summary:
        ranked = sorted(summary["channels"].items(), key=lambda item: -item[1]["share"])
        parts = (f"{name} {percent(each['share'])} ({percent(each['first_of'])})" for name, each in ranked)
        console.print(f"channels, share of a vector (of nodes that trust it most): {', '.join(parts)}")
    if NodeClassification(PROTOCOLS["paper"]).can_score(result.graph, result.config.seed):
        console.print(f"next: fossil evaluate {result.path}")
