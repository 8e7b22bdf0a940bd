"""Which version of an operation can run: the backends, imported when first needed, because both are optional."""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache
from types import ModuleType

import torch

_OLDEST_CAPABILITY = (8, 0)  # of a GPU that Triton supports


def triton_runs_on(device: torch.device) -> bool:
    """Tell whether Triton kernels run on a device. Never waits for it.

    Tensors on the CPU are taken where Triton was imported with `TRITON_INTERPRET=1` in the environment, which is slow
    and meant for tests.
    """
    if device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1" and _interprets()
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return _capability(device) >= _OLDEST_CAPABILITY and _is_installed("triton")


def numba_runs_on(device: torch.device) -> bool:
    """Tell whether Numba kernels run on a device."""
    return device.type == "cpu" and _is_installed("numba")


@cache
def triton(operation: str) -> ModuleType:
    """Return the Triton version of an operation: `fossil.ops.triton.<operation>`."""
    return importlib.import_module(f"fossil.ops.triton.{operation}")


@cache
def numba(operation: str) -> ModuleType:
    """Return the Numba version of an operation: `fossil.ops.numba.<operation>`."""
    return importlib.import_module(f"fossil.ops.numba.{operation}")


def seconds_compiling() -> float:
    """Return how long CPU kernels have been compiled in this process: time that later work does not take again."""
    compiling = sys.modules.get("fossil.ops.numba.compiling")
    return float(compiling.announcer.seconds) if compiling else 0.0


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _is_installed(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


@cache
def _interprets() -> bool:
    """Tell whether Triton was imported to be interpreted: its own functions are then not compiled either."""
    if not _is_installed("triton"):
        return False
    module = importlib.import_module("triton")
    return not isinstance(importlib.import_module("triton.language").sum, module.JITFunction)
