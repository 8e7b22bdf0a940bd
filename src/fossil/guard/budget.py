"""How much memory reading a file may take, known before it is taken.

A file of a few kilobytes can ask for terabytes: by a shape, by a compression of a thousand to one, by a repeated
reference. What a file may take is bounded by its size and by what is free; a user who knows better says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fossil.errors import FossilError, GraphError

SMALL = 2**30
"""What any file may take in memory, in bytes, however small it is."""
MOST_TIMES = 200
"""How many times its size on disk a larger file may take."""
VARIABLE = "FOSSIL_READ_MEMORY"
"""The environment variable that replaces both limits, such as `8GB`."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class _Accounts(NamedTuple):
    """Where a version of Linux's control groups keeps its figures."""

    folder: str
    limit: str
    used: str
    reclaimable: str  # what is counted as used and given back as soon as it is needed


_FIRST = _Accounts("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_SECOND = _Accounts("", "memory.max", "memory.current", "inactive_file")


def check_need(path: Path, need: int, why: str = "", kind: type[FossilError] = GraphError) -> None:
    """Refuse a file before it takes its memory.

    Args:
        path: the file.
        need: bytes that reading it takes, at the least.
        why: what of it takes them, in words, such as `Array 'x'`.
        kind: of the error.

    Raises:
        GraphError: or another kind; that is more than is free, or more than a file of its size may take.
    """
    chosen = _chosen()
    free = free_host_memory()
    size = path.stat().st_size
    allowed = max(SMALL, MOST_TIMES * size) if chosen is None else chosen
    what = f"{why} of {path}" if why else str(path)
    if need > allowed:
        raise kind(
            f"{what} takes {in_bytes(need)} in memory, and a file of {in_bytes(size)} may take {in_bytes(allowed)}.",
            remedy=f"If the file is what it should be, set the environment variable {VARIABLE} to more, such as "
            f"{-(-need // 10**9) + 1}GB.",
        )
    if free is not None and need > free:
        raise kind(
            f"{what} takes {in_bytes(need)} in memory, and {in_bytes(free)} are free.",
            remedy="Close other programs, or use a machine with more memory.",
        )


def in_bytes(number: int) -> str:
    """Return a number of bytes in words.

    >>> in_bytes(300), in_bytes(2_500_000), in_bytes(8 * 10**12)
    ('300 bytes', '2.5 MB', '8,000 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= unit:
            # More digits than a float has would be said of a shape that somebody made up.
            scaled = number / unit if number < 10**15 else number // unit
            return f"{scaled:,.1f} {name}".replace(".0 ", " ")
    return f"{number} bytes"


def free_host_memory(root: Path = Path("/")) -> int | None:
    """Return how many bytes more this process can use on the host; None where the system does not say.

    It is what the machine has available, what the process's control groups leave or what its own limits (`ulimit -d`,
    `-v`) do, whichever is least. A system that does not tell what is available, such as macOS, is taken at its whole
    memory.

    Args:
        root: where the system's files are found.
    """
    machine = _available(root)
    left = [*_left_in_groups(root), *_left_to_process(root)]
    return min([*left, *([] if machine is None else [machine])], default=None)


def _chosen() -> int | None:
    """Return the limit that the user chose, in bytes."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    chosen = parse_bytes(text)
    if chosen is None:
        raise GraphError(f"{VARIABLE} is {text!r}, which is no amount of memory.", remedy="Write it like 8GB.")
    return chosen


def parse_bytes(text: str) -> int | None:
    """Return an amount of memory as people write it, in bytes; None where it is none.

    >>> parse_bytes("8GB"), parse_bytes("1.5 g"), parse_bytes("much")
    (8000000000, 1500000000, None)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)i?b?", text.strip().lower())
    return None if found is None else int(float(found[1]) * _UNITS[found[2]])


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


def _left_to_process(root: Path) -> Iterator[int]:
    """Yield what each limit on the memory of this process leaves of it."""
    limits, used = _text(root / "proc/self/limits"), _numbers(root / "proc/self/status")
    for name, counted in (("Max data size", "VmData:"), ("Max address space", "VmSize:")):
        found = re.search(rf"^{name} +(\d+)", limits, re.MULTILINE)  # the soft one; there is none where it says so
        if found and counted in used:
            yield max(0, int(found[1]) - 1024 * used[counted])


def _numbers(path: Path) -> dict[str, int]:
    """Return the lines `name number ...` of a file by their names."""
    words = [line.split() for line in _text(path).splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) >= 2 and line[1].isdigit()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
