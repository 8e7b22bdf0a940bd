"""Where published files are kept on this machine, and how they get there.

A file is looked for under the data root ($FOSSIL_DATA), then under the user's cache; what is missing is downloaded
into the cache. A download takes its final name only when it is whole.
"""

from __future__ import annotations

import http.client
import os
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from fossil.errors import DataError
from fossil.storage import user_cache, write_atomically

TIMEOUT_SECONDS = 30


def cache_root() -> Path:
    """Return the folder that downloads go to: `$XDG_CACHE_HOME/fossil/datasets`, by default under `~/.cache`."""
    return user_cache("datasets")


def find_or_fetch(
    name: str, origins: Mapping[str, str], *, data_root: Path | str | None = None, download: bool = True
) -> Path:
    """Return a folder under which every file is present.

    Args:
        name: of the graph, for messages.
        origins: where each file is published, by its path below the folder. An address that ends in `.zip` is an
            archive in which the file has the same last two parts (`raw/edge.csv.gz`). What is no address says in words
            how to come by a file that is published nowhere.
        data_root: looked at first; by default `$FOSSIL_DATA`.
        download: whether missing files may be downloaded into the cache.

    Raises:
        DataError: the data root does not exist, or files are missing and cannot be downloaded.
    """
    _check_data_root(data_root)
    place = where(origins, data_root)
    if place is not None:
        return place
    why = "downloading was not allowed"
    if not all(map(is_address, origins.values())):
        why = "they are published nowhere"
    elif download:
        cache = cache_root()
        try:
            _fetch({file: origins[file] for file in _missing(origins, cache)}, cache)
        except (OSError, EOFError, http.client.HTTPException, zipfile.BadZipFile, zlib.error) as error:
            why = error.what if isinstance(error, DataError) else str(error) or type(error).__name__
        else:
            return cache
    raise _not_at_hand(name, origins, _places(data_root), why)


def where(origins: Mapping[str, str], data_root: Path | str | None = None) -> Path | None:
    """Return the folder under which every file is present already, or None; nothing is downloaded.

    Args:
        origins: as for `find_or_fetch`; only the paths of the files are read.
        data_root: looked at before the cache; by default `$FOSSIL_DATA`. One that does not exist holds no files.
    """
    return next((place for place in _places(data_root) if not _missing(origins, place)), None)


def is_address(origin: str) -> bool:
    """Tell an address from words about a file that is published nowhere."""
    return "://" in origin


def unpack(archive: IO[bytes], files: Iterable[str], root: Path) -> None:
    """Write the named files of a zip archive below `root`; nothing else in the archive is touched.

    Raises:
        DataError: the archive lacks a file, or has a member that points outside the archive.
    """
    with zipfile.ZipFile(archive) as content:
        members = content.namelist()
        for member in members:
            path = PurePosixPath(member.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
                raise DataError(
                    f"the archive has a member {member!r}, which points outside it; nothing was unpacked.",
                    remedy="Do not use this archive; fetch the published one.",
                )
        for file in files:
            tail = PurePosixPath(file).parts[-2:]
            found = [member for member in members if PurePosixPath(member).parts[-2:] == tail]
            if not found:
                raise DataError(f"the archive has no {'/'.join(tail)}.", remedy="Fetch the published archive.")
            with content.open(found[0]) as member_stream:
                _write(member_stream, root / file)


def _places(data_root: Path | str | None) -> list[Path]:
    """Return where files may be, in the order to look: the data root, if one is set, and the cache."""
    root = _data_root(data_root)
    return [cache_root()] if root is None else [root, cache_root()]


def _data_root(given: Path | str | None) -> Path | None:
    chosen = given if given is not None else os.environ.get("FOSSIL_DATA")
    if not chosen:
        return None
    try:
        return Path(chosen).expanduser()
    except RuntimeError:  # `~name` without a user of that name
        return Path(chosen)


def _check_data_root(given: Path | str | None) -> None:
    root = _data_root(given)
    if root is not None and not _answer(root.is_dir):
        which = "data_root" if given is not None else "$FOSSIL_DATA"
        raise DataError(f"{which} is {str(root)!r}, which is not a folder.", remedy="Correct or remove it.")


def _missing(files: Iterable[str], root: Path) -> list[str]:
    return [file for file in files if not _answer((root / file).is_file)]


def _answer(question: Callable[[], bool]) -> bool:
    """Ask `Path.is_file` or `Path.is_dir`; what lies in a folder that may not be read is not there."""
    try:
        return question()
    except OSError:
        return False


def _fetch(origins: Mapping[str, str], root: Path) -> None:
    """Download files, each archive once."""
    root.mkdir(parents=True, exist_ok=True)
    for address in dict.fromkeys(origins.values()):
        files = [file for file, origin in origins.items() if origin == address]
        with _downloaded(address, root) as stream:
            if address.endswith(".zip"):
                unpack(stream, files, root)
            else:
                _write(stream, root / files[0])


@contextmanager
def _downloaded(address: str, folder: Path) -> Iterator[IO[bytes]]:
    """Yield the content of `address` as an unnamed temporary file in `folder`."""
    with tempfile.TemporaryFile(dir=folder) as stream:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:
            shutil.copyfileobj(response, stream)
            promised = response.headers.get("Content-Length")
        if promised is not None and int(promised) != stream.tell():
            raise DataError(f"{address} sent {stream.tell():,} of {int(promised):,} bytes.", remedy="Try again.")
        stream.seek(0)
        yield stream


def _write(stream: IO[bytes], path: Path) -> None:
    write_atomically(path, lambda target: shutil.copyfileobj(stream, target))


def _not_at_hand(name: str, origins: Mapping[str, str], places: list[Path], why: str) -> DataError:
    """Say which files to bring, from where, and where to put them."""
    wanted = places[0]
    missing = _missing(origins, wanted)
    listed = "\n".join(f"  {wanted / file}\n    from {_published(file, origins[file])}" for file in missing)
    looked = " and ".join(str(place) for place in places)
    return DataError(
        f"The files of {name} are not under {looked}, and could not be downloaded ({why}).",
        remedy=f"Bring these files to this machine:\n{listed}",
    )


def _published(file: str, address: str) -> str:
    if address.endswith(".zip"):
        return f"{'/'.join(PurePosixPath(file).parts[-2:])} in {address}"
    return address
