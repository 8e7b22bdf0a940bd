"""`fossil report`: a page that shows finished runs."""

from __future__ import annotations

from pathlib import Path

import typer

from fossil.cli import complete


def command(
    runs: list[Path] = typer.Argument(..., metavar="RUN", help="Finished run folders; several stand side by side."),
    out: Path = typer.Option(
        Path("report.html"), "--out", "-o", help="File to write, one page that needs nothing else."
    ),
    protocol: str | None = typer.Option(
        None, autocompletion=complete.protocols, help="What scores follow; as for fossil evaluate."
    ),
    splits: int | None = typer.Option(None, min=1, help="Splits per run; as for fossil evaluate."),
    device: str = typer.Option("auto", help="Where probes are fitted: auto, cpu, cuda or cuda:0."),
    force: bool = typer.Option(False, "--force", help="Replace the file."),
) -> None:
    """Write one page about runs: map, nodes and neighbours, transport plans, training, scores, data, provenance.

    It opens from disk, without a server and without the network.
    """
    from fossil.cli.show import plain_console, progress_bar
    from fossil.report.page import check_report, write_report
    from fossil.runs.run import Run

    opened = [Run.open(run) for run in runs]
    check_report(out, force=force)
    with progress_bar("report") as progress:
        write_report(out, opened, named=protocol, splits=splits, device=device, progress=progress)
    plain_console().print(f"report → {out} ({out.stat().st_size / 1e6:.1f} MB)")
