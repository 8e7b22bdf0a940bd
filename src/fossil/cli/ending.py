"""How the command ends: what it says last, and with which status."""

from __future__ import annotations

import errno
import os
import platform
import re
import shlex
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from enum import IntEnum
from importlib import metadata

from fossil.errors import FossilError
from fossil.printable import printable


class Status(IntEnum):
    """The exit statuses of the command; docs/guides/what-can-go-wrong.md says the same in words."""

    DONE = 0
    UNHEARD = 1
    """The reader of its output went away, as in `fossil methods | head -1`."""
    REFUSED = 2
    """Something is wrong with the input, the settings, the disk or the memory; the message says what to do."""
    FAULT = 70
    """A fault of this package; the number is EX_SOFTWARE of sysexits.h."""
    HUNG_UP = 129
    """SIGHUP, as shells count it: 128 and the number of the signal."""
    INTERRUPTED = 130
    """Ctrl-C, likewise."""
    TERMINATED = 143
    """SIGTERM, likewise."""


_PATH = "Check the path, or choose another one."
_ROOM = "Make room there, or choose another folder."
# What the operating system refuses for reasons that lie outside this package, and what there is to do.
_REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EACCES: "Change its permissions, or choose another path.",
    errno.EPERM: "Change its permissions, or choose another path.",
    errno.EROFS: "Choose a folder that can be written.",
    errno.ENAMETOOLONG: "Choose a shorter path.",
    errno.ENOTDIR: _PATH,
    errno.EISDIR: _PATH,
    errno.ELOOP: _PATH,
    errno.ENOENT: _PATH,
    errno.EMFILE: "Raise the number of files that may be open (ulimit -n).",
    errno.ENFILE: "Close other programs: this machine has no room for further open files.",
    errno.EIO: "Check the disk.",
    errno.ESTALE: "Check the disk.",
}


def explained(error: BaseException) -> FossilError | None:
    """Return what to tell the user where the cause lies outside this package, and None where it does not."""
    if isinstance(error, FossilError):
        return error
    if _lacks_memory(error):
        said = str(error).partition("\n")[0]
        return FossilError(
            f"There is not enough memory{f' ({said})' if said else ''}.",
            remedy="Use a smaller graph or smaller settings (width, num_anchors, subgraph_size), "
            "or a machine with more memory.",
        )
    if isinstance(error, OSError) and error.errno in _REMEDIES:
        where = "" if error.filename is None else f" {os.fsdecode(error.filename)}"
        return FossilError(f"Could not read or write{where}: {error.strerror}.", remedy=_REMEDIES[error.errno])
    return None


def _lacks_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    if "torch" not in sys.modules:  # who has not loaded it has filled no memory with it
        return False
    from fossil.training.capabilities import is_out_of_memory

    return isinstance(error, Exception) and is_out_of_memory(error)


def say(kind: str, text: str, colour: str | None = None) -> None:
    """Print one message to standard error; only lines that are indented are lines of their own."""
    from fossil.report.terminal import PlainConsole

    console = PlainConsole(stderr=True)
    for line in re.split(r"\n(?=  )", f"{kind}: {text}"):
        console.print(line, style=colour, soft_wrap=True)


def refuse(error: FossilError) -> int:
    """Say what is wrong and what to do about it."""
    say("error", error.what, "red")
    if error.remedy:
        say("remedy", error.remedy)
    return error.exit_status


def status_of(error: BaseException) -> int:
    """Return the status with which an error ends the command."""
    told = explained(error)
    return Status.FAULT if told is None else told.exit_status


def own_up(error: BaseException) -> int:
    """Say that this package is at fault, and keep what mends it."""
    what = " ".join("".join(traceback.format_exception_only(error)).split())
    say("error", f"this is a fault of fossil-gnn: {what}", "red")
    try:
        descriptor, path = tempfile.mkstemp(prefix="fossil-fault-", suffix=".txt")  # new, and for its owner alone
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write("\n".join(map(printable, _details(error).splitlines())) + "\n")
    except OSError as refused:
        say("details", f"could not be written ({refused.strerror}); run it again with TMPDIR set to another folder")
    else:
        say("details", path)
    say(
        "remedy", "Report it where you have fossil-gnn from, with that file: read it first, it holds your command line."
    )
    return Status.FAULT


def _details(error: BaseException) -> str:
    """Return what is needed to find a fault: when, which command, which versions, and where in the code."""
    packages = sorted({(found.metadata["Name"] or "?", found.version) for found in metadata.distributions()})
    return "\n".join(
        [
            f"time: {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            f"command: {shlex.join(['fossil', *sys.argv[1:]])}",
            f"python: {sys.version.split()[0]} on {platform.platform()}",
            f"packages: {', '.join(f'{name} {version}' for name, version in packages)}",
            "",
            *traceback.format_exception(error),
        ]
    )
