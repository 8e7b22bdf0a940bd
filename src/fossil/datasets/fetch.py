"""Where published files are kept on this machine, and how they get there.

A file is looked for under the data root ($FOSSIL_DATA), then under the user's cache; what is missing is downloaded
into the cache. A download takes its final name only when it is the published file, byte for byte, or, where those bytes
are not known, when the graph in it is the published one. What in the cache is neither is downloaded again.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from fossil.datasets.archive import unpack
from fossil.datasets.pins import ARCHIVES, FILES, Pin
from fossil.datasets.verify import difference, differing
from fossil.errors import DataError, FossilError, warn_the_caller
from fossil.guard.boundary import reason
from fossil.guard.budget import in_bytes
from fossil.storage import user_cache, write_atomically

TIMEOUT_SECONDS = 30
LARGEST_DOWNLOAD = 2**30
"""Where to stop when it is not known how large a file is, in bytes."""

T = TypeVar("T")


def cache_root() -> Path:
    """Return the folder that downloads go to: `$XDG_CACHE_HOME/fossil/datasets`, by default under `~/.cache`."""
    return user_cache("datasets")


def find_or_fetch(
    name: str,
    origins: Mapping[str, str],
    read: Callable[[Path], T],
    *,
    data_root: Path | str | None = None,
    download: bool = True,
) -> T:
    """Return what `read` makes of a folder under which every file is present.

    Args:
        name: of the graph, for messages.
        origins: where each file is published, by its path below the folder. An address that ends in `.zip` is an
            archive in which the file has the same last two parts (`raw/edge.csv.gz`). What is no address says in words
            how to come by a file that is published nowhere.
        read: reads the files; it raises DataError where they are not the published ones.
        data_root: looked at first; by default `$FOSSIL_DATA`.
        download: whether missing or damaged files may be downloaded into the cache.

    Raises:
        DataError: the data root does not exist or holds other files, or files are missing and cannot be downloaded.

    Warns:
        FossilWarning: a file in the cache was damaged, and was fetched anew.
    """
    _check_data_root(data_root)
    *own, cache = _places(data_root)
    if own and not _missing(origins, own[0]):
        return _read_own(own[0], origins, read)
    missing = _missing(origins, cache)
    wrong = differing(cache, [file for file in origins if file not in missing])
    if not missing and not wrong:
        try:
            return read(cache)
        except DataError as error:
            wrong = {file: error.what for file in origins if file not in FILES}
            if not wrong:
                raise
    why = "downloading was not allowed"
    if not all(map(is_address, origins.values())):
        why = "they are published nowhere"
    elif download:
        try:
            _fetch({file: origins[file] for file in origins if file in missing or file in wrong}, cache, origins, read)
        except FossilError as error:
            why = error.what
        except Exception as error:  # whatever a server sends, and whatever it makes of the libraries that read it
            why = str(error) if isinstance(error, OSError) else reason(error)
        else:
            if wrong:
                file = next(iter(wrong))
                warn_the_caller(f"{cache / file} was not the published file ({wrong[file]}); it was fetched anew.")
            return read(cache)
    raise _not_at_hand(name, origins, _places(data_root), why, wrong)


def _read_own(root: Path, origins: Mapping[str, str], read: Callable[[Path], T]) -> T:
    """Read files that the user keeps, and that are the user's to mend."""
    for file, why in differing(root, origins).items():
        raise DataError(
            f"{root / file} is not the published file: {why}.",
            remedy=f"Replace it by {_published(file, origins[file])}, or give the folder as a graph of your own.",
        )
    return read(root)


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


def _fetch(wanted: Mapping[str, str], root: Path, origins: Mapping[str, str], read: Callable[[Path], object]) -> None:
    """Download the wanted files into `root`, each archive once."""
    root.mkdir(parents=True, exist_ok=True)
    for address in dict.fromkeys(wanted.values()):
        files = [file for file, origin in wanted.items() if origin == address]
        archive = address.endswith(".zip")
        pin = ARCHIVES.get(address.rpartition("/")[2]) if archive else FILES.get(files[0])
        with _downloaded(address, pin, root) as stream, tempfile.TemporaryDirectory(dir=root) as staging:
            place = root if pin is not None else Path(staging)
            if archive:
                unpack(stream, files, place)
            else:
                write_atomically(place / files[0], lambda target, stream=stream: _copy(stream, target))  # type: ignore[misc]
            if pin is None:
                if set(files) == set(origins):
                    _check_graph(address, place, read)
                for file in files:
                    (root / file).parent.mkdir(parents=True, exist_ok=True)
                    (place / file).replace(root / file)


def _check_graph(address: str, place: Path, read: Callable[[Path], object]) -> None:
    """Look at the graph in a file whose published bytes are not known."""
    try:
        read(place)
    except FossilError as error:
        said = error.what.replace(f"{place}{os.sep}", "").replace(str(place), "it")
        raise DataError(f"{address} did not send the published graph: {said}", remedy="Try again.") from error


def open_address(address: str) -> Any:
    """Open an address over HTTPS; any other protocol is refused, also where a server redirects to it."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener.open(address, timeout=TIMEOUT_SECONDS)


@contextmanager
def _downloaded(address: str, pin: Pin | None, folder: Path) -> Iterator[IO[bytes]]:
    """Yield the content of `address` as an unnamed temporary file in `folder`.

    Raises:
        DataError: it is not as long as the server said, or not the published file.
    """
    most = (pin.size if pin is not None else None) or LARGEST_DOWNLOAD
    with tempfile.TemporaryFile(dir=folder) as stream:
        with open_address(address) as response:
            promised = response.headers.get("Content-Length")
            if promised is not None and not promised.strip().isdecimal():
                raise DataError(f"{address} announced {promised!r} bytes.", remedy="Try again.")
            if not _copy(response, stream, most):
                raise DataError(f"{address} sent more than {in_bytes(most)}.", remedy="Try again.")
        if promised is not None and int(promised) != stream.tell():
            raise DataError(f"{address} sent {stream.tell():,} of {int(promised):,} bytes.", remedy="Try again.")
        stream.seek(0)
        why = "" if pin is None else difference(stream, pin)
        if why:
            raise DataError(f"{address} did not send the published file: {why}", remedy="Try again.")
        stream.seek(0)
        yield stream


def _copy(source: IO[bytes], target: IO[bytes], most: int = LARGEST_DOWNLOAD) -> bool:
    """Copy at most so many bytes; tell whether that was all."""
    left = most + 1
    while left > 0 and (block := source.read(min(left, 1 << 20))):
        target.write(block)
        left -= len(block)
    return left > 0


def _not_at_hand(
    name: str, origins: Mapping[str, str], places: list[Path], why: str, wrong: Mapping[str, str]
) -> DataError:
    """Say which files to bring, from where, and where to put them."""
    wanted = places[0]
    missing = [file for file in origins if file in wrong or file in _missing(origins, wanted)]
    listed = "\n".join(f"  {wanted / file}\n    from {_published(file, origins[file])}" for file in missing)
    looked = " and ".join(str(place) for place in places)
    damaged = "".join(f" {places[-1] / file} is not the published file: {how}." for file, how in [*wrong.items()][:1])
    return DataError(
        f"The files of {name} are not under {looked}, and could not be downloaded ({why.rstrip('.')}).{damaged}",
        remedy=f"Bring these files to this machine:\n{listed}",
    )


def _published(file: str, address: str) -> str:
    if address.endswith(".zip"):
        return f"{'/'.join(PurePosixPath(file).parts[-2:])} in {address}"
    return address
