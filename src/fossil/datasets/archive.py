"""Zip archives from elsewhere: only the files asked for are written, and only under names of our own."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO

from fossil.errors import DataError
from fossil.guard.budget import in_bytes
from fossil.storage import write_atomically

MOST_MEMBERS = 10_000
"""How many members an archive may have."""
MOST_TIMES = 100
"""How many times its own size an archive may unpack to."""

_REMEDY = "Do not use this archive; fetch the published one."


def unpack(archive: IO[bytes], files: Iterable[str], root: Path) -> None:
    """Write the named files of a zip archive below `root`; nothing else in the archive is touched.

    Raises:
        DataError: the archive lacks a file or has it twice or encrypted, unpacks to more than is plausible, or has a
            member that points outside the archive. Nothing is written then.
    """
    size = archive.seek(0, 2)
    archive.seek(0)
    with zipfile.ZipFile(archive) as content:
        members = content.infolist()
        if len(members) > MOST_MEMBERS:
            raise DataError(f"the archive has {len(members):,} members.", remedy=_REMEDY)
        for member in members:
            _check_name(member.filename)
        wanted = {file: _only(members, PurePosixPath(file).parts[-2:]) for file in files}
        unpacked = sum(member.file_size for member in wanted.values())
        if unpacked > MOST_TIMES * size:
            raise DataError(
                f"the archive of {in_bytes(size)} unpacks to {in_bytes(unpacked)}, over {MOST_TIMES} times as much.",
                remedy=_REMEDY,
            )
        for file, member in wanted.items():
            with content.open(member) as stream:
                write_atomically(root / file, lambda target, stream=stream: shutil.copyfileobj(stream, target))  # type: ignore[misc]


def _check_name(name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or any(":" in part for part in path.parts[:1]):
        raise DataError(
            f"the archive has a member {name!r}, which points outside it; nothing was unpacked.", remedy=_REMEDY
        )


def _only(members: list[zipfile.ZipInfo], tail: tuple[str, ...]) -> zipfile.ZipInfo:
    """Return the one member whose path ends like this."""
    found = [member for member in members if PurePosixPath(member.filename).parts[-len(tail) :] == tail]
    if len(found) != 1:
        times = f"{len(found)} times" if found else "no"
        raise DataError(f"the archive has {times} {'/'.join(tail)}.", remedy="Fetch the published archive.")
    if found[0].flag_bits & 1:
        raise DataError(f"{'/'.join(tail)} in the archive is encrypted.", remedy=_REMEDY)
    return found[0]
