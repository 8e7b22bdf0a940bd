"""One process at a time writes into a folder.

The lock is an advisory one of the operating system on a file, `run.lock` in the folder of a run, so that it is gone as
soon as its process is, however that ended. The file says who holds it. On Linux and macOS it is `flock`, on Windows a
locked byte behind the end of the file. A file system that has no locks is warned of, and written to without one.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fossil.errors import RunError, warn_the_caller

LOCK = "run.lock"

_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
_HIDDEN = 2**30  # the byte that Windows locks: far from what others read


class HeldError(RunError):
    """Another process, or another thread of this one, holds the lock."""


def locked(folder: Path) -> AbstractContextManager[None]:
    """Keep every other process that asks for this lock out of `folder`, which is made where it does not exist.

    Raises:
        RunError: another process, or another thread of this one, is writing there; or the folder cannot be written to.

    Warns:
        FossilWarning: the file system has no locks.
    """
    return holding(folder / LOCK)


@contextmanager
def holding(path: Path, what: str = "") -> Iterator[None]:
    """Hold the lock on the file `path`, which is made and removed; who asks is told `what` is done under it.

    Raises:
        HeldError: somebody else holds it.
        RunError: the file cannot be written.
    """
    descriptor = _acquire(path, what)
    try:
        yield
    finally:
        # Removed while it is held: who opened it meanwhile sees, once it has the lock, that the file is gone.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, what: str) -> int:
    """Return an open file of this process that holds the lock."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(path, flags, 0o666)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise RunError(
                f"Could not write {path}: {reason}.", remedy="Choose a folder that can be written to."
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RunError(f"{path} is no plain file.", remedy="Remove it: it is not of a run.")
            _lock(descriptor, path)
            if _is_still(path, descriptor):
                _sign(descriptor, what)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has removed it between our opening and locking it


def _lock(descriptor: int, path: Path) -> None:
    try:
        _ask(descriptor)
    except OSError as error:
        if error.errno in _BUSY:
            raise HeldError(
                f"{path.parent} is being written to by {_holder(path)}.",
                remedy="Wait for it to end, or choose another --out; nothing was touched.",
            ) from error
        warn_the_caller(
            f"The file system of {path.parent} has no locks ({error.strerror}): see to it yourself that no other "
            "process writes there."
        )


if sys.platform == "win32":
    import msvcrt

    def _ask(descriptor: int) -> None:
        os.lseek(descriptor, _HIDDEN, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

    def _is_still(path: Path, descriptor: int) -> bool:
        return True  # an open file cannot be removed
else:
    import fcntl

    def _ask(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _is_still(path: Path, descriptor: int) -> bool:
        """Tell whether the file under this name is the one that was locked."""
        try:
            return os.path.samestat(path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False


def _sign(descriptor: int, what: str) -> None:
    """Write down who holds the lock; a full disk is found out by the files that matter."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    signature = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "what": what}
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(signature).encode())


def signature_of(path: Path) -> dict[str, Any]:
    """Return what the holder of a lock wrote down: `pid`, `host`, `since` and `what`; nothing where it has not yet."""
    try:
        known = json.loads(path.read_bytes())
        return {"pid": int(known["pid"]), **{name: str(known[name]) for name in ("host", "since", "what")}}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _holder(path: Path) -> str:
    """Return who holds the lock, in words."""
    known = signature_of(path)
    return f"process {known['pid']} on {known['host']}, since {known['since']}" if known else "another process"
