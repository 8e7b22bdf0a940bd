"""`fossil`: the command and how it ends."""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

import typer

from fossil import __version__
from fossil.cli import data, doctor, embed, evaluate, methods
from fossil.cli import map as map_
from fossil.errors import FossilError, FossilWarning

app = typer.Typer(
    help="Vectors for the nodes of an attributed graph: FOSSIL, other methods that need no labels, and two references "
    "that do, under one protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("embed")(embed.command)
app.command("evaluate")(evaluate.command)
app.command("map")(map_.command)
app.command("methods")(methods.command)
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fossil-gnn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def run() -> None:
    """Run the command; bad input ends with one message and status 2, never with a traceback."""
    warnings.showwarning = _show_warning
    try:
        app(prog_name="fossil")  # also as `python -m fossil`
    except FossilError as error:
        typer.secho(f"error: {error.what}", fg="red", err=True)
        if error.remedy:
            typer.echo(f"remedy: {error.remedy}", err=True)
        sys.exit(error.exit_status)
    except SystemExit as end:
        if end.code == 130:  # Ctrl-C outside the training loop
            _say_interrupted()
        raise
    except Exception as error:
        if not _comes_from_interrupt(error):
            raise
        _say_interrupted()
        sys.exit(130)


def _say_interrupted() -> None:
    typer.echo("interrupted: what is on disk is whole; a run goes on with --resume", err=True)


def _comes_from_interrupt(error: BaseException) -> bool:
    """Tell whether Ctrl-C is behind an error: Python wraps one that is heard while an import makes a class."""
    cause = error.__cause__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _comes_from_interrupt(cause))


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, FossilWarning):
        text = message.args[0] if isinstance(message, Warning) else message  # with flags; `str` has Python's keywords
        typer.secho(f"warning: {text}", fg="yellow", err=True)
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))
