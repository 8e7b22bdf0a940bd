"""`fossil`: the command and how it ends."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings
from typing import TextIO

import typer

from fossil import __version__
from fossil.cli import data, doctor, embed, evaluate, explore, export, methods, neighbours, report, search, study
from fossil.cli import map as map_
from fossil.cli.ending import Status, explained, own_up, refuse, say
from fossil.cli.together import exit_process, follows
from fossil.errors import FossilError, FossilWarning
from fossil.printable import DEGRADE
from fossil.runs.interrupts import Interrupts, hearing_interrupts

app = typer.Typer(
    help="Vectors for the nodes of an attributed graph: FOSSIL, other methods that need no labels, and two references "
    "that are trained on labels, under one protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("embed")(embed.command)
app.command("evaluate")(evaluate.command)
app.command("search")(search.command)
app.command("map")(map_.command)
app.command("report")(report.command)
app.command("explore")(explore.command)
app.command("neighbours")(neighbours.command)
app.command("export")(export.command)
app.command("methods")(methods.command)
app.add_typer(data.app, name="data")
app.add_typer(study.app, name="study")
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
    """Run the command; it ends with one message and a status of `Status`, never with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a sign that the terminal has not is spelt with others
            stream.reconfigure(errors=DEGRADE)
    warnings.showwarning = _show_warning
    logging.getLogger("fossil").handlers = [_Messages()]
    interrupts = Interrupts(break_off=True)
    with hearing_interrupts(interrupts, ctrl_c=False):
        try:
            status = app(prog_name="fossil", standalone_mode=False) or Status.DONE  # also as `python -m fossil`
            if status == Status.INTERRUPTED:  # Typer catches Ctrl-C, and says no more
                raise KeyboardInterrupt
            if sys.stdout is not None:  # which is so where it was closed
                sys.stdout.flush()
        except SystemExit as end:  # what was to be said is said
            exit_process(end)
        except BrokenPipeError:
            status = Status.UNHEARD
        except BaseException as error:
            interrupts.break_off = False  # a signal does not cut short what is said now
            status = _end(error)
    _let_go_of_output()
    if status == Status.INTERRUPTED:  # by Ctrl-C, or by a signal that means the same
        status = interrupts.exit_status
    exit_process(SystemExit(status))


def _let_go_of_output() -> None:
    """Write what is left of the output; where nobody takes it, Python must not try once more when it ends."""
    try:
        if sys.stdout is not None:  # which is so where it was closed
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(error: BaseException) -> int:
    """Say what ended the command; return its status."""
    if _comes_from_interrupt(error):
        say("interrupted", "what is on disk is whole; the same command goes on, for a run with --resume")
        return Status.INTERRUPTED
    if isinstance(error, typer.Abort) and error.__cause__ is not None:  # Typer's name for the end of a file
        error = error.__cause__
    if hasattr(error, "format_message"):  # Typer does not like the line; its exceptions have no public name
        if type(error).__name__ != "NoArgsIsHelpError" and not follows():  # which has shown the help
            path = getattr(getattr(error, "ctx", None), "command_path", "fossil")
            refuse(FossilError(str(error.format_message()), remedy=f"See what is accepted with: {path} --help"))
        return Status.REFUSED
    told = explained(error)
    return own_up(error) if told is None else refuse(told)


def _comes_from_interrupt(error: BaseException) -> bool:
    """Tell whether Ctrl-C is behind an error: Python wraps one that is heard while an import makes a class."""
    if isinstance(error, FossilError):  # which says itself what happened
        return False
    cause = error.__cause__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and _comes_from_interrupt(cause))


class _Messages(logging.Handler):
    """Prints what the package logs, which is little."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message without the name of its logger."""
        say("note", record.getMessage())


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
        say("warning", str(text), "yellow")
    else:
        say("warning", f"{category.__name__} at {filename}:{lineno}: {message}", "yellow")
