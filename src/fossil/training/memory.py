"""How much memory a program may still take: on a GPU, on this machine, or in the container it runs in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch


class _Accounts(NamedTuple):
    """Where a version of Linux's control groups keeps its figures."""

    folder: str
    limit: str
    used: str
    reclaimable: str  # what is counted as used and given back as soon as it is needed


_FIRST = _Accounts("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_SECOND = _Accounts("", "memory.max", "memory.current", "inactive_file")


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Return how many bytes more this process can use on the device; None where the system does not say.

    On a CPU it is what the machine has available or what the process's control groups leave, whichever is less. A
    system that does not tell what is available, such as macOS, is taken at its whole memory.

    Args:
        device: CPU or GPU.
        root: where the system's files are found.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    machine = _available(root)
    return min([*_left_in_groups(root), *([] if machine is None else [machine])], default=None)


def _available(root: Path) -> int | None:
    kilobytes = _numbers(root / "proc/meminfo").get("MemAvailable:")
    if kilobytes is not None:
        return 1024 * kilobytes
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yield what each control group around this process leaves of its limit."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        accounts = _FIRST if controllers else _SECOND
        top = root / "sys/fs/cgroup" / accounts.folder
        group = top / own.lstrip("/")
        for folder in (group, *group.parents):
            limit, used = _text(folder / accounts.limit).strip(), _text(folder / accounts.used).strip()
            if limit.isdigit() and used.isdigit():
                kept = _numbers(folder / "memory.stat").get(accounts.reclaimable, 0)
                yield max(0, int(limit) - int(used) + kept)
            if folder == top:
                break


def _numbers(path: Path) -> dict[str, int]:
    """Return the lines `name number ...` of a file by their names."""
    words = [line.split() for line in _text(path).splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) >= 2 and line[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
