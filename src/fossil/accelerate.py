"""Whether GPU kernels written in Triton can be used, and how they are imported: late, because Triton is optional."""

from __future__ import annotations

import importlib
import os
from functools import cache
from types import ModuleType

import torch

_OLDEST_CAPABILITY = (8, 0)  # what Triton supports


def serves(device: torch.device) -> bool:
    """Tell whether the kernels run on a device. Never waits for it.

    Tensors on the CPU are taken where Triton was imported with `TRITON_INTERPRET=1` in the environment, which is slow
    and meant for tests.
    """
    if device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1" and _interprets()
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    return _capability(device) >= _OLDEST_CAPABILITY and _has_triton()


@cache
def kernels(module: str) -> ModuleType:
    """Return a module of kernels by its full name."""
    return importlib.import_module(module)


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


@cache
def _has_triton() -> bool:
    try:
        importlib.import_module("triton")
    except ImportError:
        return False
    return True


@cache
def _interprets() -> bool:
    """Tell whether Triton was imported to be interpreted: its own functions are then not compiled either."""
    if not _has_triton():
        return False
    triton = importlib.import_module("triton")
    return not isinstance(importlib.import_module("triton.language").sum, triton.JITFunction)
