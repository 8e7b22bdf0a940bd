"""How Numba compiles the CPU kernels, and how their machine code is kept for the next process. Needs Numba."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float32]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_SOURCES = ("_compiled", "_lanes", "_dense", "_bapg_cpu", "_envelope_cpu")
# Waiting for the interpreter's lock would leave one thread at work; dividing by zero gives infinity, as in torch.
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def inner(function: _Function) -> _Function:
    """Compile a function that only compiled functions call."""
    compiled: _Function = njit(**_OPTIONS)(function)
    return compiled


def entry(function: _Function) -> _Function:
    """Compile a function that Python calls, and keep the machine code where a folder can be written."""
    name = function.__qualname__
    try:
        # Numba compares the age of one file with that of its code. A digest in the name covers all that it calls.
        function.__qualname__ = f"{name}_{_digest()}"
        compiled: _Function = njit(cache=True, **_OPTIONS)(function)
    except (OSError, RuntimeError):
        function.__qualname__ = name
        compiled = inner(function)
    return compiled


def _digest() -> str:
    folder = Path(__file__).parent
    return hashlib.sha256(b"".join((folder / f"{name}.py").read_bytes() for name in _SOURCES)).hexdigest()[:16]
