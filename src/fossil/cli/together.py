"""Processes that `torchrun` started: one of them speaks, and all end with one status."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, NoReturn, ParamSpec, cast

import typer

from fossil.cli.ending import status_of
from fossil.errors import SettingError

if TYPE_CHECKING:
    from fossil.ops.ranks import Ranks

Parameters = ParamSpec("Parameters")


def together(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Let a command be run by all processes that were started together, or by the only one.

    The command has a `context`, whose `obj` is then the `Ranks`, and a `device`. Whichever process fails first says
    why, and the others end silently with its status. All else is said by the process that leads.
    """

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        from fossil.training.distributed import process_group

        context, device = cast(typer.Context, options["context"]), cast(str, options["device"])
        with process_group() as processes:
            if processes.here.rank > 0:
                warnings.simplefilter("ignore")
                logging.getLogger("fossil").handlers.clear()
            try:
                context.obj = processes.join(device)
                command(*arguments, **options)
            except BaseException as error:
                status = processes.claim_failure(status_of(error))
                if status is None:
                    raise
                raise SystemExit(status) from error

    return run


def exit_process(end: SystemExit) -> NoReturn:
    """End this process as `end` says; one of several has its own way."""
    known = sys.modules.get("fossil.training.distributed")
    if known is not None and known.ProcessGroup.was_joined:
        known.exit_process(end.code if isinstance(end.code, int) else int(end.code is not None))
    raise end


def follows() -> bool:
    """Tell whether another of the processes that were started together says what is wrong with the command line."""
    if "RANK" not in os.environ:  # and PyTorch is not needed to know
        return False
    from fossil.training.distributed import launched

    with suppress(SettingError):
        return launched().rank > 0
    return False


def refuse_ranks(ranks: Ranks, option: str) -> None:
    """Raise SettingError where several processes were started for what one does."""
    if ranks.world_size > 1:
        raise SettingError(
            f"{option} is for one process, and {ranks.world_size} were started.", remedy="Start it without torchrun."
        )
