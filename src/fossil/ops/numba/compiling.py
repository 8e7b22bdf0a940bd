"""How Numba compiles the CPU kernels, and how their machine code is kept for the next process. Needs Numba."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numba import config, njit
from numba.core import event
from numpy.typing import NDArray

from fossil.ops.numba.kept import KeptCode
from fossil.storage import user_cache

Array: TypeAlias = NDArray[np.float32]
_Function = TypeVar("_Function", bound=Callable[..., Any])

# Waiting for the interpreter's lock would leave one thread at work; dividing by zero gives infinity, as in torch.
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def inner(function: _Function) -> _Function:
    """Compile a function that only compiled functions call."""
    compiled: _Function = njit(**_OPTIONS)(function)
    return compiled


def entry(function: _Function) -> _Function:
    """Compile a function that Python calls, and keep the machine code in the user's cache, if that can be written."""
    name, before = function.__qualname__, config.CACHE_DIR
    compiled = inner(function)
    try:
        # A folder the user named goes first. Without any that can be written, Numba would look beside the sources.
        folder = Path(before) if before else user_cache("numba")
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        # Numba compares the age of one file with that of its code. A digest in the name covers all that it calls.
        function.__qualname__ = f"{name}_{_digest()}"
        config.CACHE_DIR = str(folder)
        compiled._cache = KeptCode(function)  # type: ignore[attr-defined]
    except (OSError, RuntimeError):
        function.__qualname__ = name
    finally:
        config.CACHE_DIR = before
    return compiled


def _digest() -> str:
    """Return what tells this folder's sources, and the compiler, from any others."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    parts = [numba.__version__.encode(), *(path.read_bytes() for path in sources)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


class _Announcer(event.Listener):
    """Says once in a process that a kernel of this package is compiled, because that takes a while, and times it.

    Attributes:
        seconds: how long kernels have been compiled in this process.
    """

    def __init__(self) -> None:
        self.said = False
        self.seconds = 0.0
        self._depth, self._since = 0, 0.0  # what a kernel calls is compiled within it

    def on_start(self, event: Any) -> None:
        """Say it. Numba tells of what it compiles, not of what it finds compiled."""
        if self._depth == 0:
            self._since = time.monotonic()
        self._depth += 1
        ours = (event.data["dispatcher"].py_func.__module__ or "").startswith("fossil.")
        if ours and not self.said:
            self.said = True
            logging.getLogger("fossil").warning("compiling the CPU solver: some 10 s, kept for next time")

    def on_end(self, event: Any) -> None:
        """Take the time."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.monotonic() - self._since


announcer = _Announcer()
event.register("numba:compile", announcer)
