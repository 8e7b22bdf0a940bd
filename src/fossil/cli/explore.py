"""`fossil explore`: the page of a run, large ones too, from a server on this machine."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    run: Path = typer.Argument(..., metavar="RUN", help="A finished run folder."),
    port: int = typer.Option(0, min=0, max=65535, help="Port of 127.0.0.1 to listen on; by default a free one."),
    exact: bool | None = typer.Option(
        None,
        "--exact/--no-exact",
        help="Compare with every vector, or use an index, which is built once and kept in the run folder (needs the "
        "extra neighbours); by default exact below 20,000 nodes.",
    ),
) -> None:
    """Serve the page of a run to a browser on this machine, until Ctrl-C.

    Unlike a report it holds every node, and finds neighbours and transport plans when they are asked for.
    """
    from fossil.cli.show import plain_console, progress_bar
    from fossil.explorer.explored import ExploredRun
    from fossil.explorer.routes import routes_of
    from fossil.explorer.serving import Server
    from fossil.runs.run import Run

    opened, console = Run.open(run), plain_console()
    with Server(port) as server:
        with progress_bar("preparing") as progress:
            routes = routes_of(ExploredRun(opened, exact=exact, progress=progress))
        del opened  # and with it the features
        try:
            console.print(server.address)
            console.print("Open this address in a browser on this machine; Ctrl-C ends it.")
            server.serve(routes)
        except KeyboardInterrupt:
            console.print("stopped")
