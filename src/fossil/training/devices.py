"""Devices by name, and what a reader needs to know about the machine that a result was made on."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

import torch

from fossil.errors import SettingError

_PACKAGES = ("fossil-gnn", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "pydantic", "safetensors")


def resolve_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is the GPU if there is one.

    Raises:
        SettingError: there is no such device on this machine.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(f"device={name!r} is no device.", remedy="Use auto, cpu, cuda or cuda:0.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"device={name!r} is not supported.", remedy="Use auto, cpu, cuda or cuda:0.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(f"device={name!r} was asked for, but no GPU is usable here.", remedy="Use --device cpu.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(
            f"device={name!r} was asked for, but this machine has {torch.cuda.device_count()} GPU(s).",
            remedy="Use cuda:0.",
        )
    return device


def describe_device(device: torch.device) -> str:
    """Return the device in words."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def environment(device: torch.device, processes: int = 1) -> dict[str, Any]:
    """Return what a reader needs to know about the machine and the versions a result was made with."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "versions": {package: version_of(package) for package in _PACKAGES},
    }


def version_of(package: str) -> str:
    """Return the installed version of a package, or that it is not installed as one."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed as a package"
